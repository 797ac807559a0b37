use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use sqlx::{
    Executor,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{BACKEND, channel, pool::Pool, wakes::Wakes};
use crate::{
    bus::Feed,
    error::{Error, Result},
};

/// The time without notifications after which the connection is tested.
const QUIET: Duration = Duration::from_secs(10);

/// The first pause between two attempts to connect. The pause doubles after each failed attempt, up to `LAST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// The maximum number of subscribe requests that wait.
const BACKLOG: usize = 64;

/// The connection that listens for all subscriptions.
#[derive(Debug)]
pub(super) struct Listener {
    requests: mpsc::Sender<Request>,
    hears_wakes: AtomicBool,
    patience: Duration,
}

#[derive(Debug)]
struct Request {
    channel: String,
    registration: Registration,
}

/// A registered subscriber of a channel.
#[derive(Debug)]
struct Registration {
    subscriber: Subscriber,
    /// The sender that reports the start of listening. The sender is `None` after listening has started.
    ready: Option<oneshot::Sender<()>>,
}

/// The component that receives the notifications on a channel.
#[derive(Debug)]
enum Subscriber {
    Topic { subject: String, feed: Feed },
    Wakes(Weak<Wakes>),
}

impl Listener {
    /// Starts a task that connects when the first channel is registered.
    pub(super) fn start(options: PgConnectOptions, patience: Duration, pool: Arc<Pool>) -> Self {
        let (sender, requests) = mpsc::channel(BACKLOG);
        let task = Task {
            options,
            patience,
            pool,
            requests,
            registrations: HashMap::new(),
            leaving: FuturesUnordered::new(),
        };
        tokio::spawn(task.run());
        Self { requests: sender, hears_wakes: AtomicBool::new(false), patience }
    }

    /// Subscribes to a topic, and returns when listening has started.
    pub(super) async fn subscribe(&self, channel: String, subject: String, feed: Feed) -> Result<()> {
        let (ready, is_ready) = oneshot::channel();
        let registration =
            Registration { subscriber: Subscriber::Topic { subject, feed }, ready: Some(ready) };
        let request = Request { channel, registration };
        let listening = async {
            self.requests.send(request).await.map_err(|error| Error::busy(BACKEND, error.to_string()))?;
            is_ready.await.map_err(|error| Error::busy(BACKEND, error))
        };
        // The call had no effect, because dropping the subscription withdraws the request.
        timeout(self.patience, listening).await.map_err(|error| Error::busy(BACKEND, error))?
    }

    /// Starts to listen for wake-ups in the background. When listening starts, all waiting workers are woken.
    pub(super) fn hear_wakes(&self, wakes: &Arc<Wakes>) {
        if self.hears_wakes.swap(true, Ordering::Relaxed) {
            return;
        }
        let subscriber = Subscriber::Wakes(Arc::downgrade(wakes));
        let (ready, _) = oneshot::channel();
        let request = Request {
            channel: wakes.channel().to_owned(),
            registration: Registration { subscriber, ready: Some(ready) },
        };
        if self.requests.try_send(request).is_err() {
            // The next worker that waits for jobs tries to listen again.
            self.hears_wakes.store(false, Ordering::Relaxed);
        }
    }
}

struct Task {
    options: PgConnectOptions,
    patience: Duration,
    pool: Arc<Pool>,
    requests: mpsc::Receiver<Request>,
    registrations: HashMap<String, Vec<Registration>>,
    /// One future for each subscription. When a subscription is dropped, its future returns the channel of the
    /// subscription.
    leaving: FuturesUnordered<BoxFuture<'static, String>>,
}

/// The reason why listening ended.
enum End {
    Lost,
    Idle,
}

impl Task {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            self.forget_deaf();
            if self.registrations.is_empty() {
                // `None` means that the handle was dropped. No subscription is left at this point.
                let Some(request) = self.requests.recv().await else { return };
                self.admit(request);
            }
            let error = match timeout(self.patience, self.connect()).await {
                Ok(Ok(mut listener)) => {
                    pause = FIRST_PAUSE;
                    match Box::pin(self.listen(&mut listener)).await {
                        Ok(End::Idle) => continue,
                        Ok(End::Lost) => None,
                        Err(error) => Some(error),
                    }
                }
                Ok(Err(error)) => Some(error),
                Err(_) => Some(sqlx::Error::PoolTimedOut),
            };
            tracing::warn!(error = ?error, "the connection to PostgreSQL for LISTEN was lost; reconnecting");
            self.pool.suspect();
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Opens a new connection. The new connection does not need the state of the old connection.
    async fn connect(&mut self) -> Result<PgListener, sqlx::Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.patience)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        // This task must detect a lost connection, because subscribers must then receive a gap.
        listener.eager_reconnect(false);
        listener.listen_all(self.registrations.keys().map(String::as_str)).await?;
        Ok(listener)
    }

    async fn listen(&mut self, listener: &mut PgListener) -> Result<End, sqlx::Error> {
        self.registrations.values_mut().flatten().for_each(Registration::begin);
        let mut open = true;
        loop {
            tokio::select! {
                notification = listener.try_recv() => match notification? {
                    Some(notification) => self.hear(notification.channel(), notification.payload()),
                    None => return Ok(End::Lost),
                },
                request = self.requests.recv(), if open => if let Some(request) = request {
                    let known = self.registrations.contains_key(&request.channel);
                    let channel = request.channel.clone();
                    self.admit(request);
                    if !known {
                        Box::pin(within(self.patience, listener.listen(&channel))).await?;
                    }
                    if let Some(registration) = self.registrations.get_mut(&channel).and_then(|registrations| registrations.last_mut()) {
                        registration.begin();
                    }
                } else {
                    open = false;
                    self.forget_deaf();
                },
                Some(channel) = self.leaving.next() => {
                    if self.leave(&channel) {
                        within(self.patience, listener.unlisten(&channel)).await?;
                    }
                }
                () = sleep(QUIET) => {
                    if self.registrations.is_empty() {
                        return Ok(End::Idle);
                    }
                    within(self.patience, listener.execute("select 1")).await?;
                }
            }
            if self.registrations.is_empty() && !open {
                return Ok(End::Idle);
            }
        }
    }

    fn admit(&mut self, request: Request) {
        if let Subscriber::Topic { feed, .. } = &request.registration.subscriber {
            let (feed, channel) = (feed.clone(), request.channel.clone());
            self.leaving.push(Box::pin(async move {
                feed.closed().await;
                channel
            }));
        }
        self.registrations.entry(request.channel).or_default().push(request.registration);
    }

    fn hear(&self, channel: &str, payload: &str) {
        let mut event = None;
        for registration in self.registrations.get(channel).into_iter().flatten() {
            match &registration.subscriber {
                Subscriber::Wakes(wakes) => {
                    if let Some(wakes) = wakes.upgrade() {
                        wakes.hear(payload);
                    }
                }
                Subscriber::Topic { subject, feed } => {
                    let event = event.get_or_insert_with(|| channel::read(payload));
                    if let Some((about, event)) = event
                        && about == subject
                    {
                        feed.send(event.clone());
                    }
                }
            }
        }
    }

    /// Removes the dropped subscriptions of a channel. Returns whether the channel has no subscriber left.
    fn leave(&mut self, channel: &str) -> bool {
        let Some(registrations) = self.registrations.get_mut(channel) else { return false };
        registrations.retain(|registration| !registration.subscriber.is_deaf());
        let empty = registrations.is_empty();
        if empty {
            self.registrations.remove(channel);
        }
        empty
    }

    fn forget_deaf(&mut self) {
        self.registrations.retain(|_, registrations| {
            registrations.retain(|registration| !registration.subscriber.is_deaf());
            !registrations.is_empty()
        });
    }
}

impl Registration {
    /// Records that listening has started. If a subscriber was already listening on an earlier connection, the
    /// subscriber receives a gap, because the subscriber possibly missed events.
    fn begin(&mut self) {
        let new = self.ready.take().map(|ready| ready.send(()).ok()).is_some();
        match &self.subscriber {
            Subscriber::Topic { feed, .. } if !new => {
                feed.gap();
            }
            Subscriber::Topic { .. } => {}
            // Workers started to wait before this connection was open, so they possibly missed a wake-up.
            Subscriber::Wakes(wakes) => {
                if let Some(wakes) = wakes.upgrade() {
                    wakes.wake_all();
                }
            }
        }
    }
}

impl Subscriber {
    fn is_deaf(&self) -> bool {
        match self {
            Self::Topic { feed, .. } => feed.is_closed(),
            Self::Wakes(wakes) => wakes.strong_count() == 0,
        }
    }
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(patience, work).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
