//! One invocation, as its context and its driver share it.

mod ask;
mod at_most_once;
pub(crate) mod client;
mod drive;
mod leg;
mod persistence;
pub(crate) mod route;
mod runtime;
mod single_use;
mod spill;

pub(crate) use self::{
    at_most_once::at_most_once,
    client::Client,
    drive::Pace,
    leg::{Leg, run_leg},
    persistence::{Claimed, Pending, Persistence, Promote, Stop},
    runtime::{Runtime, States},
    single_use::{Entered, enter},
    spill::{load, seal},
};

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Waker,
};

use antiphon_replay::{Drift, Failure, Journal, Key, Machine, Suspension};
use serde_json::Value;

use crate::{
    base::random_id,
    error::Result as RunResult,
    limits::Admission,
    protocol::{Note, Revision, fits},
    telemetry::{How, LegSpan},
    trace::{Ended, Trace},
};

/// A run in progress.
pub(crate) struct Run {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) principal: Option<String>,
    /// Where it counts among the requests in hand. A leg of a task does not.
    pub(crate) place: Option<Admission>,
    /// The keys the tool says it asks under; nothing else may be asked if it says so.
    pub(crate) declared: Option<Arc<BTreeSet<String>>>,
    state: Mutex<State>,
    trace: Option<Trace>,
    /// What is told of the leg to whoever operates the server.
    pub(crate) span: LegSpan,
    /// The waker the driver polls with. See [`Run::park`].
    root: OnceLock<Waker>,
    /// Whoever writes down what the run comes to, if it is a task.
    persistence: OnceLock<Arc<dyn Persistence>>,
    /// When it may become a task, and how.
    promotion: Option<Arc<dyn Promote>>,
    /// The steps under way that may be taken at most once, by their idempotency key, while the run is not a task.
    claiming: Mutex<BTreeMap<String, String>>,
}

pub(crate) struct State {
    /// Made when it is needed: many tools neither ask nor take a step.
    machine: Option<Box<Machine>>,
    /// Wakers of futures that are polled by something other than the driver itself.
    wakers: BTreeMap<Key, Waker>,
    outbox: Vec<Note>,
    dropped_notes: u64,
    last_progress: Option<f64>,
    /// When which branch runs out of time, in milliseconds since 1970.
    pub(crate) deadlines: BTreeMap<Key, u64>,
    /// Steps of a task that have ended, and that the tool is told of when that is written down.
    finished: VecDeque<(Key, Result<Value, Failure>)>,
    /// How much of what was recorded is written down.
    written: u64,
}

/// A tool that never yields could fill memory with log lines nobody has been sent yet.
const OUTBOX: usize = 4096;

impl Run {
    /// A run that goes on from `machine`, or begins.
    pub(crate) fn new(client: Client, runtime: Arc<Runtime>, machine: Option<Machine>) -> Self {
        let trace = runtime.traces.then(|| Trace::begin(&runtime.replica, machine.as_ref()));
        let state = State {
            machine: machine.map(Box::new),
            wakers: BTreeMap::new(),
            outbox: Vec::new(),
            dropped_notes: 0,
            last_progress: None,
            deadlines: BTreeMap::new(),
            finished: VecDeque::new(),
            written: 0,
        };
        Self {
            client,
            runtime,
            principal: None,
            place: None,
            declared: None,
            state: Mutex::new(state),
            trace,
            span: LegSpan::default(),
            root: OnceLock::new(),
            persistence: OnceLock::new(),
            promotion: None,
            claiming: Mutex::default(),
        }
    }

    /// Lets the run become a task.
    pub(crate) fn with_promotion(mut self, promotion: Arc<dyn Promote>) -> Self {
        self.promotion = Some(promotion);
        self
    }

    /// In how long the run becomes a task; `None` is never.
    pub(crate) fn promotes_in(&self) -> Option<std::time::Duration> {
        self.promotion.as_ref()?.due()
    }

    /// Whether the tool wants to be a task, and can be.
    pub(crate) fn wants_promotion(&self) -> bool {
        let is_due = |promotion: &Arc<dyn Promote>| promotion.due() == Some(std::time::Duration::ZERO);
        self.promotion.as_ref().is_some_and(|promotion| is_due(promotion) && promotion.is_wanted())
    }

    /// Has the run become a task as soon as it rests, if it may.
    pub(crate) fn want_promotion(&self) {
        self.promotion.iter().for_each(|promotion| promotion.want());
    }

    /// Makes the run a task, if it is not one.
    pub(crate) async fn promote(&self) -> RunResult<()> {
        let Some(promotion) = &self.promotion else { return Ok(()) };
        if let Some(persistence) = promotion.promote(self).await? {
            self.persist(persistence);
            // The request is answered with the task.
            self.leave();
        }
        Ok(())
    }

    /// A step that may be taken at most once is under way, until what is returned is dropped.
    pub(crate) fn claiming(self: &Arc<Self>, idempotency_key: &str, step: &str) -> Claiming {
        let mut claiming = self.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        claiming.insert(idempotency_key.to_owned(), step.to_owned());
        Claiming { run: Arc::clone(self), idempotency_key: idempotency_key.to_owned() }
    }

    /// The steps under way that may be taken at most once.
    pub(crate) fn claims_under_way(&self) -> BTreeMap<String, String> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on the run is a task.
    pub(crate) fn persist(&self, persistence: Arc<dyn Persistence>) {
        let _ = self.persistence.set(persistence);
    }

    /// Who writes down what the run comes to, if it is a task.
    pub(crate) fn persistence(&self) -> Option<&dyn Persistence> {
        self.persistence.get().map(|persistence| &**persistence)
    }

    /// Only people are waited for: it is not worked on.
    pub(crate) fn rest(&self) {
        self.place.iter().for_each(Admission::rest);
    }

    /// There is something to do again.
    pub(crate) async fn resume(&self) {
        if let Some(place) = &self.place {
            place.resume().await;
        }
    }

    /// It is over, or no longer its caller's. A tool may have given its context to somebody who goes on.
    pub(crate) fn leave(&self) {
        self.place.iter().for_each(Admission::leave);
    }

    /// Whether the client is asked while the tool waits.
    pub(crate) fn is_live(&self) -> bool {
        self.client.revision() == Revision::Session
            && !self.client.is_of_task()
            && self.persistence.get().is_none()
    }

    /// Whether whoever began the run has given up.
    pub(crate) fn is_cancelled(&self) -> bool {
        match self.persistence() {
            Some(persistence) => persistence.is_cancelled(),
            None => self.client.cancelled().is_cancelled(),
        }
    }

    /// What the run has seen so far.
    pub(crate) fn journal(&self) -> Journal {
        let mut state = self.state();
        state.id();
        let mut journal = state.written_now();
        self.span.mark(&mut journal);
        journal
    }

    /// When the run has to be looked at again, in milliseconds since 1970, whatever else happens.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.state().deadlines.values().min().copied()
    }

    /// The lock is never held while the tool's code runs, so it cannot be poisoned half-way.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the leg did that suspends here.
    pub(crate) fn trace_of(&self, suspension: &Suspension) -> Option<Value> {
        let trace = self.trace.as_ref()?;
        Some(trace.end(Some(&suspension.journal), suspension.asks.keys(), Ended::Suspended))
    }

    /// What the leg did that returned or failed.
    pub(crate) fn trace_of_end(&self, returned: bool) -> Option<Value> {
        let trace = self.trace.as_ref()?;
        let state = self.state();
        let journal = state.machine.as_ref().map(|machine| machine.journal());
        let ended = if returned { Ended::Returned } else { Ended::Failed };
        Some(trace.end(journal, std::iter::empty(), ended))
    }

    /// Takes the machine out of the run.
    pub(crate) fn take_machine(&self) -> Machine {
        let machine = *self.state().machine.take().unwrap_or_else(begin);
        self.span.leaving(&machine);
        machine
    }

    /// Ends the leg: what it asks, and what to keep until the answers come.
    pub(crate) fn suspend(&self) -> Result<Suspension, Drift> {
        self.id();
        let mut suspension = self.take_machine().suspend()?;
        self.span.mark(&mut suspension.journal);
        Ok(suspension)
    }

    /// How the leg ended is certain.
    pub(crate) fn ended(&self, how: How) {
        if let Some(machine) = &self.state().machine {
            self.span.leaving(machine);
        }
        self.span.ended(how);
    }

    /// Whether the tool, having returned, has seen all that its journal holds.
    pub(crate) fn check_complete(&self) -> Result<(), Drift> {
        self.state().machine.as_ref().map_or(Ok(()), |machine| machine.check_complete())
    }

    /// The run's id. Most runs end without anybody asking for it, so it is drawn when somebody does.
    pub(crate) fn id(&self) -> String {
        self.state().id().to_owned()
    }

    pub(crate) fn set_root(&self, waker: Waker) {
        let _ = self.root.set(waker);
    }

    /// Remembers whom to wake when `key` is handed over.
    ///
    /// The root waker is never kept: the driver polls the root anyway, and so whoever else holds a
    /// clone of it is real I/O. A combinator's own waker (`FuturesUnordered` has one a child) must
    /// be kept, or it will not poll us again.
    pub(crate) fn park(&self, state: &mut State, key: &Key, waker: &Waker) {
        if self.root.get().is_some_and(|root| root.will_wake(waker)) {
            return;
        }
        match state.wakers.get_mut(key) {
            Some(kept) => kept.clone_from(waker),
            None => {
                state.wakers.insert(key.clone(), waker.clone());
            }
        }
    }

    /// Tells the client something, unless it was told before.
    pub(crate) fn note(&self, note: Note) {
        let mut state = self.state();
        if state.machine().is_replaying() {
            return;
        }
        if let Note::Progress { progress, .. } = &note {
            // Progress must increase; what does not is not news.
            if state.last_progress.is_some_and(|last| *progress <= last) {
                return;
            }
            state.last_progress = Some(*progress);
        }
        if let (Some(persistence), Note::Progress { progress, total, message }) = (self.persistence(), &note)
        {
            persistence.say(match (message, total) {
                (Some(message), _) => message.clone(),
                (None, Some(total)) => format!("{progress} of {total}"),
                (None, None) => progress.to_string(),
            });
        }
        if state.outbox.len() < OUTBOX {
            state.outbox.push(note);
        } else {
            state.dropped_notes += 1;
        }
    }

    pub(crate) fn has_notes(&self) -> bool {
        !self.state().outbox.is_empty()
    }

    pub(crate) fn take_notes(&self) -> Vec<Note> {
        let mut state = self.state();
        if state.dropped_notes > 0 {
            tracing::warn!(
                dropped = state.dropped_notes,
                "a tool logs faster than it yields; notifications were dropped"
            );
            state.dropped_notes = 0;
        }
        std::mem::take(&mut state.outbox)
    }
}

/// A step under way that may be taken at most once.
pub(crate) struct Claiming {
    run: Arc<Run>,
    idempotency_key: String,
}

impl Drop for Claiming {
    fn drop(&mut self) {
        let mut claiming = self.run.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        claiming.remove(&self.idempotency_key);
    }
}

fn begin() -> Box<Machine> {
    Box::new(Machine::new(Journal::new(String::new())).with_fits(fits))
}

impl State {
    pub(crate) fn machine(&mut self) -> &mut Machine {
        self.machine.get_or_insert_with(begin)
    }

    pub(crate) fn id(&mut self) -> &str {
        let machine = self.machine();
        if machine.run().is_empty() {
            machine.set_run(random_id());
        }
        machine.run()
    }

    /// A step of a task has ended.
    pub(crate) fn finish(&mut self, key: &Key, outcome: Result<Value, Failure>) {
        self.finished.push_back((key.clone(), outcome));
    }

    /// The next step that has ended and that somebody still waits for: it is now in the journal.
    pub(crate) fn deliver(&mut self) -> Option<Key> {
        while let Some((key, outcome)) = self.finished.pop_front() {
            if self.machine().deliver(&key, outcome) {
                return Some(key);
            }
        }
        None
    }

    /// The journal, which is written down now.
    pub(crate) fn written_now(&mut self) -> Journal {
        self.written = self.machine().recorded();
        self.machine().journal().clone()
    }

    /// The journal, if a step is about to begin and what led there is not written down: an answer of a provider's is
    /// another one when it is asked again.
    pub(crate) fn write_ahead(&mut self) -> Option<Journal> {
        let begins = self.machine().begins_steps() && self.machine().recorded() != self.written;
        begins.then(|| self.written_now())
    }

    pub(crate) fn take_waker(&mut self, key: &Key) -> Option<Waker> {
        self.wakers.remove(key)
    }

    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers).into_values().collect()
    }

    /// A future was dropped.
    pub(crate) fn leave(&mut self, key: &Key) {
        self.machine().leave(key);
        self.wakers.remove(key);
        self.deadlines.remove(key);
        // A loop takes another step under the same key: what came of this one is not for that.
        self.finished.retain(|(finished, _)| finished != key);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.state().machine().run()).finish_non_exhaustive()
    }
}
