use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{Notify, mpsc};

use super::pool::Pool;

/// The maximum size of a notification in bytes. PostgreSQL accepts notifications of fewer than 8000 bytes.
const MAX_PAYLOAD: usize = 7900;

/// The pause after a failed attempt to send a wake-up.
const PAUSE: Duration = Duration::from_millis(100);

/// Wakes workers that wait for jobs, in this replica and in other replicas.
///
/// A wake-up wakes one waiting worker of a queue. If the woken worker finds more jobs than it can take, the worker
/// wakes the next worker. So a single job does not cause a thousand idle workers to query the server.
pub(super) struct Wakes {
    /// An ID with which a replica recognizes and ignores its own notifications.
    replica: String,
    channel: String,
    waiting: Mutex<HashMap<String, Arc<Notify>>>,
    /// Queues that are not yet announced to the other replicas.
    unsent: Mutex<BTreeSet<String>>,
    send: mpsc::Sender<()>,
}

impl Wakes {
    pub(super) fn start(pool: Arc<Pool>, channel: String) -> Arc<Self> {
        let mut random = [0; 8];
        // Without a random ID, a replica also processes its own notifications, which is harmless.
        let replica = getrandom::fill(&mut random).map_or(0, |()| u64::from_ne_bytes(random));
        let (send, requests) = mpsc::channel(1);
        let this = Arc::new(Self {
            replica: format!("{replica:016x}"),
            channel,
            waiting: Mutex::default(),
            unsent: Mutex::default(),
            send,
        });
        tokio::spawn(tell(Arc::downgrade(&this), pool, requests));
        this
    }

    /// Returns the channel for the wake-ups of other replicas.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Announces that a queue has a job, or that the due time of a job has changed.
    pub(super) fn wake(&self, queue: &str) {
        self.wake_here(queue);
        let mut unsent = lock(&self.unsent);
        if !unsent.contains(queue) {
            unsent.insert(queue.to_owned());
        }
        drop(unsent);
        // If a request is already queued, it has not been processed yet.
        self.send.try_send(()).ok();
    }

    /// Processes a notification of another replica.
    pub(super) fn hear(&self, payload: &str) {
        let mut words = payload.split(' ');
        if words.next() != Some(&self.replica) {
            words.for_each(|queue| self.wake_here(queue));
        }
    }

    /// Wakes all waiting workers, because a wake-up was possibly missed.
    pub(super) fn wake_all(&self) {
        for notify in lock(&self.waiting).values() {
            notify.notify_waiters();
        }
    }

    /// Registers a worker that waits for jobs of a queue.
    pub(super) fn waiter(self: &Arc<Self>, queue: &str) -> Waiter {
        let notify = Arc::clone(lock(&self.waiting).entry(queue.to_owned()).or_default());
        Waiter { wakes: Arc::clone(self), queue: queue.to_owned(), notify }
    }

    fn wake_here(&self, queue: &str) {
        if let Some(notify) = lock(&self.waiting).get(queue) {
            notify.notify_one();
        }
    }

    /// Returns the next notification for the other replicas. The notification contains as many queues as fit.
    fn message(&self) -> Option<String> {
        let mut unsent = lock(&self.unsent);
        let mut payload = self.replica.clone();
        while let Some(queue) = unsent.pop_first() {
            if payload.len() + 1 + queue.len() > MAX_PAYLOAD {
                unsent.insert(queue);
                break;
            }
            payload.push(' ');
            payload.push_str(&queue);
        }
        (payload.len() > self.replica.len()).then_some(payload)
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes").finish_non_exhaustive()
    }
}

/// Sends wake-ups until the [`Wakes`] is dropped. Queues that are added during a send go into the next notification.
async fn tell(wakes: Weak<Wakes>, pool: Arc<Pool>, mut requests: mpsc::Receiver<()>) {
    while requests.recv().await.is_some() {
        let next = || wakes.upgrade().and_then(|wakes| Some((wakes.channel.clone(), wakes.message()?)));
        while let Some((channel, payload)) = next() {
            while let Err(error) = notify(&pool, &channel, &payload).await {
                tracing::debug!(%error, "waiting workers could not be notified of new jobs; retrying");
                if wakes.strong_count() == 0 {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Sends the notification `payload` on `channel`.
pub(super) async fn notify(pool: &Pool, channel: &str, payload: &str) -> crate::Result<()> {
    pool.row(sqlx::query("select pg_notify($1, $2)").bind(channel).bind(payload)).await?;
    Ok(())
}

/// A worker that waits for jobs of a queue.
pub(super) struct Waiter {
    wakes: Arc<Wakes>,
    queue: String,
    notify: Arc<Notify>,
}

impl Waiter {
    /// Returns the [`Notify`] that wakes this worker.
    pub(super) fn notify(&self) -> &Notify {
        &self.notify
    }

    /// Returns a guard that wakes another worker on drop, unless `done` is called.
    pub(super) fn passing_on(&self) -> PassingOn<'_> {
        PassingOn(Some(&self.notify))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = lock(&self.wakes.waiting);
        // If only two references exist, the map has one and this worker has the other, so no other worker waits.
        if Arc::strong_count(&self.notify) == 2 {
            waiting.remove(&self.queue);
        }
    }
}

/// A guard that wakes another worker if this worker is cancelled, or has leased as many jobs as it can take.
pub(super) struct PassingOn<'a>(Option<&'a Notify>);

impl PassingOn<'_> {
    pub(super) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for PassingOn<'_> {
    fn drop(&mut self) {
        if let Some(notify) = self.0 {
            notify.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data under these locks is consistent at every moment, so a poisoned lock is safe to use.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
