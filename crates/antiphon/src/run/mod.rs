//! The state of one run. The context and the driver of the run share this state.

pub(crate) mod ask;
mod at_most_once;
pub(crate) mod channels;
pub(crate) mod client;
mod drive;
pub(crate) mod groups;
mod persistence;
mod runtime;
mod single_use;

pub(crate) use self::{
    at_most_once::at_most_once,
    channels::{AskOptions, Channel, Channels},
    client::{Client, fits, fits_with_content},
    drive::{Leg, Pace, run_leg},
    groups::set_group,
    persistence::{Claimed, Pending, Persistence, Promote, Stop},
    runtime::{Mount, Mounts, Runtime, States, load, seal},
    single_use::{Entered, enter},
};

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use antiphon_replay::{Drift, Failure, Journal, Key, Machine, Suspension};
use serde_json::Value;

use crate::{
    base::random_id,
    error::Result as RunResult,
    limits::Admission,
    protocol::{Note, Revision},
    telemetry::{How, LegSpan},
    trace::{Ended, Trace},
};

/// A run that is in progress.
pub(crate) struct Run {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) principal: Option<String>,
    /// The slot of the run among the requests in flight. A leg of a task has no slot.
    pub(crate) place: Option<Admission>,
    /// The question keys that the tool declared. If the tool declared any, it can ask only questions with these keys.
    pub(crate) declared: Option<Arc<BTreeSet<String>>>,
    /// The settings for questions in clients that do not show them. By default, these channels are off.
    pub(crate) ask: AskOptions,
    /// The keys of questions that have reached their deadline without an answer.
    pub(crate) expired: BTreeSet<String>,
    /// The name under which the server remembers this client if the client does not respond to questions.
    pub(crate) client_key: Option<String>,
    /// Whether the client has answered a question without showing it to the user.
    unresponsive: AtomicBool,
    state: Mutex<State>,
    trace: Option<Trace>,
    /// The telemetry of the leg.
    pub(crate) span: LegSpan,
    /// The driver's waker. See [`Run::park`].
    root: OnceLock<Waker>,
    /// Stores the progress of the run, if the run is a task.
    persistence: OnceLock<Arc<dyn Persistence>>,
    /// Decides when the run becomes a task, and changes the run into a task.
    promotion: Option<Arc<dyn Promote>>,
    /// The at-most-once steps in progress while the run is not a task. The map key is the idempotency key. The value is
    /// the key of the step in the journal.
    claiming: Mutex<BTreeMap<String, String>>,
}

pub(crate) struct State {
    /// The replay machine. It is created on first use, because many tools neither ask questions nor run steps.
    machine: Option<Box<Machine>>,
    /// The wakers of futures that are polled by a combinator.
    wakers: BTreeMap<Key, Waker>,
    outbox: Vec<Note>,
    dropped_notes: u64,
    last_progress: Option<f64>,
    /// The last progress value that the server sent. Heartbeats increase this value, so it can be larger than the value
    /// from the tool.
    last_sent: Option<f64>,
    /// The time at which the client last received a progress notification.
    told: Instant,
    /// The deadline of each branch, in milliseconds since 1970.
    pub(crate) deadlines: BTreeMap<Key, u64>,
    /// The results of finished steps of a task. The tool receives each result after it is stored.
    finished: VecDeque<(Key, Result<Value, Failure>)>,
    /// The number of recordings in the journal that are already stored.
    written: u64,
}

/// The maximum number of notifications that wait to be sent. Without this limit, a tool that never yields could use up
/// the memory.
const OUTBOX: usize = 4096;

impl Run {
    /// Creates a run that continues from `machine`. Without `machine`, creates a new run.
    pub(crate) fn new(client: Client, runtime: Arc<Runtime>, machine: Option<Machine>) -> Self {
        let trace = runtime.traces.then(|| Trace::begin(&runtime.replica, machine.as_ref()));
        let state = State {
            machine: machine.map(Box::new),
            wakers: BTreeMap::new(),
            outbox: Vec::new(),
            dropped_notes: 0,
            last_progress: None,
            last_sent: None,
            told: Instant::now(),
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
            ask: AskOptions::default(),
            expired: BTreeSet::new(),
            client_key: None,
            unresponsive: AtomicBool::new(false),
            state: Mutex::new(state),
            trace,
            span: LegSpan::default(),
            root: OnceLock::new(),
            persistence: OnceLock::new(),
            promotion: None,
            claiming: Mutex::default(),
        }
    }

    /// Sets the object that can change the run into a task.
    pub(crate) fn with_promotion(mut self, promotion: Arc<dyn Promote>) -> Self {
        self.promotion = Some(promotion);
        self
    }

    /// Returns the time until the run becomes a task, or `None` if it does not become a task.
    pub(crate) fn promotes_in(&self) -> Option<std::time::Duration> {
        self.promotion.as_ref()?.due()
    }

    /// Returns whether the tool requested that the run becomes a task, and this is possible now.
    pub(crate) fn wants_promotion(&self) -> bool {
        let is_due = |promotion: &Arc<dyn Promote>| promotion.due() == Some(std::time::Duration::ZERO);
        self.promotion.as_ref().is_some_and(|promotion| is_due(promotion) && promotion.is_wanted())
    }

    /// Requests that the run becomes a task at the next wait, if this is possible.
    pub(crate) fn want_promotion(&self) {
        self.promotion.iter().for_each(|promotion| promotion.want());
    }

    /// Changes the run into a task. If the run is already a task, this method does nothing.
    pub(crate) async fn promote(&self) -> RunResult<()> {
        let Some(promotion) = &self.promotion else { return Ok(()) };
        if let Some(persistence) = promotion.promote(self).await? {
            self.persist(persistence);
            // The request is answered with the task, so it no longer needs its slot.
            self.leave();
        }
        Ok(())
    }

    /// Registers that an at-most-once step is in progress. Dropping the returned guard ends the registration.
    pub(crate) fn claiming(self: &Arc<Self>, idempotency_key: &str, step: &str) -> Claiming {
        let mut claiming = self.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        claiming.insert(idempotency_key.to_owned(), step.to_owned());
        Claiming { run: Arc::clone(self), idempotency_key: idempotency_key.to_owned() }
    }

    /// Returns the at-most-once steps in progress.
    pub(crate) fn claims_under_way(&self) -> BTreeMap<String, String> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the run into a task. `persistence` stores the progress of this task.
    pub(crate) fn persist(&self, persistence: Arc<dyn Persistence>) {
        let _ = self.persistence.set(persistence);
    }

    /// Returns the persistence of the run, if the run is a task.
    pub(crate) fn persistence(&self) -> Option<&dyn Persistence> {
        self.persistence.get().map(|persistence| &**persistence)
    }

    /// Marks the request as waiting, because the run now only waits for users.
    pub(crate) fn rest(&self) {
        self.place.iter().for_each(Admission::rest);
    }

    /// Marks the request as in progress again.
    pub(crate) async fn resume(&self) {
        if let Some(place) = &self.place {
            place.resume().await;
        }
    }

    /// Releases the slot of the request, because the run has ended or has become a task. The run itself can be dropped
    /// much later, if the tool has passed its context to another Tokio task.
    pub(crate) fn leave(&self) {
        self.place.iter().for_each(Admission::leave);
    }

    /// Returns whether the server sends questions to the client while the tool waits.
    pub(crate) fn is_live(&self) -> bool {
        self.client.revision() == Revision::Session
            && !self.client.is_of_task()
            && self.persistence.get().is_none()
    }

    /// Returns whether the call was answered before the end of the run, and the client does not follow the task.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.persistence.get().is_some() && self.client.is_remote() && !self.client.knows_tasks()
    }

    /// Returns the channels through which the user can answer an open question now. While the call is open, the server
    /// sends questions to the client directly. In this case, the result does not contain the client.
    pub(crate) fn channels(&self) -> Channels {
        if self.is_handed_over() || self.client.is_of_task() {
            self.ask.channels
        } else if self.persistence.get().is_some() {
            // The client follows the task and receives its questions, so no other channel is needed.
            Channels::default()
        } else {
            self.ask.channels.without_client()
        }
    }

    /// Returns whether the client answers questions without showing them to the user.
    pub(crate) fn is_unresponsive(&self) -> bool {
        self.unresponsive.load(Ordering::Relaxed)
    }

    /// Records that the client answers questions without showing them to the user. For some time, this also affects
    /// later runs of the same client.
    pub(crate) fn mark_unresponsive(&self) {
        self.stop_asking_client();
        if let Some(key) = &self.client_key {
            tracing::info!("a client answered a question without its user; the user is asked in another way");
            self.runtime.unresponsive.put(key.clone(), channels::UNRESPONSIVE);
        }
    }

    /// Records in the session whether a form of this run is open at the client. Does nothing if the user has no other
    /// channel.
    pub(crate) fn watch_form(&self, is_out: bool) {
        if let Some(key) = &self.client_key {
            self.client.watch_form(is_out.then_some(key.as_str()));
        }
    }

    /// Stops sending questions of this run to the client, if the user can answer through another channel.
    pub(crate) fn stop_asking_client(&self) {
        self.unresponsive.store(true, Ordering::Relaxed);
    }

    /// Sets the name under which the server remembers the client. If the client was recently unresponsive, the run
    /// does not ask it.
    pub(crate) fn remember_client(&mut self, key: Option<String>) {
        let known = |key: &String| self.runtime.unresponsive.has(key, channels::UNRESPONSIVE);
        self.unresponsive = AtomicBool::new(key.as_ref().is_some_and(known));
        self.client_key = key;
    }

    /// Returns whether the model can relay answers, if the question allows it.
    pub(crate) fn relays(&self) -> bool {
        // A client that follows the task receives its questions directly, so the model does not relay answers.
        let follows = self.persistence.get().is_some() && !self.is_handed_over() && !self.client.is_of_task();
        self.ask.relay && !follows
    }

    /// Returns whether the user must answer `request` through another channel than this client.
    pub(crate) fn is_asked_elsewhere(&self, request: &Value) -> bool {
        let lacks = self.is_handed_over() || self.client.lacks(request).is_some();
        (self.channels().carry(request) && (lacks || self.is_unresponsive()))
            || (self.relays() && lacks && channels::allows_relay(request))
    }

    /// Returns the time until the client needs a heartbeat, or `None` if it needs no heartbeat.
    pub(crate) fn next_heartbeat(&self) -> Option<Duration> {
        let every = self.ask.heartbeat?;
        let follows = self.client.is_remote() && self.persistence.get().is_none();
        if !follows || !self.client.has_progress_token() {
            return None;
        }
        Some(every.saturating_sub(self.state().told.elapsed()))
    }

    /// Queues a heartbeat. The progress value must increase with each notification. It increases only by a tiny
    /// amount, because the tool reports its own progress later.
    pub(crate) fn beat(&self, begun: Instant) {
        let mut state = self.state();
        let last = state.last_sent.unwrap_or(0.0);
        let progress = (last + 1e-6).max(last.next_up());
        let message = Some(format!("working for {} s", begun.elapsed().as_secs()));
        state.last_sent = Some(progress);
        state.told = Instant::now();
        state.outbox.push(Note::Progress { progress, total: None, message });
    }

    /// Returns whether the run was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        match self.persistence() {
            Some(persistence) => persistence.is_cancelled(),
            None => self.client.cancelled().is_cancelled(),
        }
    }

    /// Returns the current journal, and marks it as stored.
    pub(crate) fn journal(&self) -> Journal {
        let mut state = self.state();
        state.id();
        let mut journal = state.written_now();
        self.span.mark(&mut journal);
        journal
    }

    /// Returns the earliest deadline, in milliseconds since 1970. At this time, the run must continue even if no
    /// answer has arrived.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.state().deadlines.values().min().copied()
    }

    /// Locks the state. The lock is never held while the code of the tool runs. So a panic in the tool cannot poison
    /// the lock.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the trace of a leg that is suspended.
    pub(crate) fn trace_of(&self, suspension: &Suspension) -> Option<Value> {
        let trace = self.trace.as_ref()?;
        Some(trace.end(Some(&suspension.journal), suspension.asks.keys(), Ended::Suspended))
    }

    /// Returns the trace of a leg that has returned or failed.
    pub(crate) fn trace_of_end(&self, returned: bool) -> Option<Value> {
        let trace = self.trace.as_ref()?;
        let state = self.state();
        let journal = state.machine.as_ref().map(|machine| machine.journal());
        let ended = if returned { Ended::Returned } else { Ended::Failed };
        Some(trace.end(journal, std::iter::empty(), ended))
    }

    /// Takes the replay machine out of the run.
    pub(crate) fn take_machine(&self) -> Machine {
        let machine = *self.state().machine.take().unwrap_or_else(begin);
        self.span.leaving(&machine);
        machine
    }

    /// Ends the leg. Returns the questions of the leg, and the journal to store until the answers arrive.
    pub(crate) fn suspend(&self) -> Result<Suspension, Drift> {
        self.id();
        let mut suspension = self.take_machine().suspend()?;
        self.span.mark(&mut suspension.journal);
        Ok(suspension)
    }

    /// Records the final outcome of the leg in the telemetry.
    pub(crate) fn ended(&self, how: How) {
        if let Some(machine) = &self.state().machine {
            self.span.leaving(machine);
        }
        self.span.ended(how);
    }

    /// Checks that a tool that has returned has used the whole journal.
    pub(crate) fn check_complete(&self) -> Result<(), Drift> {
        self.state().machine.as_ref().map_or(Ok(()), |machine| machine.check_complete())
    }

    /// Returns the run's ID. The ID is generated on first use, because most runs do not need it.
    pub(crate) fn id(&self) -> String {
        self.state().id().to_owned()
    }

    pub(crate) fn set_root(&self, waker: Waker) {
        let _ = self.root.set(waker);
    }

    /// Stores the waker that must be woken when the result for `key` arrives.
    ///
    /// The driver's own waker (the root waker) is never stored, because the driver polls the root in any case. So if
    /// any clone of the root waker exists, actual I/O holds this clone. The waker of a combinator must be stored.
    /// Otherwise, the combinator would not poll the future again. For example, `FuturesUnordered` has one waker for
    /// each child.
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

    /// Queues a notification for the client. During a replay, this method does nothing.
    pub(crate) fn note(&self, mut note: Note) {
        let mut state = self.state();
        if state.machine().is_replaying() {
            return;
        }
        if let Note::Progress { progress, .. } = &mut note {
            // MCP requires that the progress increases, so other values are dropped.
            if state.last_progress.is_some_and(|last| *progress <= last) {
                return;
            }
            state.last_progress = Some(*progress);
            if let Some(sent) = state.last_sent {
                *progress = progress.max(sent.next_up());
            }
            state.last_sent = Some(*progress);
            state.told = Instant::now();
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
                "a tool sends notifications faster than it awaits; some notifications were dropped"
            );
            state.dropped_notes = 0;
        }
        std::mem::take(&mut state.outbox)
    }
}

/// The registration of an at-most-once step in progress. Dropping this value ends the registration.
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

    /// Queues the result of a step of a task.
    pub(crate) fn finish(&mut self, key: &Key, outcome: Result<Value, Failure>) {
        self.finished.push_back((key.clone(), outcome));
    }

    /// Records the next finished step in the journal, if the tool still awaits this step. Returns the key of the step.
    pub(crate) fn deliver(&mut self) -> Option<Key> {
        while let Some((key, outcome)) = self.finished.pop_front() {
            if self.machine().deliver(&key, outcome) {
                return Some(key);
            }
        }
        None
    }

    /// Returns the journal, and marks it as stored.
    pub(crate) fn written_now(&mut self) -> Journal {
        self.written = self.machine().recorded();
        self.machine().journal().clone()
    }

    /// Returns the journal if a new step is about to start, and earlier recordings are not stored yet. The earlier
    /// recordings must be stored before the new step starts. Otherwise, a replay could ask a provider again and get a
    /// different answer.
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

    /// Removes all data of a future that was dropped.
    pub(crate) fn leave(&mut self, key: &Key) {
        self.machine().leave(key);
        self.wakers.remove(key);
        self.deadlines.remove(key);
        // In a loop, the next step has the same key, and must not receive this result.
        self.finished.retain(|(finished, _)| finished != key);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.state().machine().run()).finish_non_exhaustive()
    }
}
