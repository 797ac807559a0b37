use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{Notify, mpsc};

use super::pool::Pool;

/// A notification holds fewer than 8000 bytes.
const MAX_PAYLOAD: usize = 7900;

/// After a wake-up could not be sent.
const PAUSE: Duration = Duration::from_millis(100);

/// Wakes who waits for jobs, here and in other replicas.
///
/// A wake-up goes to one waiter of a queue at a time; who finds more jobs than it can take passes it on. So a
/// thousand idle workers do not all ask the server for one job.
pub(super) struct Wakes {
    /// Tells a replica its own notifications, which it need not hear.
    replica: String,
    channel: String,
    waiting: Mutex<HashMap<String, Arc<Notify>>>,
    /// Queues of which the others have not been told yet.
    unsent: Mutex<BTreeSet<String>>,
    send: mpsc::Sender<()>,
}

impl Wakes {
    pub(super) fn start(pool: Arc<Pool>, channel: String) -> Arc<Self> {
        let mut random = [0; 8];
        // Without it, a replica only hears itself as if it were another.
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

    /// Where to listen for the wake-ups of others.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Says that a queue has a job, or will have one at another time than was known.
    pub(super) fn wake(&self, queue: &str) {
        self.wake_here(queue);
        let mut unsent = lock(&self.unsent);
        if !unsent.contains(queue) {
            unsent.insert(queue.to_owned());
        }
        drop(unsent);
        // If there is a request already, it has not been looked at yet.
        self.send.try_send(()).ok();
    }

    /// Takes in what another replica said.
    pub(super) fn hear(&self, payload: &str) {
        let mut words = payload.split(' ');
        if words.next() != Some(&self.replica) {
            words.for_each(|queue| self.wake_here(queue));
        }
    }

    /// Wakes everybody, for something may have been missed.
    pub(super) fn wake_all(&self) {
        for notify in lock(&self.waiting).values() {
            notify.notify_waiters();
        }
    }

    /// A place among those who wait for jobs of a queue.
    pub(super) fn waiter(self: &Arc<Self>, queue: &str) -> Waiter {
        let notify = Arc::clone(lock(&self.waiting).entry(queue.to_owned()).or_default());
        Waiter { wakes: Arc::clone(self), queue: queue.to_owned(), notify }
    }

    fn wake_here(&self, queue: &str) {
        if let Some(notify) = lock(&self.waiting).get(queue) {
            notify.notify_one();
        }
    }

    /// What to tell the others, in one notification.
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

/// Sends wake-ups until the handle is gone. What is pushed while one is under way goes with the next.
async fn tell(wakes: Weak<Wakes>, pool: Arc<Pool>, mut requests: mpsc::Receiver<()>) {
    while requests.recv().await.is_some() {
        let next = || wakes.upgrade().and_then(|wakes| Some((wakes.channel.clone(), wakes.message()?)));
        while let Some((channel, payload)) = next() {
            while let Err(error) = notify(&pool, &channel, &payload).await {
                tracing::debug!(%error, "a wake-up could not be sent");
                if wakes.strong_count() == 0 {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Sends a notification.
pub(super) async fn notify(pool: &Pool, channel: &str, payload: &str) -> crate::Result<()> {
    pool.row(sqlx::query("select pg_notify($1, $2)").bind(channel).bind(payload)).await?;
    Ok(())
}

/// One of those who wait for jobs of a queue.
pub(super) struct Waiter {
    wakes: Arc<Wakes>,
    queue: String,
    notify: Arc<Notify>,
}

impl Waiter {
    /// What to wait for.
    pub(super) fn notify(&self) -> &Notify {
        &self.notify
    }

    /// Wakes another one when dropped, unless there is nothing left to be woken for.
    pub(super) fn passing_on(&self) -> PassingOn<'_> {
        PassingOn(Some(&self.notify))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = lock(&self.wakes.waiting);
        // The map's own, and this one.
        if Arc::strong_count(&self.notify) == 2 {
            waiting.remove(&self.queue);
        }
    }
}

/// A wake-up that must not be lost with who got it.
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
    // What is kept under these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
