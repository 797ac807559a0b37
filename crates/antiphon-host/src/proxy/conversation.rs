//! The questions and notifications of one call to the other server (the proxied server).

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon::{Ctx, Level};
use rmcp::ErrorData;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep},
};

use super::forward::Answers;
use crate::{
    error::{Error, Result},
    event::{Event, Progress},
    task::TaskInfo,
};

/// A call to the other server. In a session, the server asks its questions while the call is open. While the caller's
/// run waits for answers, the run detaches from the call, and the call stays open. When the run has the answers, the
/// run attaches to the call again.
#[derive(Default)]
pub(super) struct Conversation {
    state: Mutex<State>,
    /// A channel that reports every change of the state.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    open: Vec<Question>,
    /// The number of questions so far. The key of the next question contains the number of questions.
    asked: u64,
    notes: VecDeque<Note>,
    /// The last progress that the proxy reported to the caller.
    progress: f64,
    /// The last status of the task that the proxy reported to the caller.
    status: Option<String>,
    ended: Option<Result<Value, Arc<Error>>>,
    /// The number of runs that are attached to the call. The number of attached runs is greater than 1 if a client
    /// repeats its request.
    attached: usize,
    /// The time at which the last run detached to wait for answers. The value is `None` if no run waits for answers.
    left: Option<Instant>,
    cancelled: Option<Cancelled>,
}

/// The reason why the proxy cancels a call.
#[derive(Clone)]
pub(super) struct Cancelled {
    pub(super) reason: String,
    /// How long the reason stays available for the run that waits for answers.
    pub(super) kept: Duration,
}

struct Question {
    key: String,
    request: Value,
    /// The channel for the answer to a question. The channel is closed if the server has withdrawn the question.
    answer: oneshot::Sender<Result<Value, ErrorData>>,
}

/// A notification that the other server sent.
enum Note {
    Progress(Progress),
    Status(String),
    Log { level: Level, logger: Option<String>, data: Value },
    PageComplete(String),
}

/// The next event of a call in a session.
pub(super) enum Next {
    Asks(Map<String, Value>),
    Ended(Result<Value, Arc<Error>>),
}

/// The maximum number of notifications that are kept until the run takes them.
const MAX_NOTES: usize = 256;

/// How long the result of a call stays available, for a client that repeats its request.
pub(super) const KEPT: Duration = Duration::from_secs(60);

/// How long the proxy waits for further questions after the first question, so that concurrent questions are asked in
/// one round.
const GATHER: Duration = Duration::from_millis(20);

impl Conversation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.send_replace(());
    }

    /// Waits for the caller's answer to a question of the server.
    pub(super) async fn ask(&self, method: String, params: Value) -> Result<Value, ErrorData> {
        let (answer, answered) = oneshot::channel();
        self.change(|state| {
            state.asked += 1;
            let key = format!("q{}", state.asked);
            let request = json!({"method": method, "params": params});
            state.open.push(Question { key, request, answer });
        });
        let ended = || ErrorData::internal_error("the call that asked this question has ended", None);
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Sends answers to the open questions. Answers to questions that are not open have no effect. A client sends
    /// answers to closed questions if the client repeats its request.
    pub(super) fn answer(&self, mut answers: Answers) {
        let open = std::mem::take(&mut self.state().open);
        let mut rest = Vec::new();
        for question in open {
            match answers.remove(&question.key) {
                // If `send` fails, the server has withdrawn the question and does not need the answer.
                Some(answer) => drop(question.answer.send(answer)),
                None => rest.push(question),
            }
        }
        self.change(|state| {
            // Questions that were asked in the meantime come last.
            rest.append(&mut state.open);
            state.open = rest;
        });
    }

    /// Records an event of the connection.
    pub(super) fn event(&self, event: Event) {
        let note = match event {
            Event::Log { level, logger, data } => Note::Log { level: level_of(&level), logger, data },
            Event::PageComplete { elicitation_id } => Note::PageComplete(elicitation_id),
            Event::Task(info) => return self.task(&info),
            _ => return,
        };
        self.note(note);
    }

    pub(super) fn progress(&self, progress: Progress) {
        self.note(Note::Progress(progress));
    }

    /// Records the state of a task. A server reports the progress of a task in the status message of the task.
    pub(super) fn task(&self, info: &TaskInfo) {
        let Some(message) = &info.message else { return };
        if self.state().status.as_ref() != Some(message) {
            self.state().status = Some(message.clone());
            self.note(Note::Status(message.clone()));
        }
    }

    fn note(&self, note: Note) {
        self.change(|state| {
            if state.notes.len() < MAX_NOTES {
                state.notes.push_back(note);
            }
        });
    }

    /// Waits for `work`. While `work` is running, sends notifications to the caller of `ctx`.
    pub(super) async fn telling<F: Future>(&self, ctx: &Ctx, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            let mut changed = self.changed.subscribe();
            self.tell(ctx);
            tokio::select! {
                biased;
                done = &mut work => {
                    self.tell(ctx);
                    return done;
                }
                _ = changed.changed() => {}
            }
        }
    }

    fn tell(&self, ctx: &Ctx) {
        let (notes, mut last) = {
            let mut state = self.state();
            (std::mem::take(&mut state.notes), state.progress)
        };
        for note in notes {
            match note {
                Note::Progress(Progress { progress, total, message }) => {
                    last = last.max(progress);
                    let mut shown = match total {
                        Some(total) => antiphon::Progress::of(progress, total),
                        None => progress.into(),
                    };
                    if let Some(message) = message {
                        shown = shown.message(message);
                    }
                    ctx.progress(shown);
                }
                Note::Status(message) => {
                    last += 1.0;
                    ctx.progress(antiphon::Progress::from(last).message(message));
                }
                Note::Log { level, logger: Some(logger), data } => ctx.log_from(&logger, level, data),
                Note::Log { level, logger: None, data } => ctx.log(level, data),
                Note::PageComplete(id) => ctx.elicitation_complete(&id),
            }
        }
        self.state().progress = last;
    }

    /// Waits until the call asks a question or ends.
    pub(super) async fn next(&self) -> Next {
        let mut gathered = false;
        loop {
            let mut changed = self.changed.subscribe();
            let next = {
                let mut state = self.state();
                state.open.retain(|question| !question.answer.is_closed());
                match &state.ended {
                    Some(Ok(value)) => Some(Next::Ended(Ok(value.clone()))),
                    Some(Err(error)) => Some(Next::Ended(Err(Arc::clone(error)))),
                    None if state.open.is_empty() => None,
                    None => {
                        let asks = state.open.iter().map(|it| (it.key.clone(), it.request.clone()));
                        Some(Next::Asks(asks.collect()))
                    }
                }
            };
            match next {
                Some(Next::Asks(_)) if !gathered => {
                    gathered = true;
                    sleep(GATHER).await;
                }
                Some(next) => return next,
                None => drop(changed.changed().await),
            }
        }
    }

    /// Ends the call. Open questions of the call are not answered.
    pub(super) fn end(&self, result: Result<Value>) {
        self.change(|state| {
            state.ended = Some(result.map_err(Arc::new));
            state.open.clear();
        });
    }

    /// Attaches a run to the call, until the guard is dropped.
    pub(super) fn attach(self: &Arc<Self>) -> Attached {
        self.change(|state| {
            state.attached += 1;
            state.left = None;
        });
        Attached { conversation: Arc::clone(self), waits: false }
    }

    /// Cancels the call at the other server, because no run needs its result.
    pub(super) fn abandon(&self) {
        self.change(State::abandon);
    }

    /// Cancels a call that waits for answers. If the call has already ended, the reason for the cancellation replaces
    /// the result of the call.
    pub(super) fn evict(&self, reason: String) {
        self.change(|state| {
            if state.ended.is_some() {
                state.ended = Some(Err(Arc::new(Error::Misuse(reason.clone()))));
                state.notes.clear();
            }
            state.left = None;
            state.cancelled = Some(Cancelled { reason, kept: KEPT });
        });
    }

    /// Returns the time at which the last run detached from the call to wait for answers. Returns `None` if a run is
    /// attached to the call.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let state = self.state();
        state.left.filter(|_| state.attached == 0)
    }

    /// Waits until the call must be cancelled. Returns the reason for the cancellation.
    pub(super) async fn cancelled(&self, limit: Duration) -> Cancelled {
        loop {
            let mut changed = self.changed.subscribe();
            let cancelled = self.state().cancelled.clone();
            if let Some(cancelled) = cancelled {
                return cancelled;
            }
            let left = self.waiting_since();
            let expired = async {
                match left {
                    Some(left) => sleep(limit.saturating_sub(left.elapsed())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expired => {
                    let reason = format!("the questions of the call were not answered within {limit:?}");
                    return Cancelled { reason, kept: Duration::ZERO };
                }
                _ = changed.changed() => {}
            }
        }
    }

    /// Waits until no run needs the result of the ended call. A run that waits for answers has the time `limit` to
    /// attach again. A client has the time `kept` to repeat its request.
    pub(super) async fn forgotten(&self, kept: Duration, limit: Duration) {
        loop {
            let mut changed = self.changed.subscribe();
            let (is_attached, left) = {
                let state = self.state();
                (state.attached > 0, state.left)
            };
            let returns = left.map_or(Duration::ZERO, |left| limit.saturating_sub(left.elapsed()));
            tokio::select! {
                () = sleep(returns.max(kept)), if !is_attached => return,
                _ = changed.changed() => {}
            }
        }
    }
}

impl State {
    fn abandon(&mut self) {
        self.left = None;
        self.cancelled.get_or_insert_with(|| Cancelled {
            reason: "the call was cancelled".into(),
            kept: Duration::ZERO,
        });
    }
}

/// A run that is attached to the call and waits for its next event. If the last attached run is dropped, the call is
/// cancelled.
pub(super) struct Attached {
    conversation: Arc<Conversation>,
    /// Whether the run detached to wait for answers.
    waits: bool,
}

impl Attached {
    /// Leaves the call open, because the run waits for answers.
    pub(super) fn leave(mut self) {
        self.waits = true;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let waits = self.waits;
        self.conversation.change(|state| {
            state.attached -= 1;
            if waits {
                state.left = Some(Instant::now());
            } else if state.attached == 0 && state.left.is_none() && state.ended.is_none() {
                state.abandon();
            }
        });
    }
}

/// The calls and tasks that the other server currently executes on one connection.
///
/// Questions in a session and log messages do not contain the ID of their call. So the proxy can assign a question or a
/// log message to a call only if the server works on nothing else.
#[derive(Default)]
pub(super) struct Current(Mutex<Work>);

#[derive(Default)]
struct Work {
    calls: Vec<Arc<Conversation>>,
    /// The last call that ended without an answer. The server can still work on the unanswered call.
    unanswered: Option<Possible>,
    /// The tasks that have not ended. The key of each task is the ID of the task.
    tasks: HashMap<String, Possible>,
}

/// A call or a task that the server is possibly still executing.
#[derive(Clone, Copy)]
struct Possible {
    since: Instant,
    limit: Duration,
}

impl Possible {
    fn new(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    fn is_over(self) -> bool {
        self.since.elapsed() >= self.limit
    }
}

impl Current {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call. The registration ends when the returned guard is dropped. If the guard is dropped without
    /// [`Entered::answered`], the server possibly continues to work on the call for the duration `unanswered`.
    pub(super) fn enter(
        self: &Arc<Self>,
        conversation: &Arc<Conversation>,
        unanswered: Option<Duration>,
    ) -> Entered {
        self.work().calls.push(Arc::clone(conversation));
        Entered { current: Arc::clone(self), conversation: Arc::clone(conversation), unanswered }
    }

    /// Records that the other server executes a task. The task counts as running for at most the duration `limit`.
    pub(super) fn task_runs(&self, id: &str, limit: Duration) {
        self.work().tasks.insert(id.to_owned(), Possible::new(limit));
    }

    /// Records that a task of the other server has ended.
    pub(super) fn task_ended(&self, id: &str) {
        self.work().tasks.remove(id);
    }

    /// Returns the open call, if the other server executes no other call and no task.
    pub(super) fn only(&self) -> Option<Arc<Conversation>> {
        let mut guard = self.work();
        let work = &mut *guard;
        work.unanswered = work.unanswered.filter(|call| !call.is_over());
        work.tasks.retain(|_, task| !task.is_over());
        match work.calls.as_slice() {
            [only] if work.unanswered.is_none() && work.tasks.is_empty() => Some(Arc::clone(only)),
            _ => None,
        }
    }
}

/// One open call of a connection. Dropping an `Entered` removes the call.
pub(super) struct Entered {
    current: Arc<Current>,
    conversation: Arc<Conversation>,
    unanswered: Option<Duration>,
}

impl Entered {
    /// Removes the call, because the server has answered the call.
    pub(super) fn answered(mut self) {
        self.unanswered = None;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut work = self.current.work();
        work.calls.retain(|call| !Arc::ptr_eq(call, &self.conversation));
        if let Some(limit) = self.unanswered {
            work.unanswered = Some(Possible::new(limit));
        }
    }
}

/// The names of the log levels in MCP.
const LEVELS: [(Level, &str); 8] = [
    (Level::Debug, "debug"),
    (Level::Info, "info"),
    (Level::Notice, "notice"),
    (Level::Warning, "warning"),
    (Level::Error, "error"),
    (Level::Critical, "critical"),
    (Level::Alert, "alert"),
    (Level::Emergency, "emergency"),
];

fn level_of(name: &str) -> Level {
    LEVELS.into_iter().find(|(_, known)| *known == name).map_or(Level::Info, |(level, _)| level)
}

pub(super) fn name_of_level(level: Level) -> &'static str {
    LEVELS.into_iter().find(|(known, _)| *known == level).map_or("info", |(_, name)| name)
}
