//! What a driver may do to the machine in odd moments.

use antiphon_replay::{Advance, Blocked, Drift, Failure, Journal, Key, Machine, Op, Outcome, Turn};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::{Value, json};

use crate::harness::{Ctx, End, Leg, drive};

/// A machine whose code waits for `keys`, drained.
fn asking(keys: &[&str]) -> Machine {
    let mut machine = Machine::new(Journal::new("run"));
    for key in keys {
        assert_eq!(ask(&mut machine, key), Turn::Wait);
    }
    assert_eq!(machine.advance(), Ok(Advance::Opened));
    assert_eq!(machine.advance(), Ok(blocked(keys.len(), 0)));
    machine
}

fn ask(machine: &mut Machine, key: &str) -> Turn {
    machine.ask(&key.into(), &Op::ask(key, &json!(key)), || json!(key))
}

fn step(machine: &mut Machine, key: &str) -> Turn {
    machine.step(&key.into(), &Op::step(key))
}

/// Takes a step up to where it runs: it begins when the code is at rest.
#[track_caller]
fn start(machine: &mut Machine, key: &str) {
    assert_eq!(step(machine, key), Turn::Wait);
    assert_eq!(machine.advance(), Ok(Advance::Opened));
    assert_eq!(step(machine, key), Turn::Start);
}

fn blocked(asks: usize, running: usize) -> Advance {
    Advance::Blocked(Blocked { asks, running })
}

fn answer(text: &str) -> Turn {
    Turn::Ready(Outcome::Answer(json!(text)))
}

#[track_caller]
fn check_recorded(machine: Machine, keys: &[&str]) {
    let journal = machine.complete_run().expect("no drift");
    let recorded: Vec<_> = journal.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(recorded, keys);
}

#[test]
fn answers_that_come_while_the_code_waits_are_recorded_as_the_code_sees_them() {
    let mut machine = asking(&["a", "b", "c"]);
    machine.answer(&"a".into(), json!("A"));
    machine
        .fail(&"b".into(), Failure { message: "gone".into(), code: Some(-1), terminal: false, kind: None });
    assert_eq!(machine.pending(), [(&"c".into(), &json!("c"))]);
    assert!(matches!(ask(&mut machine, "b"), Turn::Ready(Outcome::Failed(_))));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    check_recorded(machine, &["b", "a"]);
}

#[test]
fn what_is_replayed_is_not_counted_as_done() {
    let mut machine = asking(&["a", "b"]);
    machine.answer(&"a".into(), json!("A"));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    start(&mut machine, "step");
    machine.finish(&"step".into(), Ok(json!(1)));
    let tally = machine.tally();
    assert_eq!((tally.asks, tally.steps, tally.replayed), (1, 1, 0));
    let journal = machine.suspend().expect("no drift").journal;
    let mut machine = Machine::new(journal).with_answers([("b".into(), json!("B"))]);
    for key in ["a", "b"] {
        assert_eq!(ask(&mut machine, key), Turn::Wait);
    }
    assert_eq!(machine.advance(), Ok(Advance::Deliver("a".into())));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    assert_eq!(step(&mut machine, "step"), Turn::Wait);
    assert_eq!(machine.advance(), Ok(Advance::Deliver("step".into())));
    assert!(matches!(step(&mut machine, "step"), Turn::Ready(_)));
    while machine.advance() != Ok(Advance::Deliver("b".into())) {}
    assert_eq!(ask(&mut machine, "b"), answer("B"));
    let tally = machine.tally();
    assert_eq!((tally.asks, tally.steps, tally.replayed), (1, 0, 2));
}

#[test]
fn questions_are_pending_in_the_order_in_which_they_were_asked() {
    let machine = asking(&["c", "a", "b"]);
    let keys: Vec<_> = machine.pending().into_iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["c", "a", "b"]);
}

#[test]
fn of_two_answers_to_one_question_the_first_counts() {
    let mut machine = asking(&["a"]);
    machine.answer(&"a".into(), json!("1"));
    machine.answer(&"a".into(), json!("2"));
    machine.refuse(&"a".into(), "late");
    assert_eq!(ask(&mut machine, "a"), answer("1"));
    machine.answer(&"a".into(), json!("3"));
    check_recorded(machine, &["a"]);
}

#[test]
fn an_answer_to_a_step_is_none() {
    let mut machine = asking(&[]);
    start(&mut machine, "s");
    machine.answer(&"s".into(), json!("1"));
    assert_eq!(machine.advance(), Ok(blocked(0, 1)));
    machine.finish(&"s".into(), Ok(json!("2")));
    check_recorded(machine, &["s"]);
}

#[test]
fn nothing_new_is_told_before_the_journal_is_drained() {
    let mut machine = asking(&["a"]);
    machine.answer(&"a".into(), json!("A"));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    let journal = machine.suspend().expect("no drift").journal;

    let mut machine = Machine::new(journal);
    assert_eq!(ask(&mut machine, "a"), Turn::Wait);
    assert_eq!(ask(&mut machine, "b"), Turn::Wait);
    machine.refuse(&"b".into(), "too early");
    assert_eq!(machine.advance(), Ok(Advance::Deliver("a".into())));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    assert_eq!(ask(&mut machine, "b"), Turn::Wait);
}

#[test]
fn an_answer_dropped_before_it_was_seen_is_not_recorded() {
    let mut machine = asking(&["a", "b"]);
    machine.answer(&"a".into(), json!("A"));
    machine.leave(&"a".into());
    assert_eq!(machine.advance(), Ok(blocked(1, 0)));
    machine.answer(&"b".into(), json!("B"));
    assert_eq!(machine.advance(), Ok(blocked(0, 0)), "the code has come to rest without looking");
    machine.leave(&"b".into());
    check_recorded(machine, &[]);
}

#[test]
fn a_step_dropped_while_it_runs_counts_as_not_taken() {
    let mut machine = asking(&[]);
    start(&mut machine, "s");
    assert_eq!(step(&mut machine, "s"), Turn::Wait, "it starts once");
    machine.leave(&"s".into());
    machine.finish(&"s".into(), Ok(json!(1)));
    assert_eq!(machine.advance(), Ok(blocked(0, 0)));
    start(&mut machine, "s");
    machine.finish(&"s".into(), Ok(json!(2)));
    machine.finish(&"s".into(), Ok(json!(3)));
    assert_eq!(machine.advance(), Ok(blocked(0, 0)));
    check_recorded(machine, &["s"]);
}

#[test]
fn what_was_not_started_cannot_finish() {
    let mut machine = Machine::new(Journal::new("run"));
    assert_eq!(step(&mut machine, "s"), Turn::Wait);
    machine.finish(&"s".into(), Ok(json!(1)));
    machine.finish(&"t".into(), Ok(json!(1)));
    assert_eq!(machine.advance(), Ok(Advance::Opened));
    assert_eq!(step(&mut machine, "s"), Turn::Start);
    assert_eq!(machine.advance(), Ok(blocked(0, 1)));
}

#[test]
fn a_recorded_step_that_is_dropped_unseen_stays_recorded() {
    let mut machine = asking(&[]);
    start(&mut machine, "s");
    machine.finish(&"s".into(), Ok(json!(1)));
    let journal = machine.suspend().expect("no drift").journal;

    let mut machine = Machine::new(journal);
    assert_eq!(step(&mut machine, "s"), Turn::Wait);
    assert_eq!(machine.advance(), Ok(Advance::Deliver("s".into())));
    machine.leave(&"s".into());
    check_recorded(machine, &["s"]);
}

#[test]
fn code_that_is_late_can_be_handed_its_entry_later() {
    let mut machine = asking(&["a"]);
    machine.answer(&"a".into(), json!("A"));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    let journal = machine.suspend().expect("no drift").journal;

    // The code waits for I/O of its own before it asks; only the driver can know.
    let mut machine = Machine::new(journal);
    for _ in 0..3 {
        assert!(matches!(machine.advance(), Err(Drift::Unexpected { at: 0, .. })));
    }
    assert_eq!(ask(&mut machine, "a"), Turn::Wait);
    assert_eq!(machine.advance(), Ok(Advance::Deliver("a".into())));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    assert_eq!(machine.advance(), Ok(Advance::Opened));
}

#[test]
fn the_request_of_an_answered_question_is_not_built_again() {
    let mut machine = asking(&["a"]);
    machine.answer(&"a".into(), json!("A"));
    assert_eq!(ask(&mut machine, "a"), answer("A"));
    let journal = machine.suspend().expect("no drift").journal;

    let mut machine = Machine::new(journal);
    let op = Op::ask("a", &json!("a"));
    let turn = machine.ask(&"a".into(), &op, || panic!("nobody looks at it"));
    assert_eq!(turn, Turn::Wait);
}

#[test]
fn a_question_left_and_asked_anew_does_not_take_the_old_answer() {
    let suspension = asking(&["a"]).suspend().expect("no drift");
    let mut machine = Machine::new(suspension.journal).with_answers([("a".into(), json!("A"))]);
    assert_eq!(ask(&mut machine, "a"), Turn::Wait);
    machine.leave(&"a".into());
    assert_eq!(ask(&mut machine, "a"), Turn::Wait);
    assert_eq!(machine.advance(), Ok(Advance::Opened));
    assert_eq!(machine.advance(), Ok(blocked(1, 0)));
}

#[test]
fn only_the_last_key_of_a_name_can_be_given_back() {
    let mut machine = Machine::new(Journal::new("run"));
    let take = |machine: &mut Machine| machine.take_key("part#2", "q");
    let [first, second] = [take(&mut machine), take(&mut machine)];
    machine.return_key(&first);
    assert_eq!(take(&mut machine).as_str(), "part#2/q#3");
    machine.return_key(&second.attempt(3));
    machine.return_key(&"part#2/q#3#3".into());
    machine.return_key(&"part#2/other".into());
    assert_eq!(take(&mut machine).as_str(), "part#2/q#4");
    machine.return_key(&"part#2/q#4".into());
    assert_eq!(take(&mut machine).as_str(), "part#2/q#4");
}

#[test]
fn a_key_knows_its_name_and_its_scope() {
    let key = Key::from("a#2/b/c#3~4");
    assert_eq!(key.name(), "c");
    for scope in ["a#2", "a#2/b", "a#2/b/c#3~4"] {
        assert!(key.is_within(scope), "{key} is within {scope}");
    }
    for scope in ["", "a", "a#", "a#2/", "a#2/b/c", "b"] {
        assert!(!key.is_within(scope), "{key} is not within {scope}");
    }
}

#[test]
fn thousands_of_questions_are_answered_in_one_round() {
    async fn many(ctx: Ctx) -> String {
        let asks: FuturesUnordered<_> = (0..3000).map(|n| ctx.ask("q", &n.to_string())).collect();
        asks.collect::<Vec<_>>().await.len().to_string()
    }
    let mut leg = Leg::new(Journal::new("run"));
    let End::Suspended(suspension) = drive(many, &leg) else { panic!("expected questions") };
    leg.journal = suspension.journal;
    leg.answers = suspension.asks.into_keys().map(|key| (key, Value::Null)).collect();
    let End::Done(done, journal) = drive(many, &leg) else { panic!("expected a result") };
    assert_eq!(done, "3000");
    leg.journal = journal;
    assert!(matches!(drive(many, &leg), End::Done(done, _) if done == "3000"));
}

#[test]
fn number_that_was_recorded_is_the_same_to_its_last_bit() {
    // Read without care, each of these is its neighbour.
    for number in [31.245_270_191_439_438_f64, 121.487_919_511_619_45, 0.1 + 0.2, f64::MIN_POSITIVE, 5e-324] {
        let mut machine = Machine::new(Journal::new("run"));
        start(&mut machine, "n");
        machine.finish(&"n".into(), Ok(json!(number)));
        let written = machine.complete_run().expect("no drift").to_json();
        let read = Journal::from_json(&written).unwrap();
        let Outcome::Done(value) = &read.entries[0].outcome else { panic!("{read:?}") };
        assert_eq!(value.as_f64().map(f64::to_bits), Some(number.to_bits()), "{number:?}");
    }
}
