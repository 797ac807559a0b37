//! The driver, which executes one leg of a run. The driver polls the tool's function and records the results with the
//! replay machine.
//!
//! `run_leg` executes one leg and checks the output. The driver is the loop in `drive`, which executes all runs. The
//! driver passes recorded results from the journal to the tool, and polls the tool until the tool cannot continue. When
//! the tool asks a question, the driver does one of the following:
//!
//! - In a 2025-11-25 session, the driver sends the question to the client and waits.
//! - On 2026-07-28 and in tasks, `run_leg` returns the questions to the code that called `run_leg`.
//!
//! For all runs, the driver itself sends requests to providers. In a task, the driver stores the result of a step
//! before the tool receives this result.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use antiphon_replay::{Advance, Blocked, Drift, Suspension};
use tokio::{sync::Notify, time::Instant};

use super::{Persistence, Run, Stop, ask::Asking};
use crate::{
    base::now_millis,
    error::{Error, ErrorKind, Result},
    output::Returned,
    protocol::Note,
};

/// The result of a leg.
#[derive(Debug)]
pub(crate) enum Leg<T> {
    /// The function returned a value or an error. If the output is too large or does not match the tool's output
    /// schema, the value is an error.
    Done(Result<T>),
    /// The function waits for answers. If no answer arrives before the time `due`, the run must continue at `due`.
    /// `due` is in milliseconds since 1970.
    Waits { suspension: Suspension, due: Option<u64> },
    /// The run must stop on this replica, because this replica cannot store the progress of the run.
    Stopped(Stop),
}

/// The time limits of a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The maximum time for which a question waits for I/O that the tool does outside of steps.
    pub(crate) grace: Duration,
    /// The maximum working time of the tool. The time in which the tool only waits for users does not count.
    pub(crate) limit: Option<Duration>,
    /// The maximum working time after the run has become a task. The caller of a task does not wait for the result, so
    /// this limit replaces `limit`.
    pub(crate) task_limit: Option<Duration>,
    /// The interval of pings that keep an idle session open.
    pub(crate) keep_alive: Option<Duration>,
}

/// Runs `function` until the function returns or waits, or until `cancelled` completes. `check` validates the output.
///
/// Do not drop `function` before the leg has ended, because dropping the function withdraws its questions.
pub(crate) async fn run_leg<T: Returned>(
    run: &Run,
    function: Pin<&mut (dyn Future<Output = Result<T>> + Send)>,
    pace: Pace,
    cancelled: impl Future<Output = ()>,
    check: impl Fn(&T) -> Result<()>,
) -> Leg<T> {
    let driven = tokio::select! {
        biased;
        driven = run.span.within(drive(run, function, pace)) => driven,
        () = cancelled => Driven::Done(Err(Error::new(ErrorKind::Cancelled))),
    };
    match driven {
        Driven::Stopped(stop) => Leg::Stopped(stop),
        Driven::Suspended => {
            let due = run.next_due();
            match run.suspend() {
                Ok(suspension) => Leg::Waits { suspension, due },
                Err(drift) => Leg::Done(Err(drifted(drift))),
            }
        }
        Driven::Done(result) => Leg::Done(result.and_then(|output| {
            run.check_complete().map_err(drifted)?;
            check_size(run, &output)?;
            check(&output)?;
            Ok(output)
        })),
    }
}

fn drifted(drift: Drift) -> Error {
    Error::new(ErrorKind::Drift(drift)).terminal()
}

/// Adds the size of the output to the caller's quota usage. Returns an error if the output is larger than the limit.
fn check_size(run: &Run, output: &impl Returned) -> Result<()> {
    let (bytes, most) = (output.bytes(), run.runtime.limits.output_bytes);
    if let Some(place) = &run.place {
        place.spend(bytes);
    }
    if bytes <= most {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Limit(format!(
        "the answer has {bytes} bytes, more than the limit of {most}; return less, return a result set (`Ctx::dual_response`), or raise `Limits::with_output_bytes`"
    )))
    .terminal())
}

/// The reason why the driver stopped.
#[derive(Debug)]
enum Driven<T> {
    /// The tool returned.
    Done(Result<T>),
    /// The tool waits for answers. [`antiphon_replay::Machine::suspend`] returns the questions that the tool asked. In
    /// a task, the tool can also wait only for a point in time, which [`Run::next_due`] returns.
    Suspended,
    /// The run must stop on this replica, because this replica cannot store the progress of the run.
    Stopped(Stop),
}

/// The waker of the driver. The reference count shows whether another part of the program holds a clone and can wake
/// the driver.
#[derive(Debug)]
struct Root {
    woken: AtomicBool,
    notify: Notify,
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }
}

/// The number of references to `Root` that the driver itself holds. The references are the driver's handle, the waker
/// from this handle, and the clone with which the run compares wakers.
const OWN_HOLDERS: usize = 3;

/// The remaining working time of the tool.
///
/// The working time is the time in which the tool runs, sends notifications or writes to the store. A wait for users
/// does not use up working time.
struct Allowance {
    limit: Option<Duration>,
    left: Option<Duration>,
    since: Instant,
}

impl Allowance {
    fn new(limit: Option<Duration>) -> Self {
        Self { limit, left: limit, since: Instant::now() }
    }

    /// Subtracts the time since the last call of this method from the allowance, and returns the remaining time.
    fn left(&mut self) -> Option<Duration> {
        if let Some(left) = &mut self.left {
            let now = Instant::now();
            *left = left.saturating_sub(now.saturating_duration_since(self.since));
            self.since = now;
        }
        self.left
    }

    /// Continues the measurement after a wait for users. The time since the last call of [`left`](Self::left) does not
    /// count as working time.
    fn resume(&mut self) {
        self.since = Instant::now();
    }

    fn is_spent(&mut self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    fn timed_out<T>(&self) -> Driven<T> {
        Driven::Done(Err(Error::new(ErrorKind::Timeout(self.limit.unwrap_or_default()))))
    }
}

/// Runs `tool` until the tool returns, or until the tool only waits for answers.
///
/// Rust moves the future of `drive` before the first poll, so this future must be small. Data that only a waiting tool
/// needs is boxed.
///
/// If the tool panics, `drive` converts the panic into an error, so that the client still gets a response.
async fn drive<T>(
    run: &Run,
    mut tool: Pin<&mut (dyn Future<Output = Result<T>> + Send)>,
    pace: Pace,
) -> Driven<T> {
    let root = Arc::new(Root { woken: AtomicBool::new(false), notify: Notify::new() });
    let waker = Waker::from(Arc::clone(&root));
    run.set_root(waker.clone());
    let mut asking = Asking::new(run);
    let mut allowance = Allowance::new(pace.limit);
    let begun = Instant::now();
    let mut pinged = begun;
    let mut cleaning: Option<Instant> = None;
    // The start of the grace period. Heartbeats and pings do not restart the grace period.
    let mut quiet: Option<Instant> = None;
    loop {
        if let Some(persistence) = run.persistence() {
            if persistence.is_lost() {
                return Driven::Stopped(Stop::Lost);
            }
            if persistence.is_cancelled() && cleaning.is_none() {
                cleaning = Some(Instant::now() + persistence.clean_up());
            }
        }
        wake_due(run);
        loop {
            root.woken.store(false, Ordering::SeqCst);
            let polled =
                catch_unwind(AssertUnwindSafe(|| tool.as_mut().poll(&mut Context::from_waker(&waker))));
            match polled {
                Ok(Poll::Ready(result)) => {
                    flush(run).await;
                    return Driven::Done(result);
                }
                Ok(Poll::Pending) => {}
                Err(_) => return Driven::Done(Err(Error::tool(describe_panic()).terminal())),
            }
            // If the tool is always ready, the loop never reaches the code that waits. So this code checks the time
            // limit here.
            if allowance.is_spent() {
                return allowance.timed_out();
            }
            // Tokio's coop budget, `yield_now` and combinators can wake the root waker while the driver polls the tool.
            if !root.woken.load(Ordering::SeqCst) {
                break;
            }
            tokio::task::consume_budget().await;
        }
        if run.has_notes() {
            // A client that does not read must not delay the tool beyond the tool's time limit.
            tokio::select! {
                biased;
                () = flush(run) => {}
                () = sleep_or_never(allowance.left()) => return allowance.timed_out(),
            }
        }
        if let Err(stop) = write_ahead(run).await {
            return Driven::Stopped(stop);
        }
        let blocked = match hand_over(run) {
            Ok(Some(blocked)) => blocked,
            Ok(None) => continue,
            // I/O outside of steps runs again in every leg. The tool reaches the next journal entry only after this
            // I/O. So the driver waits for the I/O before the driver reports drift.
            Err(Drift::Unexpected { .. })
                if Arc::strong_count(&root) > OWN_HOLDERS || root.woken.load(Ordering::SeqCst) =>
            {
                tokio::select! {
                    biased;
                    () = root.notify.notified() => {}
                    () = news(run) => {}
                    () = until(cleaning.map(|until| until.saturating_duration_since(Instant::now()))) => {
                        return Driven::Done(Err(Error::new(ErrorKind::Cancelled)));
                    }
                    () = sleep_or_never(allowance.left()) => return allowance.timed_out(),
                }
                continue;
            }
            Err(drift) => return Driven::Done(Err(drifted(drift))),
        };
        match write_down(run).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(stop) => return Driven::Stopped(stop),
        }
        if asking.start() {
            continue;
        }
        let foreign = Arc::strong_count(&root).saturating_sub(OWN_HOLDERS);
        // The driver must read `woken` after the reference count. Another holder may have woken the driver after the
        // poll and then dropped the waker.
        if root.woken.load(Ordering::SeqCst) {
            continue;
        }
        let due = next_deadline(run);
        let running = blocked.running + asking.of_providers();
        let idle = running == 0 && foreign == 0;
        if idle && blocked.asks == 0 && due.is_none() {
            return Driven::Done(Err(Error::new(ErrorKind::Deadlock).terminal()));
        }
        // A run that is about to ask a question becomes a task only if the tool requested a task. If the run became a
        // task at any question, the client would close the form while the user sees the form.
        let asks = (idle && blocked.asks > 0) || asking.has_form_out();
        if run.wants_promotion() || (run.promotes_in() == Some(Duration::ZERO) && !asks) {
            promote(run).await;
            if run.persistence().is_some() {
                allowance = Allowance::new(pace.task_limit);
            }
            continue;
        }
        match () {
            () if run.is_live() && !asking.only_elsewhere(blocked.asks) => {
                let working = blocked.asks == 0 || running > 0;
                if !working {
                    // While a call waits for an answer, the call must not occupy a slot that other requests need.
                    run.rest();
                }
                let left = allowance.left().filter(|_| working);
                let form_out = asking.has_form_out();
                let goes_on = tokio::select! {
                    biased;
                    () = root.notify.notified() => true,
                    () = asking.answered() => true,
                    () = until(due) => true,
                    () = keep_alive(run, pace.keep_alive, pinged) => {
                        pinged = Instant::now();
                        false
                    }
                    () = until(run.next_heartbeat()) => {
                        run.beat(begun);
                        false
                    }
                    () = until(run.promotes_in().filter(|_| working && !form_out)) => true,
                    () = sleep_or_never(left) => return allowance.timed_out(),
                };
                if goes_on {
                    run.resume().await;
                }
                if !working {
                    allowance.resume();
                }
                quiet = None;
            }
            () if idle && (blocked.asks > 0 || sleeps(run, due)) => return Driven::Suspended,
            () => {
                // A timer, a socket or a combinator also holds the waker. If a question is pending and no step runs,
                // the holder can be a `timeout` around the question. So the driver waits only for the grace period.
                let ambiguous = blocked.asks > 0 && running == 0;
                let grace = ambiguous.then(|| {
                    let since = *quiet.get_or_insert_with(Instant::now);
                    pace.grace.saturating_sub(since.elapsed())
                });
                // The session must stay open while the run works and a question waits for an answer through another
                // channel.
                let every = pace.keep_alive.filter(|_| run.is_live());
                let goes_on = tokio::select! {
                    biased;
                    () = root.notify.notified() => true,
                    () = asking.answered() => true,
                    () = until(due) => true,
                    () = news(run) => true,
                    () = until(run.promotes_in()) => true,
                    () = until(cleaning.map(|until| until.saturating_duration_since(Instant::now()))) => {
                        return Driven::Done(Err(Error::new(ErrorKind::Cancelled)));
                    }
                    () = sleep_or_never(grace) => return Driven::Suspended,
                    () = sleep_or_never(allowance.left()) => return allowance.timed_out(),
                    () = keep_alive(run, every, pinged) => {
                        pinged = Instant::now();
                        false
                    }
                    () = until(run.next_heartbeat()) => {
                        run.beat(begun);
                        false
                    }
                };
                if goes_on || !ambiguous {
                    quiet = None;
                }
            }
        }
    }
}

/// If the tool of a task waits for at least this time, the driver suspends the task. During a shorter wait, the task
/// stays in memory.
const MIN_SUSPEND: Duration = Duration::from_millis(500);

/// Returns `true` if the tool of a task only waits for a point in time, and the wait is long enough to suspend the
/// task.
fn sleeps(run: &Run, due: Option<Duration>) -> bool {
    run.persistence().is_some() && due.is_some_and(|due| due > MIN_SUSPEND)
}

/// Waits until the driver must check the task again, for example because a caller cancelled the task.
async fn news(run: &Run) {
    match run.persistence() {
        Some(persistence) => persistence.news().await,
        None => std::future::pending().await,
    }
}

/// Stores the result of the next finished step of a task, and passes the result to the tool. Returns `false` if no step
/// has finished.
async fn write_down(run: &Run) -> std::result::Result<bool, Stop> {
    let Some(persistence) = run.persistence() else { return Ok(false) };
    let (journal, waker) = {
        let mut state = run.state();
        let Some(key) = state.deliver() else { return Ok(false) };
        (state.written_now(), state.take_waker(&key))
    };
    Box::pin(persistence.save(&journal)).await?;
    waker.into_iter().for_each(Waker::wake);
    Ok(true)
}

/// Stores the journal of a task before new steps start.
async fn write_ahead(run: &Run) -> std::result::Result<(), Stop> {
    let Some(persistence) = run.persistence() else { return Ok(()) };
    let journal = run.state().write_ahead();
    match journal {
        Some(journal) => Box::pin(persistence.save(&journal)).await,
        None => Ok(()),
    }
}

/// Changes the run into a task. If the server cannot create the task, the run continues as a plain call.
async fn promote(run: &Run) {
    if let Err(error) = run.promote().await {
        tracing::warn!(%error, run = run.id(), "a run could not become a task; it continues as a plain call");
    }
}

/// Passes the next result to the tool. If no result is ready, returns the reason why the tool is blocked.
fn hand_over(run: &Run) -> std::result::Result<Option<Blocked>, Drift> {
    let wakers = {
        let mut state = run.state();
        match state.machine().advance()? {
            Advance::Deliver(key) => state.take_waker(&key).into_iter().collect(),
            Advance::Opened => state.take_wakers(),
            Advance::Blocked(blocked) => return Ok(Some(blocked)),
        }
    };
    // A combinator releases the root waker when the combinator is woken. So the driver polls the tool again before the
    // driver counts the holders.
    wakers.into_iter().for_each(Waker::wake);
    Ok(None)
}

async fn flush(run: &Run) {
    for note in run.take_notes() {
        match note {
            // The client already has the response to this request, so the server must not send a notification for this
            // request. The record of the task contains the progress.
            Note::Progress { .. } | Note::Log { .. } if run.is_handed_over() => {}
            // A leg of a task has no connected client. So the server sends the notification to the session that
            // received the question.
            Note::ElicitationComplete { id } if !run.client.is_remote() => {
                run.runtime.changes.elicitation_complete(id);
            }
            note => Box::pin(run.client.send(note)).await,
        }
    }
}

/// Wakes the tool's concurrent branches whose deadline has passed. A combinator polls a branch again only if the branch
/// is woken.
fn wake_due(run: &Run) {
    let wakers: Vec<Waker> = {
        let mut state = run.state();
        if state.deadlines.is_empty() {
            return;
        }
        let now = now_millis();
        // If the run was cancelled, this code wakes all branches immediately, without waiting for a deadline.
        let cancelled = run.persistence().is_some_and(Persistence::is_cancelled);
        let due: Vec<_> = state
            .deadlines
            .iter()
            .filter(|(_, due)| **due <= now || cancelled)
            .map(|(key, _)| key.clone())
            .collect();
        due.iter().filter_map(|key| state.take_waker(key)).collect()
    };
    wakers.into_iter().for_each(Waker::wake);
}

fn next_deadline(run: &Run) -> Option<Duration> {
    let due = *run.state().deadlines.values().min()?;
    Some(Duration::from_millis(due.saturating_sub(now_millis())))
}

async fn until(due: Option<Duration>) {
    sleep_or_never(due).await;
}

async fn sleep_or_never(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

async fn keep_alive(run: &Run, every: Option<Duration>, pinged: Instant) {
    sleep_or_never(every.map(|every| every.saturating_sub(pinged.elapsed()))).await;
    Box::pin(run.client.ping(every.unwrap_or_default())).await;
}

/// Logs a panic without its message, because the message can contain the caller's data. The panic hook of the program
/// has already printed the message and the location.
pub(super) fn log_panic(what: &str) {
    tracing::error!("{what}; the output of the panic hook contains the message and the location");
}

fn describe_panic() -> String {
    log_panic("a tool panicked");
    "the tool failed unexpectedly: its code panicked; the standard error output of the server contains the panic message".into()
}
