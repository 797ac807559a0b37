use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use serde_json::Value;

#[cfg(feature = "__mutations")]
use crate::Mutation;
use crate::{
    Advance, Asked, Blocked, Drift, Entry, Failure, Journal, Key, Kind, Op, Outcome, Suspension, Tally, Turn,
};

/// The number of times that the text of a question can change. If the text of a question changes more often, the
/// replay machine returns [`Drift::Volatile`].
const REWORDINGS: u8 = 2;

type Fits = fn(request: &Value, answer: &Value) -> bool;

/// The state machine that replays a run from its journal and records new results.
///
/// The driver (the caller of this crate) owns the tool's code and polls this code. When a future of the code is
/// polled, the future calls [`ask`](Self::ask), [`step`](Self::step) or [`fold`](Self::fold). The code is *idle* when
/// its last poll returned `Pending` and none of its futures has been woken since this poll. Whenever the code is idle,
/// the driver calls [`advance`](Self::advance) and carries out the action that `advance` returns.
#[derive(Debug)]
pub struct Machine {
    journal: Journal,
    /// The index of the next journal entry to deliver. The entries before the cursor have been delivered. Invariant:
    /// `cursor <= journal.entries.len()`.
    cursor: usize,
    /// Whether the whole journal has been delivered, so that new steps can start.
    open: bool,
    /// Whether the code has reached the point where the run was suspended.
    caught_up: bool,
    occurrences: BTreeMap<String, u32>,
    /// The futures that the code waits for. Each of these futures was polled at least once, was not dropped, and has
    /// not read its result.
    slots: BTreeMap<Key, Slot>,
    /// The positions of the keys in the initial journal. [`is_ahead`](Self::is_ahead) builds this index when the index
    /// is first needed. No key has two entries in the journal.
    index: OnceCell<BTreeMap<Key, usize>>,
    /// The number of completed iterations of each started loop.
    turns: BTreeMap<Key, u32>,
    /// The questions in `journal.asked` that the code has asked again in this execution of the code.
    seen: BTreeSet<Key>,
    answers: BTreeMap<Key, Value>,
    /// The slots for which `answers` contains an answer, in the order in which the slots are answered. The replay
    /// machine skips slots that were removed in the meantime.
    answerable: BTreeMap<u64, Key>,
    /// Steps and loops that the code has awaited since it was last idle. Steps and loops start only when the code is
    /// idle again, because on replay their results are delivered when the code is idle. So in the first execution and
    /// on replay, all futures of one poll take their keys first.
    new_steps: Vec<Key>,
    new_folds: VecDeque<Key>,
    /// Completions that were delivered since the code was last idle. The journal does not have to contain these
    /// completions yet.
    fresh: Vec<Key>,
    /// Whether the code has reached its first questions in the first round.
    first_asked: bool,
    fits: Fits,
    polls: u64,
    recorded: u64,
    tally: Tally,
    running: usize,
    #[cfg(feature = "__mutations")]
    mutation: Option<Mutation>,
}

#[derive(Debug)]
struct Slot {
    op: Op,
    /// A number that shows when the code started to wait for this slot. The replay machine answers slots in the order
    /// of these numbers.
    order: u64,
    request: Option<Value>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// A step or a loop that is allowed to start.
    Due,
    Running,
    /// The outcome of the question, step or loop is delivered, but the code has not read this outcome yet.
    Ready {
        outcome: Outcome,
        /// Whether the journal already contains the outcome. [`Machine::settle`] explains when an outcome is recorded.
        recorded: bool,
    },
}

impl Machine {
    /// Creates a replay machine that replays the run from `journal`. For a new run, pass an empty journal.
    pub fn new(journal: Journal) -> Self {
        Self {
            index: OnceCell::new(),
            turns: BTreeMap::new(),
            journal,
            cursor: 0,
            open: false,
            caught_up: false,
            occurrences: BTreeMap::new(),
            slots: BTreeMap::new(),
            seen: BTreeSet::new(),
            answers: BTreeMap::new(),
            answerable: BTreeMap::new(),
            new_steps: Vec::new(),
            new_folds: VecDeque::new(),
            fresh: Vec::new(),
            first_asked: false,
            fits: |_, _| true,
            polls: 0,
            recorded: 0,
            tally: Tally::default(),
            running: 0,
            #[cfg(feature = "__mutations")]
            mutation: None,
        }
    }

    /// Sets the answers that the client sent in the current round, by question key. Default: none.
    #[must_use]
    pub fn with_answers(mut self, answers: impl IntoIterator<Item = (Key, Value)>) -> Self {
        self.answers = answers.into_iter().collect();
        self
    }

    /// Sets a function that returns whether an answer is valid for the request of its question. Default: every answer
    /// is valid.
    ///
    /// If an answer is not valid, the replay machine ignores the answer and asks the question again.
    #[must_use]
    pub fn with_fits(mut self, fits: fn(request: &Value, answer: &Value) -> bool) -> Self {
        self.fits = fits;
        self
    }

    /// Makes the replay machine violate one of its rules on purpose, to check that the tests detect the violation.
    #[cfg(feature = "__mutations")]
    #[must_use]
    pub fn with_mutation(mut self, mutation: Option<Mutation>) -> Self {
        self.mutation = mutation;
        self
    }

    /// Returns the run's ID.
    pub fn run(&self) -> &str {
        &self.journal.run
    }

    /// Sets the run's ID, for a run that started without an ID.
    pub fn set_run(&mut self, run: impl Into<String>) {
        self.journal.run = run.into();
    }

    /// Returns whether the question with this key was sent to the client in an earlier round and has no answer yet.
    pub fn is_unanswered(&self, key: &Key) -> bool {
        self.journal.round > 0 && self.journal.asked.contains_key(key)
    }

    /// Records that the run sends the message with the name `what`. Returns `true` if the run has not recorded this
    /// name before. Use `say_once` for a message that a run must send only once.
    pub fn say_once(&mut self, what: &str) -> bool {
        self.journal.said.insert(what.to_owned())
    }

    /// Returns the number of rounds that the run had before the current round.
    pub fn round(&self) -> u32 {
        self.journal.round
    }

    /// Returns whether the code has received the whole journal, so that new steps can start.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns `true` until the code has reached the point where the run was suspended.
    ///
    /// From the second round on, the replay machine replays even if the journal has no entries, because the code must
    /// reach its first questions again.
    pub fn is_replaying(&self) -> bool {
        !self.caught_up && (self.journal.round > 0 || !self.journal.entries.is_empty())
    }

    /// Returns an idempotency key for the step with the key `key`. The idempotency key is unique among all runs, and
    /// is the same for every attempt of the step.
    ///
    /// The steps in a loop have the same keys in each iteration. For a step in a loop, the idempotency key therefore
    /// contains the number of the iteration: `run:loop~2/charge`.
    pub fn idempotency_key(&self, key: &Key) -> String {
        let mut name = format!("{}:", self.journal.run);
        let mut written = 0;
        // In `turns`, a loop comes before its nested loops.
        for (fold, turn) in
            self.turns.range::<Key, _>(..=key).filter(|(fold, _)| key.is_within(fold.as_str()))
        {
            let end = fold.as_str().len();
            name.push_str(&key.as_str()[written..end]);
            name.push('~');
            name.push_str(&turn.to_string());
            written = end;
        }
        name.push_str(&key.as_str()[written..]);
        name
    }

    /// Assigns a key to the next question or step with the name `name` in the scope `scope`.
    ///
    /// Call `take_key` when the code *makes* the call, not when the future is first polled. The calls happen in the
    /// order of the source code. The first polls of the futures can happen in another order.
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

    /// Releases `key`, which must be the last key that was assigned for its name. Use `return_key` if a call gets
    /// another name before the call is polled.
    pub fn return_key(&mut self, key: &Key) {
        let key = key.as_str();
        // The scope can also contain an occurrence: `branch#2/name`.
        let name = key.rfind('/').map_or(0, |slash| slash + 1);
        let (base, occurrence) = match key[name..].find('#') {
            Some(hash) => match key[name + hash + 1..].parse() {
                Ok(occurrence) => (&key[..name + hash], occurrence),
                // The key belongs to an attempt (`name#2~3`). Attempts are not counted.
                Err(_) => return,
            },
            None => (key, 1),
        };
        match self.occurrences.get_mut(base) {
            Some(count) if *count == occurrence && occurrence > 1 => *count -= 1,
            Some(count) if *count == occurrence => {
                self.occurrences.remove(base);
            }
            _ => {}
        }
    }

    /// Registers that the code waits for the answer to a question. `request` creates the request for the client. The
    /// replay machine calls the function `request` only if the replay machine needs the request.
    pub fn ask(&mut self, key: &Key, op: &Op, request: impl FnOnce() -> Value) -> Turn {
        if let Some(turn) = self.take_ready(key) {
            return turn;
        }
        if !self.slots.contains_key(key) {
            if self.journal.asked.contains_key(key) {
                self.seen.insert(key.clone());
            }
            // A request is large. If the journal already has the answer, the request is never read.
            let request = (!self.is_ahead(key)).then(request);
            let answerable = request.is_some() && self.has_answer_to(key, op);
            let order = self.wait(key, op, request);
            if answerable {
                self.answerable.insert(order, key.clone());
            }
        }
        Turn::Wait
    }

    /// Registers that the code waits for the result of a step.
    pub fn step(&mut self, key: &Key, op: &Op) -> Turn {
        if let Some(turn) = self.take_ready(key) {
            return turn;
        }
        if !self.slots.contains_key(key) {
            self.wait(key, op, None);
            if !self.is_ahead(key) {
                self.new_steps.push(key.clone());
            }
        }
        self.start_if_due(key)
    }

    /// Registers that the code starts a loop whose state is kept in the journal.
    ///
    /// [`Turn::Start`] means that the journal has no state for this loop. [`Turn::Ready`] contains the last recorded
    /// state of the loop.
    pub fn fold(&mut self, key: &Key, op: &Op) -> Turn {
        if let Some(turn) = self.take_ready(key) {
            return turn;
        }
        match self.slots.get(key).map(|slot| &slot.state) {
            Some(State::Due) => {
                self.slots.remove(key);
                return Turn::Start;
            }
            Some(_) => {}
            None => {
                self.wait(key, op, None);
                if !self.is_ahead(key) {
                    self.new_folds.push_back(key.clone());
                }
            }
        }
        Turn::Wait
    }

    /// Records that the loop at `key` has reached `state`, and removes the entries of the finished iteration.
    ///
    /// [`Turn::Wait`] means that the code has not yet received the whole journal. After [`Turn::Wait`], call `refold`
    /// again at the next poll.
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
        // Nested loops start again in the next iteration, even if the code dropped these loops before they finished.
        self.slots.retain(|key, slot| slot.op.kind != Kind::Fold || !key.as_str().starts_with(&scope));
        self.turns.retain(|fold, _| !fold.as_str().starts_with(&scope));
        let turn = self.turns.entry(key.clone()).or_default();
        *turn += 1;
        let entry = Entry::new(key.clone(), op.clone(), Outcome::Done(state)).with_turn(*turn);
        self.record(entry);
        Turn::Start
    }

    /// Records the result of the started step `key`. If no step with this key was started, the call has no effect.
    pub fn finish(&mut self, key: &Key, outcome: Result<Value, Failure>) {
        if !self.slots.get(key).is_some_and(|slot| matches!(slot.state, State::Running)) {
            return;
        }
        let Some(slot) = self.slots.remove(key) else { return };
        self.running -= 1;
        let outcome = match outcome {
            Ok(value) => Outcome::Done(value),
            Err(failure) => Outcome::Failed(failure),
        };
        self.record(Entry::new(key.clone(), slot.op, outcome));
    }

    /// Records the result of the started step `key`. The step's future receives the result at its next poll.
    ///
    /// The delay until the next poll ensures that the code receives results in the same order on replay. Call
    /// `deliver` while the code is idle. Returns whether a future still waits for the step.
    pub fn deliver(&mut self, key: &Key, outcome: Result<Value, Failure>) -> bool {
        let Some(slot) = self.slots.get_mut(key).filter(|slot| matches!(slot.state, State::Running)) else {
            return false;
        };
        self.running -= 1;
        let outcome = match outcome {
            Ok(value) => Outcome::Done(value),
            Err(failure) => Outcome::Failed(failure),
        };
        slot.state = State::Ready { outcome: outcome.clone(), recorded: true };
        let entry = Entry::new(key.clone(), slot.op.clone(), outcome);
        self.record(entry);
        true
    }

    /// Returns whether the next call of [`advance`](Self::advance) starts a named step.
    ///
    /// With `begins_steps`, a driver can store the journal before a step starts. Call `begins_steps` while the code is
    /// idle.
    pub fn begins_steps(&mut self) -> bool {
        self.settle();
        let begins = |key: &Key| {
            // Steps that `antiphon` adds, such as timers, have an empty name and no side effects.
            !key.name().is_empty()
                && self.slots.get(key).is_some_and(|slot| matches!(slot.state, State::Waiting))
        };
        self.open && self.new_steps.iter().any(begins)
    }

    /// Returns how often this execution of the code has changed the entries of the journal. Both added and removed
    /// entries count as changes.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Returns counts of the work that this execution of the code has done so far, for metrics.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the journal with all results recorded so far.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Ends this execution of the code without checks, and returns the journal in its current state.
    pub fn into_journal(self) -> Journal {
        self.journal
    }

    /// Passes the client's answer to the code that waits for the question with this key.
    pub fn answer(&mut self, key: &Key, answer: Value) {
        self.complete(key, Outcome::Answer(answer));
    }

    /// Passes a client's error to the code, as the answer to the question with this key.
    pub fn fail(&mut self, key: &Key, failure: Failure) {
        self.complete(key, Outcome::Failed(failure));
    }

    /// Reports to the code that the question with this key cannot be sent to the client. The journal contains the
    /// reason, so that the code receives the same error on replay.
    pub fn refuse(&mut self, key: &Key, reason: impl Into<String>) {
        self.complete(key, Outcome::Refused(reason.into()));
    }

    /// Registers that the code has dropped the future of the question or step with this key.
    ///
    /// If the code drops a question, the replay machine withdraws the question and discards its answer. The replay
    /// machine must not keep the answer, because in the next iteration of a loop the same key can belong to another
    /// question.
    pub fn leave(&mut self, key: &Key) {
        let Some(slot) = self.slots.remove(key) else { return };
        match slot.state {
            State::Running => self.running -= 1,
            State::Waiting if slot.op.kind == Kind::Ask => {
                self.journal.asked.remove(key);
                self.answers.remove(key);
            }
            State::Ready { recorded: true, .. } if slot.op.kind == Kind::Ask => self.forget(key),
            State::Waiting | State::Due | State::Ready { .. } => {}
        }
    }

    /// Returns the action that the driver must perform next. Call `advance` while the code is idle.
    ///
    /// # Errors
    ///
    /// Returns [`Drift`] if the next journal entry does not match the code. On drift, the replay machine does not skip
    /// the journal entry, so the driver can call `advance` again.
    ///
    /// Code that waits for I/O outside of a step is also idle, but does not wait for the next journal entry. If the
    /// driver detects I/O outside of a step, it can wait for the I/O after [`Drift::Unexpected`] and then call
    /// `advance` again.
    pub fn advance(&mut self) -> Result<Advance, Drift> {
        self.settle();
        if let Some(key) = self.begin_fold() {
            return Ok(Advance::Deliver(key));
        }
        #[cfg(feature = "__mutations")]
        if self.mutation == Some(Mutation::BatchDelivery) {
            while self.journal.entries.len() > self.cursor + 1 && self.deliver_next().is_ok() {}
        }
        if self.cursor < self.journal.entries.len() {
            return self.deliver_next().map(Advance::Deliver);
        }
        // The run was suspended when the code waited for all questions in `asked`. The code has caught up when it has
        // asked all these questions again. With `||`, the check is skipped after the code has caught up. With `|=`,
        // every answer would cause a scan of all asked questions.
        self.caught_up = self.caught_up || self.journal.asked.keys().all(|key| self.seen.contains(key));
        if self.begin_steps() || !self.open {
            self.open = true;
            return Ok(Advance::Opened);
        }
        if self.journal.round == 0 && !self.first_asked {
            // The first call can already contain answers. The replay machine accepts these answers only for the first
            // questions, because a user cannot confirm a later question without having seen it.
            let first: Vec<_> = self
                .waiting_asks()
                .map(|(key, slot)| (key.clone(), slot.order, slot.op.fingerprint))
                .collect();
            self.first_asked = !first.is_empty();
            for (key, order, fingerprint) in first {
                if self.answers.contains_key(&key) {
                    self.answerable.insert(order, key.clone());
                }
                self.journal.asked.insert(key, Asked { fingerprint, reworded: 0 });
            }
        }
        if let Some((key, answer)) = self.next_answer() {
            self.complete(&key, Outcome::Answer(answer));
            return Ok(Advance::Deliver(key));
        }
        Ok(Advance::Blocked(Blocked { asks: self.waiting_asks().count(), running: self.running }))
    }

    /// Returns the pending questions and their requests, in the order in which the code asked them.
    pub fn pending(&self) -> Vec<(&Key, &Value)> {
        self.pending_since().into_iter().map(|(key, _, request)| (key, request)).collect()
    }

    /// Returns the pending questions and their requests as [`pending`](Self::pending) does, with a number for each
    /// question. The number of a question is unique in this execution of the code.
    ///
    /// The number distinguishes questions with the same key, because the iterations of a loop ask questions with the
    /// same key.
    pub fn pending_since(&self) -> Vec<(&Key, u64, &Value)> {
        let mut asks: Vec<_> = self.waiting_asks().collect();
        asks.sort_by_key(|(_, slot)| slot.order);
        asks.into_iter().filter_map(|(key, slot)| Some((key, slot.order, slot.request.as_ref()?))).collect()
    }

    /// Ends this execution of the code at its pending questions. Returns the questions that the driver must send to
    /// the client, and the journal that the driver must keep until the answers arrive.
    ///
    /// # Errors
    ///
    /// Returns [`Drift::Vanished`] if the code did not ask an open question again. Returns [`Drift::Volatile`] if the
    /// text of a question changed too often.
    pub fn suspend(mut self) -> Result<Suspension, Drift> {
        self.settle();
        self.check_vanished()?;
        let before = std::mem::take(&mut self.journal.asked);
        let mut asks = BTreeMap::new();
        for (key, slot) in std::mem::take(&mut self.slots) {
            let Some(request) = slot.request.filter(|_| matches!(slot.state, State::Waiting)) else {
                continue;
            };
            let reworded = match before.get(&key) {
                Some(asked) if self.journal.round > 0 && asked.fingerprint != slot.op.fingerprint => {
                    asked.reworded.saturating_add(1)
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

    /// Ends the run after the code has returned, and returns the journal.
    ///
    /// # Errors
    ///
    /// Returns the errors that [`check_complete`](Self::check_complete) returns.
    pub fn complete_run(self) -> Result<Journal, Drift> {
        self.check_complete()?;
        Ok(self.journal)
    }

    /// Checks that the code has received all results in the journal. Call `check_complete` after the code has
    /// returned.
    ///
    /// # Errors
    ///
    /// Returns [`Drift::Short`] if the code did not receive all results. Returns [`Drift::Vanished`] if the code did
    /// not ask an open question again.
    pub fn check_complete(&self) -> Result<(), Drift> {
        if let Some(entry) = self.journal.entries.get(self.cursor) {
            return Err(Drift::Short {
                left: self.journal.entries.len() - self.cursor,
                key: entry.key.clone(),
                recorded: entry.describe(),
            });
        }
        self.check_vanished()
    }

    /// Returns `true` if the journal contains an entry with the key `key` that the code has not received yet. The code
    /// mostly waits for one of the next journal entries, so `is_ahead` searches the next entries before it builds the
    /// index.
    fn is_ahead(&self, key: &Key) -> bool {
        const NEAR: usize = 16;
        let rest = &self.journal.entries[self.cursor..];
        if rest.iter().take(NEAR).any(|entry| entry.key == *key) {
            return true;
        }
        rest.len() > NEAR && {
            let entries = self.journal.entries.iter().enumerate();
            let index =
                self.index.get_or_init(|| entries.map(|(at, entry)| (entry.key.clone(), at)).collect());
            index.get(key).is_some_and(|at| *at >= self.cursor)
        }
    }

    fn take_ready(&mut self, key: &Key) -> Option<Turn> {
        if !matches!(self.slots.get(key)?.state, State::Ready { .. }) {
            return None;
        }
        let Slot { op, state: State::Ready { outcome, recorded }, .. } = self.slots.remove(key)? else {
            return None;
        };
        if !recorded {
            self.record(Entry::new(key.clone(), op, outcome.clone()));
        }
        Some(Turn::Ready(outcome))
    }

    fn wait(&mut self, key: &Key, op: &Op, request: Option<Value>) -> u64 {
        self.polls += 1;
        let slot = Slot { op: op.clone(), order: self.polls, request, state: State::Waiting };
        self.slots.insert(key.clone(), slot);
        self.polls
    }

    /// Starts the next loop in `new_steps` that has no state in the journal.
    fn begin_fold(&mut self) -> Option<Key> {
        while let Some(key) = self.new_folds.pop_front() {
            if self.make_due(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Starts all new steps. The caller ensures that the whole journal has been delivered.
    ///
    /// In the original execution, the code received all journal entries before a new step ended. So on replay, all
    /// journal entries must be delivered before a new step starts. If a new step started earlier, a very fast step
    /// could win a race that the step lost in the original execution.
    fn begin_steps(&mut self) -> bool {
        let mut any = false;
        for key in std::mem::take(&mut self.new_steps) {
            any |= self.make_due(&key);
        }
        any
    }

    fn make_due(&mut self, key: &Key) -> bool {
        match self.slots.get_mut(key) {
            Some(slot) if matches!(slot.state, State::Waiting) => {
                slot.state = State::Due;
                true
            }
            _ => false,
        }
    }

    fn start_if_due(&mut self, key: &Key) -> Turn {
        #[cfg(feature = "__mutations")]
        if self.mutation == Some(Mutation::OpenGate) && !self.is_ahead(key) {
            self.make_due(key);
        }
        match self.slots.get_mut(key) {
            Some(slot) if matches!(slot.state, State::Due) => {
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
            let recorded = entry.describe();
            let mut now = format!("{} {}", slot.op.kind, slot.op.label);
            if now == recorded {
                // A label is a short text. The difference is in a part of the request that the label omits.
                now.push_str(" with other details");
            }
            return Err(Drift::Changed { at, key: entry.key.clone(), recorded, now });
        }
        slot.state = State::Ready { outcome: entry.outcome.clone(), recorded: true };
        if entry.kind == Kind::Fold {
            self.turns.insert(entry.key.clone(), entry.turn);
        }
        self.cursor += 1;
        self.tally.replayed += 1;
        Ok(entry.key.clone())
    }

    fn next_answer(&mut self) -> Option<(Key, Value)> {
        while let Some((order, key)) = self.answerable.pop_first() {
            let Some(slot) = self.slots.get(&key).filter(|slot| slot.order == order) else { continue };
            let (State::Waiting, Some(request)) = (&slot.state, &slot.request) else { continue };
            let Some(answer) = self.answers.remove(&key) else { continue };
            if (self.fits)(request, &answer) {
                return Some((key, answer));
            }
        }
        None
    }

    /// Returns whether the client sent an answer to the question `key` in the current round, and the fingerprint of
    /// the question is unchanged.
    fn has_answer_to(&self, key: &Key, op: &Op) -> bool {
        let asked = self.journal.asked.get(key).is_some_and(|asked| asked.fingerprint == op.fingerprint);
        #[cfg(feature = "__mutations")]
        let asked = asked || self.mutation == Some(Mutation::EagerAnswers);
        asked && self.answers.contains_key(key)
    }

    /// Delivers a new outcome of a question that the code waits for.
    fn complete(&mut self, key: &Key, outcome: Outcome) {
        // Before the whole journal is delivered, the code can wait only for questions in the journal.
        if !self.open {
            return;
        }
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.request.is_none() || !matches!(slot.state, State::Waiting) {
            return;
        }
        slot.state = State::Ready { outcome, recorded: false };
        self.journal.asked.remove(key);
        self.fresh.push(key.clone());
    }

    /// Adds the completions to the journal that the replay machine has delivered, but that the code has not read. Call
    /// `settle` when the code is idle.
    ///
    /// Journal entries are in the order in which the code receives their results. The code usually reads a completion
    /// in the poll after its delivery, and `take_ready` then records the completion. A step that ends in this poll can
    /// be recorded before the completion. If the code did not read a completion in the poll after its delivery,
    /// `settle` records the completion. If the code dropped a completion unread, `settle` does not record the
    /// completion.
    fn settle(&mut self) {
        for key in std::mem::take(&mut self.fresh) {
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if let State::Ready { outcome, recorded: recorded @ false } = &mut slot.state {
                *recorded = true;
                let entry = Entry::new(key, slot.op.clone(), outcome.clone());
                self.record(entry);
            }
        }
    }

    fn record(&mut self, entry: Entry) {
        self.recorded += 1;
        match entry.kind {
            Kind::Ask => self.tally.asks += 1,
            Kind::Step => self.tally.steps += 1,
            Kind::Fold => self.tally.folds += 1,
        }
        self.journal.entries.push(entry);
        self.cursor = self.journal.entries.len();
    }

    /// Removes the completion of `key` from the journal. Call `forget` if the code dropped the completion unread.
    ///
    /// If the code selects among several delivered completions (an unbiased `select!`), only the selected completion
    /// stays in the journal. The replay of the `select!` then has only one possible outcome.
    fn forget(&mut self, key: &Key) {
        let entries = &mut self.journal.entries;
        if let Some(at) = entries[..self.cursor].iter().rposition(|entry| entry.key == *key) {
            entries.remove(at);
            self.recorded += 1;
            self.cursor -= 1;
            self.index.take();
        }
    }

    fn waiting_asks(&self) -> impl Iterator<Item = (&Key, &Slot)> {
        self.slots.iter().filter(|(_, slot)| slot.request.is_some() && matches!(slot.state, State::Waiting))
    }

    /// Checks that the code has asked every open question again in this execution of the code.
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
