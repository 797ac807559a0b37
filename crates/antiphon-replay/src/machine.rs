use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[cfg(feature = "__mutations")]
use crate::Mutation;
use crate::{Asked, Drift, Entry, Failure, Journal, Key, Kind, Op, Outcome};

/// A question may be reworded this often before its run is given up as volatile.
const REWORDINGS: u8 = 2;

type Fits = fn(request: &Value, answer: &Value) -> bool;

/// Replays a run from its journal, and records what happens beyond it.
///
/// The driver owns the code and polls it; the code's futures call [`ask`](Self::ask),
/// [`step`](Self::step) and [`fold`](Self::fold) when they are polled. Whenever the code has come to
/// rest, the driver calls [`advance`](Self::advance) and does what it says.
#[derive(Debug)]
pub struct Machine {
    journal: Journal,
    /// Invariant: `cursor <= journal.entries.len()`; what lies before it has been handed over.
    cursor: usize,
    /// Whether the journal has been drained, so that new steps may start.
    open: bool,
    occurrences: BTreeMap<String, u32>,
    /// What the code waits for: polled at least once, still alive, not yet handed to it.
    slots: BTreeMap<Key, Slot>,
    /// Loops whose state is in the journal.
    folded: BTreeSet<Key>,
    /// Of the questions that are out with the client, those the code has asked again.
    seen: BTreeSet<Key>,
    answers: BTreeMap<Key, Value>,
    /// Whether a first round has come to its first questions.
    first_asked: bool,
    fits: Fits,
    polls: u64,
    running: usize,
    #[cfg(feature = "__mutations")]
    mutation: Option<Mutation>,
}

#[derive(Debug)]
struct Slot {
    op: Op,
    /// Slots are answered in the order in which the code first waited for them.
    order: u64,
    request: Option<Value>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting,
    Running,
    Ready(Outcome),
}

/// What a future of the code has to do, having been polled.
#[derive(Debug, PartialEq)]
pub enum Turn {
    /// It already happened: this came of it.
    Ready(Outcome),
    /// It has not happened yet and may now: do it, then call [`Machine::finish`].
    Start,
    /// Not yet.
    Wait,
}

/// What the driver has to do, the code being at rest.
#[derive(Debug, PartialEq)]
pub enum Advance {
    /// A completion was handed over: wake its future and poll the code again.
    Deliver(Key),
    /// The journal is drained and new steps may start: wake everything and poll again.
    Opened,
    /// There is nothing to hand over.
    Blocked(Blocked),
}

/// Why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Questions that wait for an answer.
    pub asks: usize,
    /// Steps that are being taken.
    pub running: usize,
}

/// A run at rest: what to ask, and what to keep until the answers come.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspension {
    /// The journal to bring back with the answers.
    pub journal: Journal,
    /// The questions, by key.
    pub asks: BTreeMap<Key, Value>,
}

impl Machine {
    /// A machine that continues from `journal`.
    pub fn new(journal: Journal) -> Self {
        let folded = journal.entries.iter().filter(|entry| entry.kind == Kind::Fold);
        Self {
            folded: folded.map(|entry| entry.key.clone()).collect(),
            journal,
            cursor: 0,
            open: false,
            occurrences: BTreeMap::new(),
            slots: BTreeMap::new(),
            seen: BTreeSet::new(),
            answers: BTreeMap::new(),
            first_asked: false,
            fits: |_, _| true,
            polls: 0,
            running: 0,
            #[cfg(feature = "__mutations")]
            mutation: None,
        }
    }

    /// Brings the answers that came with this round.
    #[must_use]
    pub fn with_answers(mut self, answers: impl IntoIterator<Item = (Key, Value)>) -> Self {
        self.answers = answers.into_iter().collect();
        self
    }

    /// Sets the test an answer must pass to count as one. What fails it is treated as missing, so
    /// that the question is asked again.
    #[must_use]
    pub fn with_fits(mut self, fits: fn(request: &Value, answer: &Value) -> bool) -> Self {
        self.fits = fits;
        self
    }

    /// Breaks one rule on purpose.
    #[cfg(feature = "__mutations")]
    #[must_use]
    pub fn with_mutation(mut self, mutation: Option<Mutation>) -> Self {
        self.mutation = mutation;
        self
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.journal.run
    }

    /// The rounds taken before this one.
    pub fn round(&self) -> u32 {
        self.journal.round
    }

    /// Whether the journal is drained, so that new things may happen.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the code is still being brought back to where it was.
    pub fn is_replaying(&self) -> bool {
        !self.open && !self.journal.entries.is_empty()
    }

    /// Names the next question or step called `name` in `scope`.
    ///
    /// Called when the code *makes* the call, which follows the order of the source; the order in
    /// which futures are first polled does not.
    pub fn take_key(&mut self, scope: &str, name: &str) -> Key {
        #[cfg(feature = "__mutations")]
        let name = if self.mutation == Some(Mutation::PositionalKeys) { "op" } else { name };
        let base = Key::base(scope, name);
        if let Some(count) = self.occurrences.get_mut(&base) {
            *count += 1;
            return Key::from(format!("{base}#{count}"));
        }
        let key = Key::from(base.as_str());
        self.occurrences.insert(base, 1);
        key
    }

    /// Takes back the key that was taken last under its name, because the call was renamed before
    /// anything came of it.
    pub fn return_key(&mut self, key: &Key) {
        let (base, occurrence) = match key.as_str().rsplit_once('#') {
            Some((base, n)) => (base, n.parse().unwrap_or(1)),
            None => (key.as_str(), 1),
        };
        match self.occurrences.get_mut(base) {
            Some(count) if *count == occurrence && occurrence > 1 => *count -= 1,
            Some(count) if *count == occurrence => {
                self.occurrences.remove(base);
            }
            _ => {}
        }
    }

    /// The code waits for the answer to a question.
    pub fn ask(&mut self, key: &Key, op: &Op, request: impl FnOnce() -> Value) -> Turn {
        if let Some(turn) = self.take_ready(key) {
            return turn;
        }
        if !self.slots.contains_key(key) {
            if self.journal.asked.contains_key(key) {
                self.seen.insert(key.clone());
            }
            // A request is large and, for what is already answered, never looked at again.
            let request = (!self.is_recorded(key)).then(request);
            self.wait(key, op, request);
        }
        Turn::Wait
    }

    /// The code waits for a step.
    pub fn step(&mut self, key: &Key, op: &Op) -> Turn {
        if let Some(turn) = self.take_ready(key) {
            return turn;
        }
        if !self.slots.contains_key(key) {
            self.wait(key, op, None);
        }
        self.start_if_open(key)
    }

    /// The code begins a loop that keeps its state in the journal. [`Turn::Start`] means that there
    /// is none yet; [`Turn::Ready`] brings the state it had reached.
    pub fn fold(&mut self, key: &Key, op: &Op) -> Turn {
        if let Some(turn) = self.take_ready(key) {
            return turn;
        }
        if !self.folded.contains(key) {
            return Turn::Start;
        }
        if !self.slots.contains_key(key) {
            self.wait(key, op, None);
        }
        Turn::Wait
    }

    /// The loop at `key` has reached `state`: what it saw on the way there is forgotten.
    ///
    /// [`Turn::Wait`] means that the journal is not drained yet; poll again.
    pub fn refold(&mut self, key: &Key, op: &Op, state: Value) -> Turn {
        if !self.open {
            if !self.slots.contains_key(key) {
                self.wait(key, op, None);
            }
            return Turn::Wait;
        }
        self.slots.remove(key);
        self.journal.entries.retain(|entry| !entry.key.is_within(key.as_str()));
        let scope = format!("{key}/");
        self.occurrences.retain(|base, _| !base.starts_with(&scope));
        self.folded.insert(key.clone());
        self.record(key.clone(), op.clone(), Outcome::Done(state));
        Turn::Start
    }

    /// A step that was started has ended.
    pub fn finish(&mut self, key: &Key, outcome: Result<Value, Failure>) {
        let Some(slot) = self.slots.remove(key) else { return };
        debug_assert!(matches!(slot.state, State::Running), "only a running step can finish");
        self.running -= 1;
        let outcome = match outcome {
            Ok(value) => Outcome::Done(value),
            Err(failure) => Outcome::Failed(failure),
        };
        self.record(key.clone(), slot.op, outcome);
    }

    /// The question at `key` was answered while the code waited.
    pub fn answer(&mut self, key: &Key, answer: Value) {
        self.complete(key, Outcome::Answer(answer));
    }

    /// The question at `key` was answered with an error while the code waited.
    pub fn fail(&mut self, key: &Key, failure: Failure) {
        self.complete(key, Outcome::Failed(failure));
    }

    /// The question at `key` cannot be asked: the code is told so, and so it stays.
    pub fn refuse(&mut self, key: &Key, reason: impl Into<String>) {
        self.complete(key, Outcome::Refused(reason.into()));
    }

    /// The code no longer waits for `key`; its future was dropped.
    pub fn leave(&mut self, key: &Key) {
        if let Some(slot) = self.slots.remove(key)
            && matches!(slot.state, State::Running)
        {
            self.running -= 1;
        }
    }

    /// The code is at rest: what now?
    pub fn advance(&mut self) -> Result<Advance, Drift> {
        #[cfg(feature = "__mutations")]
        if self.mutation == Some(Mutation::BatchDelivery) {
            while self.journal.entries.len() > self.cursor + 1 && self.deliver_next().is_ok() {}
        }
        if self.cursor < self.journal.entries.len() {
            return self.deliver_next().map(Advance::Deliver);
        }
        if !self.open {
            self.open = true;
            return Ok(Advance::Opened);
        }
        if self.journal.round == 0 && !self.first_asked {
            // Answers may come with the very first call, before anything was asked. They are good
            // for the first questions and for no later one: nobody can confirm what they have not
            // been shown.
            let first: Vec<_> =
                self.waiting_asks().map(|(key, slot)| (key.clone(), slot.op.clone())).collect();
            self.first_asked = !first.is_empty();
            for (key, op) in first {
                self.journal.asked.insert(key, Asked { fingerprint: op.fingerprint, reworded: 0 });
            }
        }
        if let Some((key, answer)) = self.next_answer() {
            self.complete(&key, Outcome::Answer(answer));
            return Ok(Advance::Deliver(key));
        }
        Ok(Advance::Blocked(Blocked { asks: self.waiting_asks().count(), running: self.running }))
    }

    /// The questions the code waits for, with their requests, in the order in which it asked them.
    pub fn pending(&self) -> Vec<(&Key, &Value)> {
        let mut asks: Vec<_> = self.waiting_asks().collect();
        asks.sort_by_key(|(_, slot)| slot.order);
        asks.into_iter().filter_map(|(key, slot)| Some((key, slot.request.as_ref()?))).collect()
    }

    /// Ends the leg: asks what is pending, and keeps the journal until the answers come.
    pub fn suspend(mut self) -> Result<Suspension, Drift> {
        self.check_vanished()?;
        let before = std::mem::take(&mut self.journal.asked);
        let mut asks = BTreeMap::new();
        for (key, slot) in std::mem::take(&mut self.slots) {
            let Some(request) = slot.request.filter(|_| matches!(slot.state, State::Waiting)) else {
                continue;
            };
            let reworded = match before.get(&key) {
                Some(asked) if self.journal.round > 0 && asked.fingerprint != slot.op.fingerprint => {
                    asked.reworded + 1
                }
                Some(asked) => asked.reworded,
                None => 0,
            };
            if reworded > REWORDINGS {
                return Err(Drift::Volatile { key, times: reworded });
            }
            self.journal.asked.insert(key.clone(), Asked { fingerprint: slot.op.fingerprint, reworded });
            asks.insert(key, request);
        }
        self.journal.round += 1;
        Ok(Suspension { journal: self.journal, asks })
    }

    /// Ends the run: the code has returned.
    pub fn complete_run(self) -> Result<Journal, Drift> {
        if let Some(entry) = self.journal.entries.get(self.cursor) {
            return Err(Drift::Short {
                left: self.journal.entries.len() - self.cursor,
                key: entry.key.clone(),
                recorded: entry.describe(),
            });
        }
        self.check_vanished()?;
        Ok(self.journal)
    }

    fn take_ready(&mut self, key: &Key) -> Option<Turn> {
        let slot = self.slots.get(key)?;
        if !matches!(slot.state, State::Ready(_)) {
            return None;
        }
        match self.slots.remove(key)?.state {
            State::Ready(outcome) => Some(Turn::Ready(outcome)),
            State::Waiting | State::Running => None,
        }
    }

    fn wait(&mut self, key: &Key, op: &Op, request: Option<Value>) {
        self.polls += 1;
        let slot = Slot { op: op.clone(), order: self.polls, request, state: State::Waiting };
        self.slots.insert(key.clone(), slot);
    }

    fn start_if_open(&mut self, key: &Key) -> Turn {
        // What is left in the journal was seen before this step ended, so it must be handed over
        // first: an instant step would otherwise win on replay a race it lost before.
        let open = self.open;
        #[cfg(feature = "__mutations")]
        let open = open
            || (self.mutation == Some(Mutation::OpenGate)
                && !self.journal.entries[self.cursor..].iter().any(|entry| entry.key == *key));
        match self.slots.get_mut(key) {
            Some(slot) if open && matches!(slot.state, State::Waiting) => {
                slot.state = State::Running;
                self.running += 1;
                Turn::Start
            }
            _ => Turn::Wait,
        }
    }

    fn deliver_next(&mut self) -> Result<Key, Drift> {
        let at = self.cursor;
        let entry = &self.journal.entries[at];
        let Some(slot) = self.slots.get_mut(&entry.key) else {
            let waiting = self.slots.keys().cloned().collect();
            return Err(Drift::Unexpected {
                at,
                key: entry.key.clone(),
                recorded: entry.describe(),
                waiting,
            });
        };
        let same = slot.op.kind == entry.kind && slot.op.fingerprint == entry.fingerprint;
        #[cfg(feature = "__mutations")]
        let same = same || self.mutation == Some(Mutation::BlindFingerprint);
        if !same {
            return Err(Drift::Changed {
                at,
                key: entry.key.clone(),
                recorded: entry.describe(),
                now: format!("{} {}", slot.op.kind, slot.op.label),
            });
        }
        slot.state = State::Ready(entry.outcome.clone());
        self.cursor += 1;
        Ok(entry.key.clone())
    }

    fn next_answer(&mut self) -> Option<(Key, Value)> {
        if self.answers.is_empty() {
            return None;
        }
        let accepted = |key: &Key, slot: &Slot| {
            #[cfg(feature = "__mutations")]
            if self.mutation == Some(Mutation::EagerAnswers) {
                return true;
            }
            self.journal.asked.get(key).is_some_and(|asked| asked.fingerprint == slot.op.fingerprint)
        };
        let key = self
            .waiting_asks()
            .filter(|(key, slot)| self.answers.contains_key(*key) && accepted(key, slot))
            .min_by_key(|(_, slot)| slot.order)?
            .0
            .clone();
        let answer = self.answers.remove(&key)?;
        let request = self.slots.get(&key)?.request.as_ref()?;
        if (self.fits)(request, &answer) { Some((key, answer)) } else { self.next_answer() }
    }

    fn complete(&mut self, key: &Key, outcome: Outcome) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let op = slot.op.clone();
        slot.state = State::Ready(outcome.clone());
        self.journal.asked.remove(key);
        self.record(key.clone(), op, outcome);
    }

    fn record(&mut self, key: Key, op: Op, outcome: Outcome) {
        self.journal.entries.push(Entry::new(key, op, outcome));
        self.cursor = self.journal.entries.len();
    }

    fn waiting_asks(&self) -> impl Iterator<Item = (&Key, &Slot)> {
        self.slots.iter().filter(|(_, slot)| slot.request.is_some() && matches!(slot.state, State::Waiting))
    }

    /// Whether the journal still holds a completion of `key`. What the code waits for is near the
    /// cursor, so this looks at few entries.
    fn is_recorded(&self, key: &Key) -> bool {
        self.journal.entries[self.cursor..].iter().any(|entry| entry.key == *key)
    }

    /// A question that is out with the client must have been asked again in this leg.
    fn check_vanished(&self) -> Result<(), Drift> {
        if self.journal.round == 0 {
            return Ok(());
        }
        match self.journal.asked.keys().find(|key| !self.seen.contains(*key)) {
            Some(key) => {
                Err(Drift::Vanished { key: key.clone(), waiting: self.slots.keys().cloned().collect() })
            }
            None => Ok(()),
        }
    }
}
