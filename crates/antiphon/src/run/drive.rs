//! Obeys the replay machine over a connection.
//!
//! One loop serves all ways. It polls the tool until it is at rest, hands over what the journal
//! holds, and then either asks the client and waits (live, on 2025-11-25) or gives the questions
//! back to be asked in a round (on 2026-07-28) or by whoever looks at the task. What a provider is asked is asked here, either way.
//! Of a task, a step's end is written down before the tool sees it.

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

use antiphon_replay::{Advance, Blocked, Drift};
use tokio::sync::Notify;

use super::{Persistence, Run, Stop, ask::Asking};
use crate::{
    base::now_millis,
    error::{Error, ErrorKind, Result},
    protocol::Note,
};

/// Where the driver stopped.
#[derive(Debug)]
pub(super) enum Driven<T> {
    /// The tool returned.
    Done(Result<T>),
    /// The tool waits for answers, and [`antiphon_replay::Machine::suspend`] has them. The tool of a task can also wait for
    /// time only, and [`Run::next_due`] has that.
    Suspended,
    /// It must not go on: what it comes to cannot be written down.
    Stopped(Stop),
}

/// What bounds a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long I/O that is not a step may hold back a question.
    pub(crate) grace: Duration,
    /// How long the tool may work, not counting the time it waits for people.
    pub(crate) limit: Option<Duration>,
    /// The same once it is a task: whoever waits for it need not.
    pub(crate) task_limit: Option<Duration>,
    /// How often to show an idle session that it is still in use.
    pub(crate) keep_alive: Option<Duration>,
}

/// Wakes the driver, and by its number of holders tells whether anybody else might.
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

/// The driver's own handle, the waker made of it, and the copy the run compares with.
const OWN_HOLDERS: usize = 3;

/// How long the tool may still work.
///
/// All time counts: in the tool, in notes on their way to the client, in writes to the store. Only the time in which
/// nothing but people is waited for does not.
struct Allowance {
    limit: Option<Duration>,
    left: Option<Duration>,
    since: Instant,
}

impl Allowance {
    fn new(limit: Option<Duration>) -> Self {
        Self { limit, left: limit, since: Instant::now() }
    }

    /// Counts the time since this was last called, and returns what is left.
    fn left(&mut self) -> Option<Duration> {
        if let Some(left) = &mut self.left {
            let now = Instant::now();
            *left = left.saturating_sub(now.saturating_duration_since(self.since));
            self.since = now;
        }
        self.left
    }

    /// Goes on after people were waited for: the time since the last count does not count.
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

/// Runs `tool` until it returns or waits for answers only.
///
/// Most tools return at once. This future is moved about before it begins, so what they do not need is boxed in it.
///
/// A panic in the tool becomes an error: a request that is never answered is worse than a wrong one.
pub(super) async fn drive<T>(
    run: &Run,
    mut tool: Pin<&mut (dyn Future<Output = Result<T>> + Send)>,
    pace: Pace,
) -> Driven<T> {
    let root = Arc::new(Root { woken: AtomicBool::new(false), notify: Notify::new() });
    let waker = Waker::from(Arc::clone(&root));
    run.set_root(waker.clone());
    let mut asking = Asking::new(run);
    let mut allowance = Allowance::new(pace.limit);
    let mut cleaning: Option<Instant> = None;
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
            // A tool that is ready whenever it is polled comes to no wait below.
            if allowance.is_spent() {
                return allowance.timed_out();
            }
            // The coop budget, `yield_now` and combinators wake the root while it is being polled.
            if !root.woken.load(Ordering::SeqCst) {
                break;
            }
            tokio::task::consume_budget().await;
        }
        if run.has_notes() {
            // A client that does not read must not hold the tool for longer than it may work.
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
            // I/O that is not a step is done again in every leg, and the code cannot be where it was
            // before that has ended.
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
            Err(drift) => return Driven::Done(Err(Error::new(ErrorKind::Drift(drift)).terminal())),
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
        // Counted first: whoever held our waker may have used it since the tool was polled, and let go of it.
        if root.woken.load(Ordering::SeqCst) {
            continue;
        }
        let due = next_deadline(run);
        let running = blocked.running + asking.of_providers();
        let idle = running == 0 && foreign == 0;
        if idle && blocked.asks == 0 && due.is_none() {
            return Driven::Done(Err(Error::new(ErrorKind::Deadlock).terminal()));
        }
        // What is about to ask need not become a task for that, unless it wants to.
        let asks = idle && blocked.asks > 0;
        if run.wants_promotion() || (run.promotes_in() == Some(Duration::ZERO) && !asks) {
            promote(run).await;
            if run.persistence().is_some() {
                allowance = Allowance::new(pace.task_limit);
            }
            continue;
        }
        match () {
            () if run.is_live() => {
                let working = blocked.asks == 0 || running > 0;
                if !working {
                    // Whoever leaves a question unanswered must not keep others from being served.
                    run.rest();
                }
                let left = allowance.left().filter(|_| working);
                let goes_on = tokio::select! {
                    biased;
                    () = root.notify.notified() => true,
                    () = asking.answered() => true,
                    () = until(due) => true,
                    () = keep_alive(run, pace.keep_alive) => false,
                    () = sleep_or_never(left) => return allowance.timed_out(),
                };
                if goes_on {
                    run.resume().await;
                }
                if !working {
                    allowance.resume();
                }
            }
            () if idle && (blocked.asks > 0 || sleeps(run, due)) => return Driven::Suspended,
            () => {
                // Somebody holds our waker: a timer, a socket, a combinator. With a question out and
                // no step running it may be a mere `timeout` around the question, so it gets a
                // moment and no more.
                let ambiguous = blocked.asks > 0 && running == 0;
                tokio::select! {
                    biased;
                    () = root.notify.notified() => {}
                    () = asking.answered() => {}
                    () = until(due) => {}
                    () = news(run) => {}
                    () = until(run.promotes_in()) => {}
                    () = until(cleaning.map(|until| until.saturating_duration_since(Instant::now()))) => {
                        return Driven::Done(Err(Error::new(ErrorKind::Cancelled)));
                    }
                    () = sleep_or_never(ambiguous.then_some(pace.grace)) => return Driven::Suspended,
                    () = sleep_or_never(allowance.left()) => return allowance.timed_out(),
                }
            }
        }
    }
}

/// A task that waits for less than this stays where it is.
const MIN_SUSPEND: Duration = Duration::from_millis(500);

/// Whether the tool waits for time only, for long enough to let go of it.
fn sleeps(run: &Run, due: Option<Duration>) -> bool {
    run.persistence().is_some() && due.is_some_and(|due| due > MIN_SUSPEND)
}

/// Something happened to the task that is run.
async fn news(run: &Run) {
    match run.persistence() {
        Some(persistence) => persistence.news().await,
        None => std::future::pending().await,
    }
}

/// Writes down the next step of a task that has ended, and hands it over. Says whether there was one.
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

/// Writes down what led a task to the steps it is about to take.
async fn write_ahead(run: &Run) -> std::result::Result<(), Stop> {
    let Some(persistence) = run.persistence() else { return Ok(()) };
    let journal = run.state().write_ahead();
    match journal {
        Some(journal) => Box::pin(persistence.save(&journal)).await,
        None => Ok(()),
    }
}

/// Makes the run a task. If that cannot be done now, it goes on as it was.
async fn promote(run: &Run) {
    if let Err(error) = run.promote().await {
        tracing::warn!(%error, run = run.id(), "a run could not become a task");
    }
}

/// Hands the tool its next completion, or says that there is none.
fn hand_over(run: &Run) -> std::result::Result<Option<Blocked>, Drift> {
    let wakers = {
        let mut state = run.state();
        match state.machine().advance()? {
            Advance::Deliver(key) => state.take_waker(&key).into_iter().collect(),
            Advance::Opened => state.take_wakers(),
            Advance::Blocked(blocked) => return Ok(Some(blocked)),
        }
    };
    // Waking a combinator's child makes the combinator give back the root waker it holds. That is
    // why the tool is polled again before anybody counts holders.
    wakers.into_iter().for_each(Waker::wake);
    Ok(None)
}

async fn flush(run: &Run) {
    for note in run.take_notes() {
        match note {
            // Nobody waits for a leg of a task at this moment: the session that asked the question is told.
            Note::ElicitationComplete { id } if !run.client.is_remote() => {
                run.runtime.changes.elicitation_complete(id);
            }
            note => Box::pin(run.client.send(note)).await,
        }
    }
}

/// Wakes the branches whose time is up: a combinator polls its children when they are woken and not
/// before.
fn wake_due(run: &Run) {
    let wakers: Vec<Waker> = {
        let mut state = run.state();
        if state.deadlines.is_empty() {
            return;
        }
        let now = now_millis();
        // Who is cancelled waits for nothing.
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

async fn keep_alive(run: &Run, every: Option<Duration>) {
    sleep_or_never(every).await;
    Box::pin(run.client.ping(every.unwrap_or_default())).await;
}

/// What it said is not repeated: it may be about the caller. The program's panic hook has said it, and where.
pub(super) fn log_panic(what: &str) {
    tracing::error!("{what}; the panic hook says where");
}

fn describe_panic() -> String {
    log_panic("a tool panicked");
    "the tool failed unexpectedly; this is a defect in the tool, and its log says more".into()
}
