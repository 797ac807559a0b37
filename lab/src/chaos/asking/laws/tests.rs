//! A run without a fault, and one fault after the other.

use serde_json::{Value, json};

use super::super::run::Question;
use super::*;
use crate::chaos::cluster::notes;

const TASK: &str = "t_00000000000000000000000000000001";

fn good() -> Evidence {
    let values = json!({ "begin": "b", "word": "one", "use": "u", "second_word": "two", "use_again": "a" });
    let finding =
        json!({ "run": "case-3.0", "text": "case-3.0: one and two", "values": values, "unknown": [] });
    let checks = || Checks { examined: 1, complaints: Vec::new() };
    let replies = [("other", Reply::Used), ("one", Reply::Taken), ("one", Reply::Lost)];
    let replies = replies.map(|(word, reply)| (word.to_owned(), reply)).into();
    let first = Question { replies, foreign: vec!["foreign".into()] };
    let second = Question { replies: vec![("two".into(), Reply::Lost)], foreign: Vec::new() };
    let run = Run {
        name: "case-3.0".into(),
        user: "user-03".into(),
        task: TASK.into(),
        asks_twice: true,
        questions: [("word".to_owned(), first), ("second_word".to_owned(), second)].into(),
        end: Some(json!({ "structuredContent": finding })),
        listed: [TASK.to_owned()].into(),
        waiting: checks(),
        known: checks(),
        misfits: checks(),
        foreign: checks(),
        secrets: checks(),
        ..Run::default()
    };
    let notes = [
        json!({ "leg": { "run": "case-3.0", "leg": "front-0.0/0" } }),
        effect("begin", "b", &json!({})),
        json!({ "saw": { "run": "case-3.0", "step": "begin", "value": "b" } }),
        json!({ "saw": { "run": "case-3.0", "step": "word", "value": "one" } }),
        effect("use", "u", &json!({ "begin": "b", "word": "one" })),
        json!({ "saw": { "run": "case-3.0", "step": "word", "value": "one" } }),
        json!({ "saw": { "run": "case-3.0", "step": "second_word", "value": "two" } }),
        effect("use_again", "a", &json!({ "begin": "b", "word": "one", "use": "u", "second_word": "two" })),
    ];
    let mut evidence = Evidence { runs: vec![run], looked_again: checks(), ..Evidence::default() };
    for note in notes {
        add(&mut evidence, &note);
    }
    evidence
}

fn effect(step: &str, value: &str, saw: &Value) -> Value {
    let leg = "worker-0.0/0";
    json!({ "effect": { "run": "case-3.0", "step": step, "value": value, "saw": saw, "leg": leg } })
}

fn add(evidence: &mut Evidence, note: &Value) {
    let line = json!({ "at": 1000, "process": "worker-0.0", "note": note }).to_string() + "\n";
    evidence.lines.extend(notes::parse(&line).unwrap());
}

/// Returns the rules that are broken.
fn broken(evidence: &Evidence) -> Vec<&'static str> {
    all(evidence).into_iter().filter(|it| !it.complaints.is_empty()).map(|it| it.law).collect()
}

fn replies(evidence: &mut Evidence) -> &mut Vec<(String, Reply)> {
    &mut evidence.runs[0].questions.get_mut("word").unwrap().replies
}

#[test]
fn good_run_breaks_no_law() {
    let evidence = good();
    let verdicts = all(&evidence);
    assert_eq!(broken(&evidence), [""; 0], "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| verdict.examined > 0), "{verdicts:?}");
    let tally = tally(&evidence);
    assert_eq!((tally.legs, tally.effects, tally.unknown), (1, 3, 0));
    assert_eq!((tally.answers, tally.taken, tally.used, tally.lost), (4, 1, 1, 2));
}

#[test]
fn run_without_an_end_is_found() {
    let mut evidence = good();
    evidence.runs[0].end = None;
    // Its acknowledged answer had no effect.
    assert_eq!(broken(&evidence), [ENDS, "an acknowledged answer is not lost"]);
}

#[test]
fn lost_answer_is_found() {
    let mut evidence = good();
    replies(&mut evidence).insert(0, ("early".into(), Reply::Taken));
    assert!(broken(&evidence).contains(&"an acknowledged answer is not lost"));
}

#[test]
fn second_acknowledged_answer_is_found() {
    let mut evidence = good();
    replies(&mut evidence)[0].1 = Reply::Taken;
    let again = "the same answers are acknowledged again, others are not";
    assert_eq!(broken(&evidence), ["an acknowledged answer is not lost", ONCE, again]);
}

#[test]
fn refusal_of_the_same_answer_is_found() {
    let mut evidence = good();
    replies(&mut evidence)[2].1 = Reply::Used;
    assert_eq!(broken(&evidence), ["the same answers are acknowledged again, others are not"]);
}

#[test]
fn answer_that_differs_between_legs_is_found() {
    let mut evidence = good();
    add(&mut evidence, &json!({ "saw": { "run": "case-3.0", "step": "word", "value": "other" } }));
    assert_eq!(broken(&evidence), [ONCE]);
}

#[test]
fn effect_with_another_answer_is_found() {
    let mut evidence = good();
    add(&mut evidence, &effect("more", "m", &json!({ "word": "other" })));
    assert_eq!(broken(&evidence), [ONCE]);
}

#[test]
fn effect_that_happened_twice_is_found() {
    let mut evidence = good();
    add(&mut evidence, &effect("use", "again", &json!({ "word": "one" })));
    assert_eq!(broken(&evidence), [EFFECT]);
}

#[test]
fn answer_of_another_user_is_found() {
    let mut evidence = good();
    evidence.runs[0].foreign.check(false, || "taken".into());
    assert_eq!(broken(&evidence), [OWNER]);
    let mut evidence = good();
    add(&mut evidence, &json!({ "saw": { "run": "case-9.0", "step": "word", "value": "foreign" } }));
    assert_eq!(broken(&evidence), [OWNER]);
}

#[test]
fn task_of_another_user_in_a_list_is_found() {
    let mut evidence = good();
    let theirs = format!("t_{:032x}", 2);
    let other = Run { user: "user-04".into(), task: theirs.clone(), ..Run::default() };
    evidence.runs.push(other);
    evidence.runs[0].listed.insert(theirs);
    assert!(broken(&evidence).contains(&"no reply names another user's task"));
}

#[test]
fn result_that_does_not_follow_is_found() {
    for (place, value) in [("text", "case-3.0: one"), ("run", "case-4.0")] {
        let mut evidence = good();
        evidence.runs[0].end.as_mut().unwrap()["structuredContent"][place] = json!(value);
        assert_eq!(broken(&evidence), ["every result follows from its answers"]);
    }
    let mut evidence = good();
    evidence.runs[0].end.as_mut().unwrap()["structuredContent"]["values"]["use"] = json!("invented");
    assert_eq!(broken(&evidence), ["every result follows from its answers"]);
    evidence.runs[0].end.as_mut().unwrap()["isError"] = json!(true);
    assert!(broken(&evidence).contains(&"every result follows from its answers"));
}

#[test]
fn step_with_an_unknown_outcome_needs_no_effect() {
    let mut evidence = good();
    let finding = &mut evidence.runs[0].end.as_mut().unwrap()["structuredContent"];
    finding["values"].as_object_mut().unwrap().remove("use");
    finding["unknown"] = json!(["use"]);
    assert_eq!(broken(&evidence), [""; 0]);
    evidence.lines.retain(|line| !matches!(&line.note, Note::Effect { step, .. } if step == "use"));
    assert_eq!(broken(&evidence), [""; 0]);
}

#[test]
fn complaints_of_clients_are_found() {
    let mut evidence = good();
    let run = &mut evidence.runs[0];
    for checks in [&mut run.known, &mut run.waiting, &mut run.misfits, &mut run.secrets] {
        checks.check(false, || "no".into());
    }
    evidence.looked_again.check(false, || "changed".into());
    evidence.stranded.push("left".into());
    let expected = [
        "no reply names another user's task",
        "tasks, tickets and forms are good on every replica",
        "a waiting result names its task in text and in data",
        "an answer that does not fit uses nothing up",
        "a result does not change",
        "no run is left without a worker",
    ];
    assert_eq!(broken(&evidence), expected);
}
