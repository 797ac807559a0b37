//! A session over HTTP+SSE: an outgoing stream of events, and posted messages.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::request::Parts;
use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, Interval, MissedTickBehavior, interval_at, timeout},
};
use tokio_util::sync::CancellationToken;

use super::SseConfig;
use crate::{
    Error, Result,
    inbox::{Inbox, answered, write},
    weight::{MemoryBudget, Share},
};

/// The maximum number of messages of one client that the server receives at the same time.
const POSTS: usize = 8;

type Incoming = RxJsonRpcMessage<RoleServer>;

/// The part of a session that is needed to post a message.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) inbox: Inbox,
    pub(super) posts: Arc<Semaphore>,
    /// The caller that opened the session, if the caller is known.
    pub(super) owner: Option<String>,
    incoming: mpsc::Sender<Incoming>,
    outbox: Outbox,
}

impl Session {
    /// Delivers a message to the service.
    pub(super) async fn deliver(&self, message: Incoming) -> Result<()> {
        let limit = self.outbox.stall;
        let sent = timeout(limit, self.incoming.send(message)).await.map_err(|_| Error::TimedOut(limit))?;
        sent.map_err(|_| Error::Closed)
    }

    /// Sends a text on the event stream to the client directly, without the service.
    pub(super) async fn say(&self, text: String) -> Result<()> {
        self.outbox.send(|| Ok(text)).await
    }
}

/// The queue for messages on the stream of events.
#[derive(Clone)]
struct Outbox {
    queue: mpsc::Sender<Queued>,
    over: CancellationToken,
    stall: Duration,
    budget: MemoryBudget,
}

/// A queued text, and the share of the memory budget that the text uses.
type Queued = (String, Share);

impl Outbox {
    async fn send(&self, text: impl FnOnce() -> Result<String>) -> Result<()> {
        let place = tokio::select! {
            biased;
            () = self.over.cancelled() => return Err(Error::Closed),
            place = timeout(self.stall, self.queue.reserve()) => place,
        };
        let place = match place {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Error::Closed),
            Err(_) => {
                return Err(self.give_up("a session is closed: the client did not read its events in time"));
            }
        };
        let text = text()?;
        let Some(share) = self.budget.take_within(text.len(), self.stall).await else {
            return Err(self.give_up("a session is closed: the memory for messages was used up for too long"));
        };
        place.send((text, share));
        Ok(())
    }

    fn give_up(&self, why: &'static str) -> Error {
        tracing::warn!(stall = ?self.stall, "{why}");
        self.over.cancel();
        Error::Stalled(self.stall)
    }
}

/// The sessions of a server, by ID.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<HashMap<String, Session>>>);

impl Sessions {
    pub(super) fn get(&self, id: &str) -> Option<Session> {
        self.map().get(id).cloned()
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session. Returns the event stream for the client, and the transport for the service.
    pub(super) fn open(
        &self,
        id: &str,
        parts: Parts,
        config: &SseConfig,
        place: OwnedSemaphorePermit,
    ) -> (Body, SseTransport) {
        let (incoming, received) = mpsc::channel(config.queue.max(1));
        let (queue, queued) = mpsc::channel(config.queue.max(1));
        let over = CancellationToken::new();
        let (stall, budget) = (config.send_timeout, config.bodies.clone());
        let outbox = Outbox { queue, over: over.clone(), stall, budget };
        let inbox = Inbox::new(config.max_open_requests, config.tasks);
        let session = Session {
            inbox: inbox.clone(),
            posts: Arc::new(Semaphore::new(POSTS)),
            owner: config.owner_of(&parts),
            incoming,
            outbox: outbox.clone(),
        };
        self.map().insert(id.to_owned(), session);
        let endpoint = format!("event: endpoint\ndata: {}?sessionId={id}\n\n", config.endpoint());
        let events = Events {
            endpoint: Some(endpoint.into()),
            queued,
            over: over.clone(),
            alive: config.keep_alive.map(|period| {
                let mut alive = interval_at(Instant::now() + period, period);
                alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
                alive
            }),
            _entry: Entry { sessions: self.clone(), id: id.to_owned(), over },
            _place: place,
        };
        let body = Body::from_stream(stream::unfold(events, Events::next));
        let transport = SseTransport { received, outbox, inbox, limit: config.max_message_bytes, parts };
        (body, transport)
    }
}

/// The entry of a session in the table. When the entry is dropped, the session is removed from the table, and its
/// stream ends.
struct Entry {
    sessions: Sessions,
    id: String,
    over: CancellationToken,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.over.cancel();
        self.sessions.map().remove(&self.id);
    }
}

/// The stream of events to a client. The stream takes an event from the queue only when the network can send the
/// event.
struct Events {
    endpoint: Option<Bytes>,
    queued: mpsc::Receiver<Queued>,
    over: CancellationToken,
    alive: Option<Interval>,
    _entry: Entry,
    _place: OwnedSemaphorePermit,
}

impl Events {
    async fn next(mut self) -> Option<(Result<Bytes, std::convert::Infallible>, Self)> {
        if let Some(endpoint) = self.endpoint.take() {
            return Some((Ok(endpoint), self));
        }
        let alive = async {
            match &mut self.alive {
                Some(alive) => drop(alive.tick().await),
                None => std::future::pending().await,
            }
        };
        let chunk = tokio::select! {
            biased;
            queued = self.queued.recv() => Bytes::from(format!("event: message\ndata: {}\n\n", queued?.0)),
            () = self.over.cancelled() => return None,
            () = alive => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok(chunk), self))
    }
}

/// A session with one client, for [`rmcp::serve_server`]. The session ends when its event stream ends. If you drop the
/// `SseTransport`, the event stream ends.
pub struct SseTransport {
    received: mpsc::Receiver<Incoming>,
    outbox: Outbox,
    inbox: Inbox,
    limit: usize,
    parts: Parts,
}

impl SseTransport {
    /// Returns the HTTP request that opened the event stream. The extensions of a message contain the HTTP request
    /// that posted the message.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

impl Transport<RoleServer> for SseTransport {
    type Error = Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let (outbox, inbox, limit) = (self.outbox.clone(), self.inbox.clone(), self.limit);
        async move {
            let sent = outbox.send(|| write::<RoleServer>(&message, limit)).await;
            // Mark the request as answered only now, because the response uses memory until it is queued.
            if let Some(id) = answered::<RoleServer>(&message) {
                inbox.settle(id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<Incoming> {
        tokio::select! {
            biased;
            () = self.outbox.over.cancelled() => None,
            message = self.received.recv() => message,
        }
    }

    async fn close(&mut self) -> Result<()> {
        self.outbox.over.cancel();
        Ok(())
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.outbox.over.cancel();
    }
}

impl fmt::Debug for SseTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseTransport").field("over", &self.outbox.over.is_cancelled()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_left_of_a_session_whose_stream_is_dropped() {
        let sessions = Sessions::default();
        let places = Arc::new(Semaphore::new(1));
        let (parts, ()) = http::Request::new(()).into_parts();
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (body, mut transport) = sessions.open("id", parts, &SseConfig::default(), place);
        assert!(sessions.get("id").is_some());
        drop(body);
        assert!(sessions.map().is_empty());
        assert_eq!(places.available_permits(), 1);
        assert!(transport.receive().await.is_none());
    }
}
