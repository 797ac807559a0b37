//! Applies changes in random orders, and checks the rules that must hold after each change.

use antiphon_replay::{Advance, Machine, Op, Suspension, Turn};
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::{output::ToolOutput, run::Channels};

/// The tool of these tests asks two groups of questions. The questions of a group are open at the same time.
const GROUPS: [&[&str]; 2] = [&["name", "colour"], &["approve"]];

const MAX_WAIT: u64 = 5_000;

fn request(key: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": key}})
}

fn accepted(key: &str) -> Value {
    json!({"action": "accept", "content": {"value": key}})
}

fn record() -> TaskRecord {
    let json = json!({
        "v": 1, "id": "1", "tool": "paint", "arguments": {}, "principal": null, "rounds": true,
        "capabilities": {}, "status": "working", "message": null, "created": 1000, "updated": 1000,
        "ttl": null, "poll": 1000, "journal": Journal::new("1"), "serial": 1, "written": 1,
        "asks": {}, "answers": {}, "put": {}, "job": {"number": 1, "at": 1000}, "jobs": 1, "held": null,
        "legs": 0, "failures": 0, "ended": null, "cleaning": false, "dead": false, "events": [],
    });
    TaskRecord::read(&serde_json::to_vec(&json).unwrap()).unwrap()
}

/// The result of an execution of the tool.
enum Leg {
    Done(Journal),
    Waits(Suspension),
}

/// Executes the tool with the journal and the answers of a record.
fn execute(record: &TaskRecord) -> Leg {
    let answers = record.answers.iter().map(|(key, answer)| (Key::from(key.as_str()), answer.clone()));
    let mut machine = Machine::new(record.journal.clone()).with_answers(answers).with_fits(fits);
    for group in GROUPS {
        let mut waiting = group.to_vec();
        loop {
            waiting.retain(|key| {
                let op = Op::ask(key, &request(key));
                machine.ask(&Key::from(*key), &op, || request(key)) == Turn::Wait
            });
            if waiting.is_empty() {
                break;
            }
            if let Advance::Blocked(_) = machine.advance().unwrap() {
                return Leg::Waits(machine.suspend().unwrap());
            }
        }
    }
    Leg::Done(machine.into_journal())
}

/// One event in the life of a run. The numbers select among the questions that are possible at this time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Time(u64),
    Answer(usize),
    AnswerOfWrongShape(usize),
    AnswerAgain(usize),
    Form(usize),
    LeaveClient,
    Cancel,
    Expire,
    Revive,
    Retry,
    LegStarts,
    LegRuns,
    LegHolds,
    LegFails,
    LegLacksTool,
    LegGivesUp,
    LegDies,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1..4_000_u64).prop_map(Event::Time),
        4 => (0..4_usize).prop_map(Event::Answer),
        1 => (0..4_usize).prop_map(Event::AnswerOfWrongShape),
        2 => (0..8_usize).prop_map(Event::AnswerAgain),
        3 => (0..4_usize).prop_map(Event::Form),
        1 => Just(Event::LeaveClient),
        1 => Just(Event::Cancel),
        1 => Just(Event::Expire),
        1 => Just(Event::Revive),
        1 => Just(Event::Retry),
        6 => Just(Event::LegStarts),
        6 => Just(Event::LegRuns),
        1 => Just(Event::LegHolds),
        1 => Just(Event::LegFails),
        1 => Just(Event::LegLacksTool),
        1 => Just(Event::LegGivesUp),
        2 => Just(Event::LegDies),
    ]
}

/// A simulated run. `World` also stores the earlier questions and answers, with which the test checks the rules.
struct World {
    record: TaskRecord,
    now: u64,
    /// The answers that the running leg received at its start. `None` if no leg is running.
    leg: Option<BTreeSet<String>>,
    /// All wire keys that were ever open, with their questions.
    wires: Vec<(String, String)>,
    /// How often the answer to each wire key was accepted.
    accepted: BTreeMap<String, u32>,
}

impl World {
    fn new(is_timed: bool) -> Self {
        let mut record = record();
        record.question_life = is_timed.then_some(3_000);
        record.channels = Channels { app: true, client: true, ..Channels::default() };
        Self { record, now: 1_000, leg: None, wires: Vec::new(), accepted: BTreeMap::new() }
    }

    /// Applies a transition and checks the rules.
    fn apply(&mut self, transition: Transition<'_>) -> Effect {
        let before = self.record.clone();
        let effect = self.record.apply(transition, self.now);
        let after = &self.record;
        if !effect.changed {
            let (before, after) =
                (serde_json::to_value(&before).unwrap(), serde_json::to_value(after).unwrap());
            assert_eq!(before, after, "an unchanged record is not written: {transition:?}");
        }
        // A final state stays final. Only an operator can retry a failed run.
        let is_retried = matches!(transition, Transition::Retry) && before.status == TaskStatus::Failed;
        if before.status.is_final() && !is_retried {
            assert_eq!(after.status, before.status, "{transition:?}");
            assert_eq!(after.ended, before.ended, "{transition:?}");
            assert!(after.asks.is_empty() && after.answers.is_empty(), "{transition:?}");
        }
        assert_eq!(after.status.is_final(), after.ended.is_some(), "{transition:?}");
        // A run that has not ended has exactly one way to continue.
        assert_ne!(continuation(after), Continuation::Stuck, "{transition:?}\n{after:#?}");
        // Only the latest job can start a leg, and a job has a new number.
        assert!(after.jobs >= before.jobs && after.job.is_none_or(|job| job.number <= after.jobs));
        if effect.changed {
            assert_eq!(effect.job, after.job.filter(|_| after.jobs > before.jobs), "{transition:?}");
        }
        // A wire key is used for one question only.
        for (wire, asked) in &after.asks {
            if !before.asks.contains_key(wire) {
                assert!(self.wires.iter().all(|(used, _)| used != wire), "{wire} is used again");
                self.wires.push((wire.clone(), asked.key.clone()));
            }
        }
        effect
    }

    fn wire(&self, number: usize) -> Option<String> {
        self.record.asks.keys().nth(number % self.record.asks.len().max(1)).cloned()
    }

    fn key(&self, wire: &str) -> String {
        self.wires.iter().find(|(used, _)| used == wire).unwrap().1.clone()
    }

    /// Sends an answer as the client, and counts whether the run accepted the answer.
    fn answer(&mut self, wire: &str) {
        let key = self.key(wire);
        let was_open = self.record.asks.contains_key(wire);
        let effect = self.apply(Transition::Answer(&[(wire.to_owned(), accepted(&key))].into()));
        assert_eq!(effect.changed, was_open, "only an open question can be answered");
        *self.accepted.entry(wire.to_owned()).or_default() += u32::from(effect.changed);
    }

    /// Sends a form twice, as a browser does after a double click.
    fn send_form(&mut self, wire: &str) {
        let key = self.key(wire);
        let (answers, digests) =
            ([(wire.to_owned(), accepted(&key))].into(), [(wire.to_owned(), key)].into());
        let form = Transition::Deliver { answers: &answers, digests: &digests, channel: Channel::Page };
        let first = self.apply(form);
        *self.accepted.entry(wire.to_owned()).or_default() += u32::from(first.changed);
        let second = self.apply(form);
        assert!(!second.changed, "the second answer counts too");
        if first.changed {
            assert_eq!(second.reply, Reply::Repeated);
        }
    }

    fn run_leg(&mut self) {
        let Some(given) = self.leg.take() else { return };
        match execute(&self.record) {
            Leg::Done(journal) => {
                let ended = Ended::Output(ToolOutput::text("painted").into());
                let (message, event, dead) = (None, "ended", false);
                self.apply(Transition::End { journal: Some(&journal), ended: &ended, message, event, dead });
            }
            Leg::Waits(_) if self.record.status.is_final() => {
                let (journal, message, event, dead) = (None, None, "cancelled", false);
                self.apply(Transition::End { journal, ended: &Ended::Cancelled, message, event, dead });
            }
            Leg::Waits(Suspension { journal, asks }) => {
                let suspend =
                    Transition::Suspend { journal: &journal, asks: &asks, due: None, given: &given };
                if self.apply(suspend).reply == Reply::Continue {
                    self.leg = Some(self.record.answers.keys().cloned().collect());
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        let journal = self.record.journal.clone();
        match event {
            Event::Time(millis) => self.now += millis,
            Event::Answer(number) => {
                if let Some(wire) = self.wire(number) {
                    self.answer(&wire);
                }
            }
            Event::AnswerAgain(number) => {
                if let Some((wire, _)) = self.wires.get(number % self.wires.len().max(1)).cloned() {
                    self.answer(&wire);
                }
            }
            Event::AnswerOfWrongShape(number) => {
                if let Some(wire) = self.wire(number) {
                    let open = self.record.asks.len();
                    self.apply(Transition::Answer(&[(wire.clone(), json!({"action": "perhaps"}))].into()));
                    assert_eq!(self.record.asks.len(), open, "the question stays open");
                    assert!(!self.record.asks.contains_key(&wire), "under a new wire key");
                }
            }
            Event::Form(number) => {
                if let Some(wire) = self.wire(number) {
                    self.send_form(&wire);
                }
            }
            Event::LeaveClient => drop(self.apply(Transition::LeaveClient)),
            Event::Cancel => drop(self.apply(Transition::Cancel)),
            Event::Expire => drop(self.apply(Transition::Expire { max_wait: Some(MAX_WAIT) })),
            Event::Revive => {
                assert!(!self.apply(Transition::Revive).changed, "no run needs this repair");
            }
            Event::Retry => drop(self.apply(Transition::Retry)),
            Event::LegStarts => {
                let is_due = self.record.job.is_some_and(|job| job.at <= self.now);
                let is_held = self.record.held.is_some_and(|until| until > self.now);
                if self.leg.is_none() && is_due && !is_held && !self.record.is_over() {
                    self.leg = Some(self.record.answers.keys().cloned().collect());
                    self.apply(Transition::Start { replica: "replica", attempt: 1 });
                }
            }
            Event::LegRuns => self.run_leg(),
            Event::LegHolds if self.leg.is_some() => {
                self.apply(Transition::Hold { until: self.now + 1_000 });
            }
            Event::LegFails if self.leg.take().is_some() => {
                self.apply(Transition::Fail { journal: &journal, wait: 500, why: "no paint" });
            }
            Event::LegLacksTool if self.leg.take().is_some() => {
                self.apply(Transition::WaitForTool { wait: 500, why: "no tool `paint`" });
            }
            Event::LegGivesUp if self.leg.take().is_some() => {
                let ended = Ended::Error { code: -32603, message: "given up".into(), data: None };
                let (journal, message, event) = (None, Some("given up"), "died");
                self.apply(Transition::End { journal, ended: &ended, message, event, dead: true });
            }
            Event::LegDies => self.leg = None,
            Event::LegHolds | Event::LegFails | Event::LegLacksTool | Event::LegGivesUp => {}
        }
    }

    /// Answers all questions and executes all legs, until the run has ended.
    fn finish(&mut self) {
        for _ in 0..20 {
            if self.record.is_over() {
                return;
            }
            self.now += 4_000;
            for wire in self.record.asks.keys().cloned().collect::<Vec<_>>() {
                self.answer(&wire);
            }
            self.happens(Event::LegStarts);
            self.happens(Event::LegRuns);
        }
        panic!("the run does not end: {:#?}", self.record);
    }
}

/// How a run continues. Every record has exactly one of these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Continuation {
    /// The run has ended.
    Ended,
    /// A leg holds the run. If this leg dies, a job continues the run.
    Held,
    /// A job starts the next leg.
    Job,
    /// An answer starts the next leg.
    Answer,
    /// Nothing continues the run. The alarm of the run then revives the run.
    Stuck,
}

fn continuation(record: &TaskRecord) -> Continuation {
    match () {
        () if record.is_over() => Continuation::Ended,
        () if record.held.is_some() => Continuation::Held,
        () if record.job.is_some() => Continuation::Job,
        () if !record.asks.is_empty() => Continuation::Answer,
        () => Continuation::Stuck,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_keeps_the_rules_in_every_order_of_events(is_timed: bool, events in vec(event(), 0..60)) {
        let mut world = World::new(is_timed);
        for event in events {
            world.happens(event);
        }
        world.finish();
        prop_assert!(world.accepted.values().all(|count| *count <= 1), "{:?}", world.accepted);
        if world.record.status == TaskStatus::Completed {
            for key in GROUPS.concat() {
                let entries = world.record.journal.entries.iter().filter(|entry| entry.key.as_str() == key);
                prop_assert_eq!(entries.count(), 1, "{} is in the journal once", key);
            }
        }
    }
}

#[test]
fn answer_of_the_running_leg_does_not_count_for_the_next_question_of_the_same_key() {
    let mut record = record();
    let asks = |text: &str| [(Key::from("next"), request(text))].into();
    let suspension = |text: &str| {
        let mut machine = Machine::new(Journal::new("1"));
        let op = Op::ask("next", &request(text));
        assert_eq!(machine.ask(&Key::from("next"), &op, || request(text)), Turn::Wait);
        while !matches!(machine.advance().unwrap(), Advance::Blocked(_)) {}
        machine.suspend().unwrap().journal
    };
    let (first, second) = (suspension("first"), suspension("second"));
    let suspend = |record: &mut TaskRecord, journal: &Journal, text: &str, given: &BTreeSet<String>| {
        let asks = asks(text);
        record.apply(Transition::Suspend { journal, asks: &asks, due: None, given }, 2_000)
    };
    suspend(&mut record, &first, "first", &BTreeSet::new());
    assert!(record.apply(Transition::Answer(&[("next".into(), accepted("1"))].into()), 2_000).changed);
    let given = ["next".to_owned()].into();
    let effect = suspend(&mut record, &second, "second", &given);
    assert_eq!(effect.reply, Reply::None, "the first answer is used up");
    assert_eq!(
        record.asks.keys().collect::<Vec<_>>(),
        ["next@2"],
        "the second question has another wire key"
    );
    assert_eq!(record.status, TaskStatus::InputRequired);
}
