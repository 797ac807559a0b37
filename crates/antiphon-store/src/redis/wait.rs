use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{RedisResult, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{dial::Dialer, link::Link, script};

/// The maximum time between two checks of the queue. The checks are needed if a process stops after the process has
/// taken the token of the queue.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The poll interval of queues that have no connection of their own.
const POLL: Duration = Duration::from_millis(100);

/// The time for which a connection without waiting workers is kept.
const LINGER: Duration = Duration::from_secs(10);

/// Wakes workers that wait for jobs.
///
/// Each queue with waiting workers has one task with a dedicated connection. The task blocks on the queue's `:wake`
/// token and wakes one worker for each token. A script that leases a job puts a token back if the queue has further
/// jobs. So in all processes together, the number of woken workers does not exceed the number of jobs.
#[derive(Clone)]
pub(super) struct Waits {
    inner: Arc<Inner>,
}

struct Inner {
    dialer: Dialer,
    link: Link,
    connections: Semaphore,
    queues: Mutex<HashMap<String, Arc<Waiters>>>,
}

/// The workers of this process that wait for one queue.
struct Waiters {
    state: Mutex<State>,
    /// Notifies the task that a worker has joined, or has checked the queue after its wake-up.
    changed: Notify,
}

struct State {
    line: VecDeque<oneshot::Sender<()>>,
    /// The time of the next check of the queue, if no token arrives.
    next: Instant,
}

impl State {
    fn look_in(&mut self, next: Option<Duration>) {
        if let Some(next) = next.filter(|next| *next < POLL_INTERVAL) {
            self.next = self.next.min(Instant::now() + next);
        }
    }
}

impl Waits {
    pub(super) fn new(dialer: Dialer, link: Link, connections: usize) -> Self {
        let connections = Semaphore::new(connections.min(Semaphore::MAX_PERMITS));
        Self { inner: Arc::new(Inner { dialer, link, connections, queues: Mutex::default() }) }
    }

    /// Adds a worker that waits for the queue at `key`.
    ///
    /// `lease` is the duration of leases. `next` is the time until the next job can become available, if this time is
    /// known.
    pub(super) fn join(&self, key: &str, lease: Duration, next: Option<Duration>) -> Waiting {
        let mut queues = lock(&self.inner.queues);
        let waiters = queues.entry(key.to_owned()).or_insert_with(|| {
            let state = State { line: VecDeque::new(), next: Instant::now() + POLL_INTERVAL };
            let waiters = Arc::new(Waiters { state: Mutex::new(state), changed: Notify::new() });
            let task = Task {
                inner: Arc::clone(&self.inner),
                key: key.to_owned(),
                waiters: Arc::clone(&waiters),
                // A lease that is granted from now on does not expire before this time.
                look: POLL_INTERVAL.min(lease),
            };
            tokio::spawn(async move { task.run().await });
            waiters
        });
        Waiting { turn: waiters.join(next), waiters: Arc::clone(waiters) }
    }
}

impl Waiters {
    fn join(&self, next: Option<Duration>) -> oneshot::Receiver<()> {
        let (sender, turn) = oneshot::channel();
        let mut state = lock(&self.state);
        if state.line.len() == state.line.capacity() {
            // Remove cancelled workers before the line needs more memory.
            state.line.retain(|waiter| !waiter.is_closed());
        }
        state.line.push_back(sender);
        state.look_in(next);
        self.changed.notify_one();
        turn
    }

    /// Returns the time until the next check of the queue is due. Returns `None` if no worker waits.
    fn pause(&self) -> Option<Duration> {
        let mut state = lock(&self.state);
        while state.line.front()?.is_closed() {
            state.line.pop_front();
        }
        Some(state.next.saturating_duration_since(Instant::now()))
    }

    /// Wakes the worker that has waited the longest. Returns `false` if no worker waits.
    fn wake(&self, for_time: bool) -> bool {
        let mut state = lock(&self.state);
        if for_time {
            state.next = Instant::now() + POLL_INTERVAL;
        }
        while let Some(waiter) = state.line.pop_front() {
            if waiter.send(()).is_ok() {
                return true;
            }
        }
        false
    }
}

/// A worker that waits for a job.
pub(super) struct Waiting {
    turn: oneshot::Receiver<()>,
    waiters: Arc<Waiters>,
}

impl Waiting {
    /// Waits until the worker must check the queue, and returns `true`. Returns `false` if the worker need not check
    /// the queue before the time `until`.
    pub(super) async fn woken(&mut self, until: Instant) -> bool {
        if timeout_at(until, &mut self.turn).await.is_ok() {
            return true;
        }
        self.turn.close();
        self.turn.try_recv().is_ok()
    }

    /// Registers the time until the next job can become available, if this time is known.
    pub(super) fn looked(self, next: Option<Duration>) {
        lock(&self.waiters.state).look_in(next);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.turn.close();
        if self.turn.try_recv().is_ok() {
            // This worker was woken but did not check the queue, so wake the next worker.
            self.waiters.wake(false);
        }
        self.waiters.changed.notify_one();
    }
}

struct Task {
    inner: Arc<Inner>,
    key: String,
    waiters: Arc<Waiters>,
    look: Duration,
}

impl Task {
    async fn run(&self) {
        let mut line = None;
        loop {
            let Some(pause) = self.waiters.pause() else {
                if timeout(LINGER, self.waiters.changed.notified()).await.is_err() && self.leave() {
                    return;
                }
                continue;
            };
            let token = self.block(&mut line, pause.min(self.look)).await;
            let woke = self.waiters.wake(false);
            if token && !woke {
                // No worker of this process needs the token, so return it for other processes.
                drop(self.inner.link.run(&script::REWAKE, self.key.clone(), |_| ()).await);
            }
            if woke && !token {
                // A worker that was woken by the timer sets the time of the next check.
                drop(timeout(POLL_INTERVAL, self.waiters.changed.notified()).await);
            }
        }
    }

    /// Ends the task, unless a worker has joined since.
    fn leave(&self) -> bool {
        let mut queues = lock(&self.inner.queues);
        let leaves = self.waiters.pause().is_none();
        if leaves {
            queues.remove(&self.key);
        }
        leaves
    }

    /// Waits for a token, up to `pause`. Returns `false` if no token arrived.
    async fn block<'a>(&'a self, line: &mut Option<Line<'a>>, pause: Duration) -> bool {
        if line.is_none() {
            *line = self.connect().await;
        }
        let Some(open) = line else {
            sleep(pause.min(POLL)).await;
            return false;
        };
        match open.pop(&self.key, pause).await {
            Ok(token) => token,
            Err(error) => {
                tracing::debug!(%error, key = self.key, "the Redis connection that waits for jobs was lost; reconnecting");
                *line = None;
                false
            }
        }
    }

    async fn connect(&self) -> Option<Line<'_>> {
        let permit = self.inner.connections.try_acquire().ok()?;
        let connection = self.inner.dialer.dial(&self.key, None).await.ok()?;
        Some(Line { connection, _permit: permit })
    }
}

/// A connection on which the task of one queue waits for a token.
struct Line<'a> {
    connection: MultiplexedConnection,
    _permit: SemaphorePermit<'a>,
}

impl Line<'_> {
    async fn pop(&mut self, key: &str, pause: Duration) -> RedisResult<bool> {
        // A timeout of zero would wait without a limit.
        let pause = pause.max(Duration::from_millis(1));
        let mut cmd = redis::cmd("BLPOP");
        cmd.arg(format!("{key}:wake")).arg(pause.as_secs_f64());
        let answer = timeout(pause + POLL_INTERVAL, cmd.query_async::<Value>(&mut self.connection)).await;
        let late = |_| redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        answer.map_err(late)?.map(|value| value != Value::Nil)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
