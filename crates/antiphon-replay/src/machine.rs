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
    /// Whether the code is back where it was when the run was suspended.
    caught_up: bool,
    occurrences: BTreeMap<String, u32>,
    /// What the code waits for: polled at least once, still alive, not yet handed to it.
    slots: BTreeMap<Key, Slot>,
    /// Where the journal that was brought has which key, made when [`is_ahead`](Self::is_ahead) needs
    /// it. No key has two entries.
    index: OnceCell<BTreeMap<Key, usize>>,
    /// How often each loop that was begun has gone around.
    turns: BTreeMap<Key, u32>,
    /// Of the questions that are out with the client, those the code has asked again.
    seen: BTreeSet<Key>,
    answers: BTreeMap<Key, Value>,
    /// Slots that `answers` has an answer for, by the order in which they are answered. A slot that
    /// has gone meanwhile is skipped when its turn comes.
    answerable: BTreeMap<u64, Key>,
    /// Steps and loops the code has waited for since it was last at rest. They begin at the next rest
    /// and no sooner, because on replay that is when they are handed over: what is polled after them
    /// takes its keys before them, both times.
    new_steps: Vec<Key>,
    new_folds: VecDeque<Key>,
    /// What was handed over since the code was last at rest and may not be in the journal yet.
    fresh: Vec<Key>,
    /// Whether a first round has come to its first questions.
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
    /// Slots are answered in the order in which the code first waited for them.
    order: u64,
    request: Option<Value>,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// A step or a loop that may begin.
    Due,
    Running,
    /// Handed over, and not yet looked at.
    Ready {
        outcome: Outcome,
        /// Whether it is in the journal; see [`Machine::settle`].
        recorded: bool,
    },
}

impl Machine {
    /// A machine that continues from `journal`.
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

    /// Names the run, if it began without an id.
    pub fn set_run(&mut self, run: impl Into<String>) {
        self.journal.run = run.into();
    }

    /// Whether the question at `key` went out with the round before and has come back without an
    /// answer.
    pub fn is_unanswered(&self, key: &Key) -> bool {
        self.journal.round > 0 && self.journal.asked.contains_key(key)
    }

    /// Whether `what` is said for the first time in this run. It is then remembered.
    pub fn say_once(&mut self, what: &str) -> bool {
        self.journal.said.insert(what.to_owned())
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
    ///
    /// A later round replays even if nothing was recorded yet: the code has been at its first
    /// questions before.
    pub fn is_replaying(&self) -> bool {
        !self.caught_up && (self.journal.round > 0 || !self.journal.entries.is_empty())
    }

    /// A name for the step at `key` that no other step of any run has and that stays the same however
    /// often this one is taken.
    ///
    /// A loop takes its keys anew each time around, so how often it went around is part of the name:
    /// `run:loop~2/charge`.
    pub fn idempotency_key(&self, key: &Key) -> String {
        let mut name = format!("{}:", self.journal.run);
        let mut written = 0;
        // A loop sorts before the loops inside it.
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
        let key = key.as_str();
        // The scope may well have an occurrence of its own: `branch#2/name`.
        let name = key.rfind('/').map_or(0, |slash| slash + 1);
        let (base, occurrence) = match key[name..].find('#') {
            Some(hash) => match key[name + hash + 1..].parse() {
                Ok(occurrence) => (&key[..name + hash], occurrence),
                // An attempt (`name#2~3`), and those are not counted.
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
            let request = (!self.is_ahead(key)).then(request);
            let answerable = request.is_some() && self.has_answer_to(key, op);
            let order = self.wait(key, op, request);
            if answerable {
                self.answerable.insert(order, key.clone());
            }
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
            if !self.is_ahead(key) {
                self.new_steps.push(key.clone());
            }
        }
        self.start_if_due(key)
    }

    /// The code begins a loop that keeps its state in the journal. [`Turn::Start`] means that there
    /// is none yet; [`Turn::Ready`] brings the state it had reached.
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
        // Loops inside this one begin anew, even if they were dropped half-way.
        self.slots.retain(|key, slot| slot.op.kind != Kind::Fold || !key.as_str().starts_with(&scope));
        self.turns.retain(|fold, _| !fold.as_str().starts_with(&scope));
        let turn = self.turns.entry(key.clone()).or_default();
        *turn += 1;
        let entry = Entry::new(key.clone(), op.clone(), Outcome::Done(state)).with_turn(*turn);
        self.record(entry);
        Turn::Start
    }

    /// A step that was started has ended. Of any other nothing is recorded.
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

    /// A step that was started has ended, and the code is to be given that when it is polled next: it is recorded, as it
    /// would be replayed. Call it while the code is at rest. Says whether anybody still waits for it.
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

    /// Whether the code waits for a step that begins as soon as [`advance`](Self::advance) is called: whoever writes
    /// journals down does so before. Call it while the code is at rest.
    pub fn begins_steps(&mut self) -> bool {
        self.settle();
        let begins = |key: &Key| {
            // The context's own have no name, and no effects.
            !key.name().is_empty()
                && self.slots.get(key).is_some_and(|slot| matches!(slot.state, State::Waiting))
        };
        self.open && self.new_steps.iter().any(begins)
    }

    /// How often something was recorded in this leg, or taken out of the journal.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// What this leg has done so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What has been recorded so far.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Gives up the run as it is.
    pub fn into_journal(self) -> Journal {
        self.journal
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
    ///
    /// A question is withdrawn by that, with the answer that may have come: the next time around a
    /// loop the same key is another question.
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

    /// The code is at rest: what now?
    ///
    /// # Errors
    ///
    /// [`Drift`], and the machine stays as it was. Code that waits for I/O of its own is at rest but
    /// not where the journal expects it: a driver that knows of such I/O may wait for it after
    /// [`Drift::Unexpected`] and ask again.
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
        // The code was left when it waited for all that was asked; there it is back.
        // Not `|=`: it would look at all that was asked once for every answer.
        self.caught_up = self.caught_up || self.journal.asked.keys().all(|key| self.seen.contains(key));
        if self.begin_steps() || !self.open {
            self.open = true;
            return Ok(Advance::Opened);
        }
        if self.journal.round == 0 && !self.first_asked {
            // Answers may come with the very first call, before anything was asked. They are good
            // for the first questions and for no later one: nobody can confirm what they have not
            // been shown.
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

    /// The questions the code waits for, with their requests, in the order in which it asked them.
    pub fn pending(&self) -> Vec<(&Key, &Value)> {
        self.pending_since().into_iter().map(|(key, _, request)| (key, request)).collect()
    }

    /// As [`pending`](Self::pending), each with a number no other question of this leg has: a loop
    /// asks anew under the same key, and that is another question.
    pub fn pending_since(&self) -> Vec<(&Key, u64, &Value)> {
        let mut asks: Vec<_> = self.waiting_asks().collect();
        asks.sort_by_key(|(_, slot)| slot.order);
        asks.into_iter().filter_map(|(key, slot)| Some((key, slot.order, slot.request.as_ref()?))).collect()
    }

    /// Ends the leg: asks what is pending, and keeps the journal until the answers come.
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

    /// Ends the run: the code has returned.
    pub fn complete_run(self) -> Result<Journal, Drift> {
        self.check_complete()?;
        Ok(self.journal)
    }

    /// Whether the code, having returned, has seen all that the journal holds.
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

    /// Whether the journal still holds a completion of `key`. What the code waits for is mostly next,
    /// so that is where to look before making an index.
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

    /// Lets the next new loop begin that has no state in the journal.
    fn begin_fold(&mut self) -> Option<Key> {
        while let Some(key) = self.new_folds.pop_front() {
            if self.make_due(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Lets all new steps begin, the journal being drained.
    ///
    /// What is left in the journal was seen before a new step ended, so it must be handed over first:
    /// an instant step would otherwise win on replay a race it lost before.
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
                // A label is short; what differs is in the part of the request that it leaves out.
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

    /// Whether an answer to this very question came with this round.
    fn has_answer_to(&self, key: &Key, op: &Op) -> bool {
        let asked = self.journal.asked.get(key).is_some_and(|asked| asked.fingerprint == op.fingerprint);
        #[cfg(feature = "__mutations")]
        let asked = asked || self.mutation == Some(Mutation::EagerAnswers);
        asked && self.answers.contains_key(key)
    }

    /// Something new came of a question the code waits for.
    fn complete(&mut self, key: &Key, outcome: Outcome) {
        // Before the journal is drained nothing can have been asked that is not in it.
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

    /// Records what was handed over and is still there to be looked at, now that the code is at rest.
    ///
    /// Entries are in the order in which the code sees them. Most are seen as soon as they are handed
    /// over, and are recorded then: a step that ends in the same breath may be seen before. What the
    /// code leaves lying is there from its next rest on. What it drops unseen never happened.
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

    /// Takes the completion of `key` out of the journal: it was handed over and dropped unseen, so
    /// that a choice among several such (an unbiased `select!`) has only one outcome on replay.
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
