//! One leg of a run: runs a tool according to the replay machine.
//!
//! `run_leg` runs one leg and checks the output. The driver is the loop in `drive`. It is the same for every
//! kind of run. It polls the tool until the tool cannot progress, and passes on the results from the journal.
//! Then it does one of two things:
//!
//! - In a 2025-11-25 session, it asks the client and waits.
//! - In rounds (2026-07-28) and in tasks, it returns the questions to its caller.
//!
//! In both cases it sends the requests to providers itself. In a task, it stores the end of a step before the
//! tool receives it.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use antiphon_replay::{Advance, Blocked, Drift, Suspension};
use tokio::sync::Notify;

use super::{Persistence, Run, Stop, ask::Asking};
use crate::{
    base::now_millis,
    error::{Error, ErrorKind, Result},
    output::Returned,
    protocol::Note,
};

/// The end of a leg.
#[derive(Debug)]
pub(crate) enum Leg<T> {
    /// The function returned or failed. An output that is too large or does not fit its schema is a failure too.
    Done(Result<T>),
    /// The function waits. If no answer arrives, continue it at `due`, in milliseconds since 1970.
    Waits { suspension: Suspension, due: Option<u64> },
    /// The run must not continue, because its result cannot be stored.
    Stopped(Stop),
}

/// The time limits of a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long I/O outside of steps can delay a question.
    pub(crate) grace: Duration,
    /// How long the tool can work. The time in which it only waits for users does not count.
    pub(crate) limit: Option<Duration>,
    /// The value of `limit` after the run has become a task. The caller no longer waits for the result.
    pub(crate) task_limit: Option<Duration>,
    /// How often to ping an idle session, so that it stays open.
    pub(crate) keep_alive: Option<Duration>,
}

/// Runs `function` until it returns or waits, or until `cancelled` completes. `check` validates the output.
///
/// Do not drop `function` before the leg has ended: when it is dropped, it withdraws its questions.
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

/// Counts the output's bytes for the caller's quota, and rejects an output that is larger than the limit.
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
    /// The tool waits for answers, and [`antiphon_replay::Machine::suspend`] returns its questions. The tool
    /// of a task can also wait for a point in time only, which [`Run::next_due`] returns.
    Suspended,
    /// The run must not continue, because its progress cannot be stored.
    Stopped(Stop),
}

/// The driver's waker. Its reference count shows whether anything else can wake the driver.
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

/// The driver's references to `Root`: its handle, the waker made from it, and the clone that the run compares
/// with.
const OWN_HOLDERS: usize = 3;

/// The working time that the tool has left.
///
/// Time in the tool, in sending notifications and in writing to the store counts. Time in which the run only
/// waits for users does not count.
struct Allowance {
    limit: Option<Duration>,
    left: Option<Duration>,
    since: Instant,
}

impl Allowance {
    fn new(limit: Option<Duration>) -> Self {
        Self { limit, left: limit, since: Instant::now() }
    }

    /// Counts the time since the last call, and returns the remaining time.
    fn left(&mut self) -> Option<Duration> {
        if let Some(left) = &mut self.left {
            let now = Instant::now();
            *left = left.saturating_sub(now.saturating_duration_since(self.since));
            self.since = now;
        }
        self.left
    }

    /// Continues after a wait for users. The time since the last count does not count.
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

/// Runs `tool` until it returns or only waits for answers.
///
/// Most tools return immediately. This future is moved before it starts, so the parts that such tools do not
/// use are boxed.
///
/// A panic in the tool becomes an error, because a request without a response is worse than a failed one.
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
    // The start of the grace period. Heartbeats and pings do not start it again.
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
            // A tool that is always ready never reaches the waits below.
            if allowance.is_spent() {
                return allowance.timed_out();
            }
            // The coop budget, `yield_now` and combinators wake the root during the poll.
            if !root.woken.load(Ordering::SeqCst) {
                break;
            }
            tokio::task::consume_budget().await;
        }
        if run.has_notes() {
            // A client that does not read must not delay the tool beyond its time limit.
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
            // I/O outside of steps runs again in every leg. The code reaches its recorded position only after
            // that I/O has completed.
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
        // Read `woken` after the count: another holder may have woken the driver and dropped its waker since
        // the poll.
        if root.woken.load(Ordering::SeqCst) {
            continue;
        }
        let due = next_deadline(run);
        let running = blocked.running + asking.of_providers();
        let idle = running == 0 && foreign == 0;
        if idle && blocked.asks == 0 && due.is_none() {
            return Driven::Done(Err(Error::new(ErrorKind::Deadlock).terminal()));
        }
        // A run that is about to ask becomes a task only if the tool requested it.
        // The form of a client would be withdrawn from its user.
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
                    // A caller that leaves a question unanswered must not use up the capacity for other
                    // requests.
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
                // Another holder has the waker: a timer, a socket or a combinator. If a question is pending
                // and no step runs, it can be a `timeout` around the question, so it gets only the grace
                // period.
                let ambiguous = blocked.asks > 0 && running == 0;
                let grace = ambiguous.then(|| {
                    let since = *quiet.get_or_insert_with(Instant::now);
                    pace.grace.saturating_sub(since.elapsed())
                });
                // A session stays open while the run works and its question waits for another channel.
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

/// A task that waits for less than this is not suspended.
const MIN_SUSPEND: Duration = Duration::from_millis(500);

/// Returns whether the tool of a task only waits for a point in time, and long enough to suspend it.
fn sleeps(run: &Run, due: Option<Duration>) -> bool {
    run.persistence().is_some() && due.is_some_and(|due| due > MIN_SUSPEND)
}

/// Waits for a change of the task, for example a cancellation.
async fn news(run: &Run) {
    match run.persistence() {
        Some(persistence) => persistence.news().await,
        None => std::future::pending().await,
    }
}

/// Stores the next finished step of a task, and passes it to the tool. Returns whether there was one.
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

/// Makes the run a task. If that fails, the run continues as a plain call.
async fn promote(run: &Run) {
    if let Err(error) = run.promote().await {
        tracing::warn!(%error, run = run.id(), "a run could not become a task; it continues as a plain call");
    }
}

/// Passes the next completion to the tool. Returns the blocked state if there is none.
fn hand_over(run: &Run) -> std::result::Result<Option<Blocked>, Drift> {
    let wakers = {
        let mut state = run.state();
        match state.machine().advance()? {
            Advance::Deliver(key) => state.take_waker(&key).into_iter().collect(),
            Advance::Opened => state.take_wakers(),
            Advance::Blocked(blocked) => return Ok(Some(blocked)),
        }
    };
    // A woken combinator releases the root waker that it holds. So the tool is polled again before the driver
    // counts the holders.
    wakers.into_iter().for_each(Waker::wake);
    Ok(None)
}

async fn flush(run: &Run) {
    for note in run.take_notes() {
        match note {
            // The client's request was answered, so a notification about it would be out of order. The task has the
            // progress.
            Note::Progress { .. } | Note::Log { .. } if run.is_handed_over() => {}
            // A leg of a task has no connected client, so the session that received the question gets the
            // notification.
            Note::ElicitationComplete { id } if !run.client.is_remote() => {
                run.runtime.changes.elicitation_complete(id);
            }
            note => Box::pin(run.client.send(note)).await,
        }
    }
}

/// Wakes the branches whose deadline has passed. A combinator polls only the children that were woken.
fn wake_due(run: &Run) {
    let wakers: Vec<Waker> = {
        let mut state = run.state();
        if state.deadlines.is_empty() {
            return;
        }
        let now = now_millis();
        // In a cancelled run, no branch waits for its deadline.
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

/// Logs a panic without its message, which can contain the caller's data. The program's panic hook has
/// printed message and location.
pub(super) fn log_panic(what: &str) {
    tracing::error!("{what}; the output of the panic hook contains the message and the location");
}

fn describe_panic() -> String {
    log_panic("a tool panicked");
    "the tool failed unexpectedly: its code panicked; the standard error output of the server contains the panic message".into()
}
