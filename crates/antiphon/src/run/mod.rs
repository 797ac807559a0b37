//! The state of one run. The tool's context and the driver share this state.

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
    time::Duration,
};

use tokio::time::Instant;

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

/// A tool call that is in progress.
pub(crate) struct Run {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) principal: Option<String>,
    /// The slot that the request occupies while the request is in flight. A leg of a task has no slot.
    pub(crate) place: Option<Admission>,
    /// The question keys that the tool declared. If the tool declared question keys, the tool can ask only questions
    /// with these keys.
    pub(crate) declared: Option<Arc<BTreeSet<String>>>,
    /// The settings for questions whose client does not show questions. By default, the client is the user's only
    /// channel.
    pub(crate) ask: AskOptions,
    /// The keys of questions that have reached their deadline without an answer.
    pub(crate) expired: BTreeSet<String>,
    /// The name under which the server records that this client does not show questions.
    pub(crate) client_key: Option<String>,
    /// Whether the client has answered a question without showing the question to the user.
    unresponsive: AtomicBool,
    state: Mutex<State>,
    trace: Option<Trace>,
    /// The telemetry of the leg.
    pub(crate) span: LegSpan,
    /// The driver's waker. See [`Run::park`].
    root: OnceLock<Waker>,
    /// The object that stores the progress of the run, if the run is a task.
    persistence: OnceLock<Arc<dyn Persistence>>,
    /// The object that decides when the run becomes a task, and that creates the task.
    promotion: Option<Arc<dyn Promote>>,
    /// The at-most-once steps that are in progress in a run that is not a task. The map key is the idempotency key. The
    /// value is the key of the step in the journal.
    claiming: Mutex<BTreeMap<String, String>>,
}

pub(crate) struct State {
    /// The replay machine. The run creates the machine on first use, because many tools do not ask questions or run
    /// steps.
    machine: Option<Box<Machine>>,
    /// The wakers of futures that a combinator polls, by the key of the question or step.
    wakers: BTreeMap<Key, Waker>,
    outbox: Vec<Note>,
    dropped_notes: u64,
    last_progress: Option<f64>,
    /// The last progress value that the server sent. Heartbeats increase the progress value, so this value can be
    /// larger than the value from the tool.
    last_sent: Option<f64>,
    /// The time at which the client last received a progress notification.
    told: Instant,
    /// The deadline of each branch, in milliseconds since 1970.
    pub(crate) deadlines: BTreeMap<Key, u64>,
    /// The results of finished steps of a task. The tool receives each result only after the store contains the result.
    finished: VecDeque<(Key, Result<Value, Failure>)>,
    /// The number of journal recordings that the store already contains.
    written: u64,
}

/// The maximum number of notifications in the send queue. Without this maximum, a tool that never yields could fill the
/// memory with notifications.
const OUTBOX: usize = 4096;

impl Run {
    /// Creates a run that continues from `machine`. If `machine` is `None`, creates a new run.
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

    /// Returns the time until the run becomes a task, or `None` if the run does not become a task.
    pub(crate) fn promotes_in(&self) -> Option<std::time::Duration> {
        self.promotion.as_ref()?.due()
    }

    /// Returns `true` if the tool requested that the run becomes a task, and if the run can become a task now.
    pub(crate) fn wants_promotion(&self) -> bool {
        let is_due = |promotion: &Arc<dyn Promote>| promotion.due() == Some(std::time::Duration::ZERO);
        self.promotion.as_ref().is_some_and(|promotion| is_due(promotion) && promotion.is_wanted())
    }

    /// Requests that the run becomes a task when the tool waits the next time. Does nothing if the run cannot become a
    /// task.
    pub(crate) fn want_promotion(&self) {
        self.promotion.iter().for_each(|promotion| promotion.want());
    }

    /// Changes the run into a task. If the run is already a task, this method does nothing.
    pub(crate) async fn promote(&self) -> RunResult<()> {
        let Some(promotion) = &self.promotion else { return Ok(()) };
        if let Some(persistence) = promotion.promote(self).await? {
            self.persist(persistence);
            // The server answers the request with the task, so the request no longer needs a slot.
            self.leave();
        }
        Ok(())
    }

    /// Registers an at-most-once step that is in progress. Dropping the returned guard removes the registration.
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

    /// Marks the request as waiting for users, so that the request does not occupy a slot.
    pub(crate) fn rest(&self) {
        self.place.iter().for_each(Admission::rest);
    }

    /// Marks the request as in progress again, after a wait for users.
    pub(crate) async fn resume(&self) {
        if let Some(place) = &self.place {
            place.resume().await;
        }
    }

    /// Releases the slot of the request, because the run has ended or has become a task. If the tool has passed the
    /// context to another Tokio task, the run can stay in memory much longer.
    pub(crate) fn leave(&self) {
        self.place.iter().for_each(Admission::leave);
    }

    /// Returns whether the server sends questions to the client while the tool waits.
    pub(crate) fn is_live(&self) -> bool {
        self.client.revision() == Revision::Session
            && !self.client.is_of_task()
            && self.persistence.get().is_none()
    }

    /// Returns `true` if the server answered the call before the run ended, and the client does not read the task.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.persistence.get().is_some() && self.client.is_remote() && !self.client.knows_tasks()
    }

    /// Returns the channels through which the user can answer an open question now. While the call is in flight, the
    /// server sends questions directly to the client. So during the call, the returned channels do not contain the
    /// client.
    pub(crate) fn channels(&self) -> Channels {
        if self.is_handed_over() || self.client.is_of_task() {
            self.ask.channels
        } else if self.persistence.get().is_some() {
            // The client reads the task and receives the questions of the task, so the user needs no other channel.
            Channels::default()
        } else {
            self.ask.channels.without_client()
        }
    }

    /// Returns `true` if the client has answered a question without showing the question to the user.
    pub(crate) fn is_unresponsive(&self) -> bool {
        self.unresponsive.load(Ordering::Relaxed)
    }

    /// Records that the client answers questions without showing the questions to the user. For some time, later runs
    /// of the same client also use this record.
    pub(crate) fn mark_unresponsive(&self) {
        self.stop_asking_client();
        if let Some(key) = &self.client_key {
            tracing::info!("a client answered a question without its user; the user is asked in another way");
            self.runtime.unresponsive.put(key.clone(), channels::UNRESPONSIVE);
        }
    }

    /// Records in the session whether the client has an open form of this run. Does nothing if the client is the user's
    /// only channel.
    pub(crate) fn watch_form(&self, is_out: bool) {
        if let Some(key) = &self.client_key {
            self.client.watch_form(is_out.then_some(key.as_str()));
        }
    }

    /// Stops sending questions of this run to the client, if the user can answer through another channel.
    pub(crate) fn stop_asking_client(&self) {
        self.unresponsive.store(true, Ordering::Relaxed);
    }

    /// Sets the name under which the server records the client. If this client has recently answered a question without
    /// showing it, the run does not ask the client.
    pub(crate) fn remember_client(&mut self, key: Option<String>) {
        let known = |key: &String| self.runtime.unresponsive.has(key, channels::UNRESPONSIVE);
        self.unresponsive = AtomicBool::new(key.as_ref().is_some_and(known));
        self.client_key = key;
    }

    /// Returns `true` if the server allows the model to relay a user's answer. The question must also allow relayed
    /// answers.
    pub(crate) fn relays(&self) -> bool {
        // A client that reads the task receives the questions directly, so the model does not relay answers.
        let follows = self.persistence.get().is_some() && !self.is_handed_over() && !self.client.is_of_task();
        self.ask.relay && !follows
    }

    /// Returns `true` if the user must answer `request` through a channel other than this client.
    pub(crate) fn is_asked_elsewhere(&self, request: &Value) -> bool {
        let lacks = self.is_handed_over() || self.client.lacks(request).is_some();
        (self.channels().carry(request) && (lacks || self.is_unresponsive()))
            || (self.relays() && lacks && channels::allows_relay(request))
    }

    /// Returns the time until the server must send a heartbeat, or `None` if the client needs no heartbeats.
    pub(crate) fn next_heartbeat(&self) -> Option<Duration> {
        let every = self.ask.heartbeat?;
        let follows = self.client.is_remote() && self.persistence.get().is_none();
        if !follows || !self.client.has_progress_token() {
            return None;
        }
        Some(every.saturating_sub(self.state().told.elapsed()))
    }

    /// Queues a heartbeat. MCP requires that each progress notification has a larger value. A heartbeat increases the
    /// value only by a tiny amount, so that the tool can still report a larger value later.
    pub(crate) fn beat(&self, begun: Instant) {
        let mut state = self.state();
        let last = state.last_sent.unwrap_or(0.0);
        let progress = (last + 1e-6).max(last.next_up());
        let message = Some(format!("working for {} s", begun.elapsed().as_secs()));
        state.last_sent = Some(progress);
        state.told = Instant::now();
        state.outbox.push(Note::Progress { progress, total: None, message });
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        match self.persistence() {
            Some(persistence) => persistence.is_cancelled(),
            None => self.client.cancelled().is_cancelled(),
        }
    }

    /// Returns the current journal, and marks the journal as stored.
    pub(crate) fn journal(&self) -> Journal {
        let mut state = self.state();
        state.id();
        let mut journal = state.written_now();
        self.span.mark(&mut journal);
        journal
    }

    /// Returns the earliest deadline, in milliseconds since 1970. At the deadline, the run must continue even if no
    /// answer has arrived.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.state().deadlines.values().min().copied()
    }

    /// Locks the state. The lock is never held while the code of the tool runs. So a panic in the tool cannot poison
    /// the lock.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the trace of a leg that ended at a question.
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

    /// Ends the leg. Returns the questions of the leg, and the journal with which the next leg continues.
    pub(crate) fn suspend(&self) -> Result<Suspension, Drift> {
        self.id();
        let mut suspension = self.take_machine().suspend()?;
        self.span.mark(&mut suspension.journal);
        Ok(suspension)
    }

    /// Records in the telemetry how the leg ended.
    pub(crate) fn ended(&self, how: How) {
        if let Some(machine) = &self.state().machine {
            self.span.leaving(machine);
        }
        self.span.ended(how);
    }

    /// Returns drift if the tool returned before the tool used all entries of the journal.
    pub(crate) fn check_complete(&self) -> Result<(), Drift> {
        self.state().machine.as_ref().map_or(Ok(()), |machine| machine.check_complete())
    }

    /// Returns the run's ID. The ID is generated on first use, because most runs do not need an ID.
    pub(crate) fn id(&self) -> String {
        self.state().id().to_owned()
    }

    pub(crate) fn set_root(&self, waker: Waker) {
        let _ = self.root.set(waker);
    }

    /// Stores the waker that must be woken when the result for `key` arrives.
    ///
    /// The run does not store the driver's own waker (the root waker), because the driver polls the root in any case.
    /// So if another clone of the root waker exists, a timer or a socket holds this clone. The run stores the waker of
    /// a combinator, because a combinator polls only futures that were woken. For example, `FuturesUnordered` has one
    /// waker for each child.
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
            // MCP requires that the progress value increases, so the server drops values that are not larger than the
            // last value.
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

    /// Adds the result of a task's step to the queue of finished steps.
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

    /// Returns the journal, and marks the journal as stored.
    pub(crate) fn written_now(&mut self) -> Journal {
        self.written = self.machine().recorded();
        self.machine().journal().clone()
    }

    /// Returns the journal if a new step is about to start and the store does not contain all recordings yet. The
    /// caller must store these recordings before the step starts. Without these recordings, a replay could ask a
    /// provider again and receive a different answer.
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

    /// Removes all data that belongs to a dropped future.
    pub(crate) fn leave(&mut self, key: &Key) {
        self.machine().leave(key);
        self.wakers.remove(key);
        self.deadlines.remove(key);
        // In a loop, the next step has the same key as this step and must not receive the result of this step.
        self.finished.retain(|(finished, _)| finished != key);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.state().machine().run()).finish_non_exhaustive()
    }
}
