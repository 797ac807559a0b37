//! A run that went well, and one thing after the other that must not be.

use serde_json::json;

use super::*;
use crate::chaos::cluster::{crew::Death, notes};

/// A run whose worker died over `heard`, which another repeated.
fn good() -> Evidence {
    let mut saw = serde_json::Map::new();
    let mut ledger = String::new();
    let mut at = 1000;
    let mut line = |process: &str, note: Value| {
        at += 10;
        ledger += &json!({ "at": at, "process": process, "note": note }).to_string();
        ledger.push('\n');
    };
    line("worker-0.0", json!({ "leg": { "run": "1.0", "leg": "worker-0.0/0" } }));
    for step in STEPS {
        let effect = |value: &str, saw: &serde_json::Map<String, Value>, leg: &str| json!({ "effect": { "run": "1.0", "step": step, "value": value, "saw": saw, "leg": leg } });
        if step == "heard" {
            line("worker-0.0", effect("repeated", &saw, "worker-0.0/0"));
            line("worker-1.0", json!({ "leg": { "run": "1.0", "leg": "worker-1.0/0" } }));
        }
        line("worker-1.0", effect(step, &saw, "worker-1.0/0"));
        line("worker-1.0", json!({ "saw": { "run": "1.0", "step": step, "value": step } }));
        saw.insert(step.to_owned(), json!(step));
    }
    line("worker-1.0", json!({ "over": { "leg": "worker-1.0/0" } }));
    let report = json!({ "run": "1.0", "word": "word-1.0", "values": saw, "unknown": [] });
    let end = json!({ "status": "completed", "result": { "structuredContent": report } });
    let run = Run {
        name: "1.0".into(),
        task: "a".into(),
        word: "word-1.0".into(),
        needs: 2,
        end: Some(end),
        keys: ["word".to_owned()].into(),
        ..Run::default()
    };
    let death = Death { process: "worker-0.0".into() };
    Evidence {
        runs: vec![run],
        lines: notes::parse(&ledger).unwrap(),
        deaths: [(death.process.clone(), death)].into(),
        orphans: vec![("1.0".into(), false)],
        looked_again: 2,
        ..Evidence::default()
    }
}

/// The laws that are broken.
fn broken(evidence: &Evidence) -> Vec<&'static str> {
    let (verdicts, _) = all(evidence);
    verdicts.into_iter().filter(|it| !it.complaints.is_empty()).map(|it| it.law).collect()
}

fn values(evidence: &mut Evidence) -> &mut Value {
    &mut evidence.runs[0].end.as_mut().unwrap()["result"]["structuredContent"]
}

fn again(evidence: &mut Evidence, step: &str, process: &str, at: u64) {
    let leg = format!("{process}/0");
    let note = json!({ "effect": { "run": "1.0", "step": step, "value": "another", "saw": {}, "leg": leg } });
    let line = json!({ "at": at, "process": process, "note": note }).to_string() + "\n";
    evidence.lines.extend(notes::parse(&line).unwrap());
}

#[test]
fn a_run_that_survived_a_death_breaks_no_law() {
    let evidence = good();
    let (verdicts, tally) = all(&evidence);
    assert_eq!(broken(&evidence), [""; 0], "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| verdict.examined > 0), "{verdicts:?}");
    assert_eq!((tally.legs, tally.more_legs, tally.effects), (2, 0, 9));
    assert_eq!(tally.repeats, [(Cause::Death, 1)].into());
}

#[test]
fn a_run_without_an_end_is_seen() {
    let mut evidence = good();
    evidence.runs[0].end = None;
    assert!(broken(&evidence).contains(&"every run ends"));
}

#[test]
fn a_value_that_never_happened_is_seen() {
    let mut evidence = good();
    values(&mut evidence)["values"]["end"] = json!("invented");
    assert!(broken(&evidence).contains(&"every result is what its steps came to"));
}

#[test]
fn a_failed_run_is_seen() {
    let mut evidence = good();
    evidence.runs[0].end = Some(json!({ "status": "failed", "error": {} }));
    assert!(broken(&evidence).contains(&"every result is what its steps came to"));
}

#[test]
fn a_value_that_was_seen_and_forgotten_is_seen() {
    let mut evidence = good();
    again(&mut evidence, "begin", "worker-0.0", 1011);
    values(&mut evidence)["values"]["begin"] = json!("another");
    assert!(broken(&evidence).contains(&"what a tool has seen it sees again"));
}

#[test]
fn what_may_happen_once_and_happened_twice_is_seen() {
    let mut evidence = good();
    again(&mut evidence, "ship", "worker-0.0", 1011);
    assert_eq!(broken(&evidence), ["at most once is at most once"]);
}

#[test]
fn a_step_repeated_by_a_leg_that_came_to_its_end_is_seen() {
    let mut evidence = good();
    again(&mut evidence, "left", "worker-1.0", 1100);
    assert_eq!(broken(&evidence), ["a step is repeated only where somebody died"]);
    // The process died, but not over this leg: the leg was over before.
    let death = Death { process: "worker-1.0".into() };
    evidence.deaths.insert(death.process.clone(), death);
    assert_eq!(broken(&evidence), ["a step is repeated only where somebody died"]);
    evidence.absences.push((1000, 1200));
    assert_eq!(broken(&evidence), [""; 0]);
}

#[test]
fn a_step_repeated_after_its_value_was_written_down_is_seen() {
    let mut evidence = good();
    again(&mut evidence, "heard", "worker-0.0", 1045);
    assert_eq!(broken(&evidence), [""; 0]);
    let saw = json!({ "saw": { "run": "1.0", "step": "heard", "value": "another" } });
    let line = json!({ "at": 1046, "process": "worker-0.0", "note": saw }).to_string() + "\n";
    evidence.lines.extend(notes::parse(&line).unwrap());
    assert_eq!(broken(&evidence), ["a step is repeated only where somebody died"]);
}

#[test]
fn a_run_that_was_left_alone_and_did_not_end_is_seen() {
    let mut evidence = good();
    evidence.lines.retain(|line| !matches!(&line.note, Note::Effect { step, .. } if step == "end"));
    assert!(broken(&evidence).contains(&"a run that is left alone comes to its end"));
    let mut evidence = good();
    evidence.stranded.push("2.0".into());
    assert_eq!(broken(&evidence), ["a run that is left alone comes to its end"]);
}

#[test]
fn a_run_that_stands_at_its_question_with_an_unknown_charge_is_not_behind() {
    let mut evidence = good();
    evidence.orphans.push(("9.0".into(), true));
    let note = |evidence: &mut Evidence, note: serde_json::Value| {
        let line = json!({ "at": 1100, "process": "worker-0.0", "note": note }).to_string() + "\n";
        evidence.lines.extend(notes::parse(&line).unwrap());
    };
    note(&mut evidence, json!({ "leg": { "run": "9.0", "leg": "worker-0.0/9" } }));
    assert_eq!(broken(&evidence), ["a run that is left alone comes to its end"]);
    note(&mut evidence, json!({ "unknown": { "run": "9.0", "step": "charge" } }));
    assert_eq!(broken(&evidence), [""; 0]);
}

#[test]
fn nobody_knowing_without_a_death_is_seen() {
    let mut evidence = good();
    let report = values(&mut evidence);
    report["values"].as_object_mut().unwrap().remove("ship");
    report["unknown"] = json!(["ship"]);
    // The leg that took the step came to its end.
    let began = json!({ "at": 1100, "process": "worker-1.0", "note": { "began": { "run": "1.0", "step": "ship", "leg": "worker-1.0/0" } } });
    evidence.lines.extend(notes::parse(&(began.to_string() + "\n")).unwrap());
    assert!(broken(&evidence).contains(&"nobody knows only where somebody died"));
    // Its process died over it.
    evidence.lines.retain(|line| !matches!(line.note, Note::Over { .. }));
    let death = Death { process: "worker-1.0".into() };
    evidence.deaths.insert(death.process.clone(), death);
    assert!(!broken(&evidence).contains(&"nobody knows only where somebody died"));
}

#[test]
fn what_clients_complain_of_is_seen() {
    let mut evidence = good();
    evidence.runs[0].lost.push("gone".into());
    evidence.runs[0].reused.push("asked again".into());
    evidence.changed.push("another".into());
    let expected =
        ["a task that was created is known", "a result does not change", "a key is asked once on the wire"];
    assert_eq!(broken(&evidence), expected);
}
