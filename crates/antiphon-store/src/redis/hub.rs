use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{Notify, OnceCell, mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

use super::{
    dial::{Dialer, OnPush},
    fate::{NAME, told},
};
use crate::{
    bus::{Feed, Subscription},
    error::{Error, Result},
};

/// The interval of pings that detect a dead connection.
const PING: Duration = Duration::from_secs(5);

/// The first and the maximum pause before a new attempt to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The maximum number of subscribe requests in one batch.
const BATCH: usize = 256;

/// Listens for all subscriptions of a process, on one connection.
#[derive(Clone)]
pub(super) struct Hub {
    dialer: Dialer,
    /// A key in the hash slot that all channels share.
    slot: String,
    timeout: Duration,
    requests: Arc<OnceCell<mpsc::Sender<Request>>>,
}

struct Request {
    channel: String,
    feed: Feed,
    done: oneshot::Sender<Result<()>>,
}

impl Hub {
    pub(super) fn new(dialer: Dialer, slot: String, timeout: Duration) -> Self {
        Self { dialer, slot, timeout, requests: Arc::default() }
    }

    /// Subscribes to `channel`.
    pub(super) async fn subscribe(&self, channel: String) -> Result<Subscription> {
        let requests = self.requests.get_or_init(async || {
            let (sender, requests) = mpsc::channel(BATCH);
            let ear = Subscriber::new(self.dialer.clone(), self.slot.clone(), self.timeout);
            tokio::spawn(ear.run(requests));
            sender
        });
        let requests = requests.await;
        let (feed, subscription) = Subscription::channel();
        let asking = async {
            let (done, answer) = oneshot::channel();
            requests.send(Request { channel, feed, done }).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        };
        timeout(self.timeout, asking).await.map_err(|elapsed| Error::busy(NAME, elapsed))??;
        Ok(subscription)
    }
}

fn gone() -> Error {
    Error::busy(NAME, "the Tokio runtime of the Redis subscriptions has shut down")
}

/// A map from each channel to the feeds of its subscriptions. The connection sends the events that it receives to
/// these feeds.
#[derive(Default)]
struct Listeners {
    channels: Mutex<HashMap<String, Vec<Feed>>>,
}

impl Listeners {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, Vec<Feed>>) -> T) -> T {
        act(&mut self.channels.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hear(&self, push: PushInfo, lost: &Notify) {
        let mut data = push.data.into_iter();
        match (push.kind, data.next(), data.next()) {
            (PushKind::SMessage, Some(Value::BulkString(channel)), Some(Value::BulkString(event))) => {
                let Ok(channel) = String::from_utf8(channel) else { return };
                let event = Bytes::from(event);
                self.with(|channels| {
                    for feed in channels.get(&channel).into_iter().flatten() {
                        feed.send(event.clone());
                    }
                });
            }
            // If the channel still has listeners, the server has ended the subscription, because the slot moved to
            // another node.
            (PushKind::SUnsubscribe, Some(Value::BulkString(channel)), _) => {
                let asked = std::str::from_utf8(&channel)
                    .is_ok_and(|channel| self.with(|all| !all.contains_key(channel)));
                if !asked {
                    lost.notify_one();
                }
            }
            (PushKind::Disconnection, ..) => lost.notify_one(),
            _ => {}
        }
    }
}

/// The task that keeps the connection open and subscribes to the channels of the listeners.
struct Subscriber {
    dialer: Dialer,
    slot: String,
    timeout: Duration,
    listeners: Arc<Listeners>,
    connection: Option<Open>,
    /// One future for each subscription. When a subscription is dropped, its future returns the channel of the
    /// subscription.
    leaving: FuturesUnordered<BoxFuture<'static, String>>,
    /// The time of the next attempt to connect, and the pause that follows a failure of that attempt.
    retry: (Instant, Duration),
}

/// An open connection, and the notification that reports its loss.
#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    lost: Arc<Notify>,
}

impl Subscriber {
    fn new(dialer: Dialer, slot: String, timeout: Duration) -> Self {
        Self {
            dialer,
            slot,
            timeout,
            listeners: Arc::default(),
            connection: None,
            leaving: FuturesUnordered::new(),
            retry: (Instant::now(), PAUSE.0),
        }
    }

    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut batch = Vec::new();
        let mut closed = false;
        let mut ping = Instant::now() + PING;
        while !(closed && self.leaving.is_empty()) {
            let open = self.connection.clone();
            let wanted = open.is_none() && !self.leaving.is_empty();
            tokio::select! {
                received = requests.recv_many(&mut batch, BATCH), if !closed => {
                    closed = received == 0;
                    self.listen(std::mem::take(&mut batch)).await;
                }
                Some(channel) = self.leaving.next() => self.unlisten(channel).await,
                () = lost(open.as_ref()) => self.connection = None,
                () = sleep_until(self.retry.0), if wanted => self.connect().await,
                () = sleep_until(ping), if self.connection.is_some() => {
                    ping = Instant::now() + PING;
                    self.ping().await;
                }
            }
        }
    }

    /// Adds listeners, and completes the requests of the listeners after the server has confirmed the subscription.
    async fn listen(&mut self, requests: Vec<Request>) {
        if self.connection.is_none() {
            self.connect().await;
        }
        let fresh: Vec<String> = self.listeners.with(|all| {
            let mut fresh = Vec::new();
            for request in &requests {
                // The feeds are registered before the server confirms the subscription. An event that arrives early is
                // harmless.
                let feeds = all.entry(request.channel.clone()).or_insert_with_key(|channel| {
                    fresh.push(channel.clone());
                    Vec::new()
                });
                feeds.push(request.feed.clone());
            }
            fresh
        });
        let mut outcome = self.ask(&fresh).await;
        if outcome.is_err() {
            // The connection was lost, or the slot has moved. A new connection subscribes to all channels again.
            self.connect().await;
            outcome = self.ask(&[]).await;
        }
        for Request { channel, feed, done } in requests {
            let told = outcome.as_ref().map(drop).map_err(|error| told(error.clone()));
            // If the caller receives an error or no longer waits, the caller drops the subscription, and the
            // subscription is then removed.
            drop(done.send(told));
            self.leaving.push(Box::pin(async move {
                feed.closed().await;
                channel
            }));
        }
    }

    /// Subscribes to `channels` on the current connection.
    async fn ask(&mut self, channels: &[String]) -> RedisResult<()> {
        let asked = match &self.connection {
            Some(open) => bounded(self.timeout, subscribe(&open.connection, channels)).await,
            None => Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "not connected"))),
        };
        if asked.is_err() {
            self.connection = None;
        }
        asked
    }

    /// Removes the dropped listeners of `channel`. If the channel has no listeners left, `unlisten` unsubscribes from
    /// the channel.
    async fn unlisten(&mut self, channel: String) {
        let last = self.listeners.with(|all| {
            let Some(feeds) = all.get_mut(&channel) else { return false };
            feeds.retain(|feed| !feed.is_closed());
            let last = feeds.is_empty();
            if last {
                all.remove(&channel);
            }
            last
        });
        if let Some(mut open) = self.connection.clone().filter(|_| last) {
            let mut cmd = redis::cmd("SUNSUBSCRIBE");
            if bounded(self.timeout, cmd.arg(channel).query_async::<Value>(&mut open.connection))
                .await
                .is_err()
            {
                self.connection = None;
            }
        }
    }

    /// Connects, subscribes to all channels again, and sends a gap to all listeners.
    async fn connect(&mut self) {
        match bounded(self.timeout, open(&self.dialer, &self.slot, &self.listeners)).await {
            Ok(open) => {
                self.connection = Some(open);
                self.retry = (Instant::now(), PAUSE.0);
                self.listeners.with(|all| {
                    for feed in all.values().flatten() {
                        feed.gap();
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "the Redis connection for subscriptions could not be opened; retrying");
                let pause = self.retry.1;
                self.retry = (Instant::now() + pause, (pause * 2).min(PAUSE.1));
            }
        }
    }

    async fn ping(&mut self) {
        let Some(mut open) = self.connection.clone() else { return };
        if bounded(self.timeout, redis::cmd("PING").query_async::<Value>(&mut open.connection)).await.is_err()
        {
            self.connection = None;
        }
    }
}

async fn bounded<T>(limit: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(limit, work).await.map_err(late)?
}

/// Connects, and subscribes to all channels.
async fn open(dialer: &Dialer, slot: &str, listeners: &Arc<Listeners>) -> RedisResult<Open> {
    let channels: Vec<String> = listeners.with(|all| all.keys().cloned().collect());
    let lost = Arc::new(Notify::new());
    let on_push: OnPush = {
        let (listeners, lost) = (Arc::clone(listeners), Arc::clone(&lost));
        Arc::new(move |push| listeners.hear(push, &lost))
    };
    let connection = dialer.dial(slot, Some(on_push)).await?;
    subscribe(&connection, &channels).await?;
    Ok(Open { connection, lost })
}

async fn lost(open: Option<&Open>) {
    match open {
        Some(open) => open.lost.notified().await,
        None => std::future::pending().await,
    }
}

/// Subscribes to all `channels` concurrently.
async fn subscribe(connection: &MultiplexedConnection, channels: &[String]) -> RedisResult<()> {
    let asking = channels.iter().map(|channel| {
        let mut connection = connection.clone();
        async move { redis::cmd("SSUBSCRIBE").arg(channel).query_async::<Value>(&mut connection).await }
    });
    futures_util::future::try_join_all(asking).await.map(drop)
}
