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

/// How often to make sure that a silent connection is not a dead one.
const PING: Duration = Duration::from_secs(5);

/// How long to wait before the second try to connect, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How many requests are served at once.
const BATCH: usize = 256;

/// Listens for all subscriptions of a process, on one connection.
#[derive(Clone)]
pub(super) struct Hub {
    dialer: Dialer,
    /// A key in the slot of all channels.
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

    /// Listens to `channel`.
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
    Error::busy(NAME, "the runtime that listens has ended")
}

/// Who listens to what. The connection feeds them as it reads.
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
            // Not asked for, if it is still listened to: the slot has moved to another node.
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

/// The task that keeps the connection and asks for what the listeners want.
struct Subscriber {
    dialer: Dialer,
    slot: String,
    timeout: Duration,
    listeners: Arc<Listeners>,
    connection: Option<Open>,
    /// Resolve with the channel when a subscription is dropped.
    leaving: FuturesUnordered<BoxFuture<'static, String>>,
    /// When to try to connect again, and after which pause then.
    retry: (Instant, Duration),
}

/// A connection, and what says that it was lost.
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

    /// Adds listeners, and tells them when the server knows.
    async fn listen(&mut self, requests: Vec<Request>) {
        if self.connection.is_none() {
            self.connect().await;
        }
        let fresh: Vec<String> = self.listeners.with(|all| {
            let mut fresh = Vec::new();
            for request in &requests {
                // They hear from the first moment on; what comes too early does no harm.
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
            // The connection was lost, or the slot has moved. To connect is to ask for all.
            self.connect().await;
            outcome = self.ask(&[]).await;
        }
        for Request { channel, feed, done } in requests {
            let told = outcome.as_ref().map(drop).map_err(|error| told(error.clone()));
            // Who has been told of a failure, or waits no more, drops the subscription, and it leaves.
            drop(done.send(told));
            self.leaving.push(Box::pin(async move {
                feed.closed().await;
                channel
            }));
        }
    }

    /// Asks for `channels`.
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

    /// Forgets listeners of `channel` that are gone, and the channel with the last of them.
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

    /// Connects, asks again for all that is listened to, and then says that something may have been missed.
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
                tracing::debug!(%error, "cannot listen");
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

/// Connects, and asks for all that is listened to.
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

/// Asks for `channels`, all at once.
async fn subscribe(connection: &MultiplexedConnection, channels: &[String]) -> RedisResult<()> {
    let asking = channels.iter().map(|channel| {
        let mut connection = connection.clone();
        async move { redis::cmd("SSUBSCRIBE").arg(channel).query_async::<Value>(&mut connection).await }
    });
    futures_util::future::try_join_all(asking).await.map(drop)
}
