//! Graceful shutdown: the server rejects new requests, completes the requests in flight, and then stops.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The JSON-RPC error code for a request that the server cannot accept now, because of a limit or a shutdown. JSON-RPC
/// reserves the code -32000 for servers.
pub const TOO_MUCH: i32 = -32000;

/// The maximum time that the server waits until clients have received the error responses of interrupted requests.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The maximum time between the arrival of a request on its connection and the moment at which the request is counted.
const ON_THE_WAY: Duration = Duration::from_millis(100);

/// The state of a server's graceful shutdown. Each phase of the shutdown has a cancellation token. The shutdown
/// cancels the tokens in the order of the fields of this struct.
#[derive(Clone, Debug)]
pub struct Drain {
    /// The token that is cancelled when the shutdown begins. When this token is cancelled, the server rejects new
    /// sessions and requests, and ends streams that have no request in flight.
    pub draining: CancellationToken,
    /// The token that is cancelled when the time for requests in flight is over. When this token is cancelled, the
    /// server returns an error for the requests in flight.
    cut_off: CancellationToken,
    /// The token that is cancelled when no request is in flight. When this token is cancelled, the server closes its
    /// sessions, and other replicas take over the sessions.
    pub stopped: CancellationToken,
    requests: Arc<Flights>,
    connections: Arc<Flights>,
    /// Whether requests can arrive at this server. A server that only runs workers receives no requests, so its
    /// shutdown does not wait for requests.
    accepts_requests: Arc<AtomicBool>,
}

impl Drain {
    /// Creates a shutdown state. The shutdown starts when `draining` is cancelled.
    pub fn new(draining: CancellationToken) -> Self {
        Self {
            draining,
            cut_off: CancellationToken::new(),
            stopped: CancellationToken::new(),
            requests: Arc::default(),
            connections: Arc::default(),
            accepts_requests: Arc::default(),
        }
    }

    /// Records that requests can arrive over HTTP. Over other transports, each new connection records that requests can
    /// arrive.
    pub fn accept_requests(&self) {
        self.accepts_requests.store(true, Ordering::Release);
    }

    /// Counts a request as in flight until the caller drops the returned value.
    pub fn request(&self) -> Flight {
        Flight::new(&self.requests)
    }

    /// Counts a connection as open until the caller drops the returned value.
    pub fn connection(&self) -> Flight {
        self.accept_requests();
        Flight::new(&self.connections)
    }

    /// Starts the shutdown. Requests in flight must finish within the time `limit`.
    pub fn begin(&self, limit: Duration) {
        self.draining.cancel();
        let runtime = tokio::runtime::Handle::try_current().ok().filter(|_| !limit.is_zero());
        let Some(runtime) = runtime else {
            self.cut_off.cancel();
            return self.stopped.cancel();
        };
        let drain = self.clone();
        let on_the_way = if self.accepts_requests.load(Ordering::Acquire) {
            ON_THE_WAY.min(limit)
        } else {
            Duration::ZERO
        };
        runtime.spawn(async move {
            tokio::time::sleep(on_the_way).await;
            if tokio::time::timeout(limit.saturating_sub(on_the_way), drain.requests.none()).await.is_err() {
                tracing::warn!("in-flight requests were cancelled: shutdown began {limit:?} ago");
                drain.cut_off.cancel();
                let _ = tokio::time::timeout(LAST_WORDS, drain.requests.none()).await;
            }
            drain.stopped.cancel();
        });
    }

    /// Waits until the server has stopped and all its connections are closed.
    pub async fn ended(&self) {
        self.stopped.cancelled().await;
        let _ = tokio::time::timeout(4 * LAST_WORDS, self.connections.none()).await;
    }
}

/// A counter of requests or connections in flight.
#[derive(Debug, Default)]
struct Flights {
    count: AtomicUsize,
    none: Notify,
}

impl Flights {
    async fn none(&self) {
        loop {
            // Register before the check, so that a notification between the check and the wait is not missed.
            let none = self.none.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            none.await;
        }
    }
}

/// A request or a connection that counts as in flight until its `Flight` value is dropped.
#[derive(Debug)]
pub struct Flight(Arc<Flights>);

impl Flight {
    fn new(flights: &Arc<Flights>) -> Self {
        flights.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(flights))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

/// A wrapper for a transport that counts its unanswered requests and takes part in the graceful shutdown.
#[derive(Debug)]
pub struct Counted<T> {
    inner: T,
    drain: Drain,
    open: Arc<Open>,
    /// Whether the connection ends during a shutdown as soon as its last request is answered. The field is `false` for
    /// a session over HTTP, because a session over HTTP outlives its connections.
    ends: bool,
    /// Whether the server has returned an error for the requests in flight.
    is_cut_off: bool,
}

/// The requests of one connection that have no response yet.
#[derive(Debug, Default)]
struct Open {
    requests: Mutex<HashMap<RequestId, Flight>>,
    none: Notify,
}

impl Open {
    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Flight>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, id: &RequestId) {
        let mut requests = self.requests();
        if requests.remove(id).is_some() && requests.is_empty() {
            self.none.notify_one();
        }
    }
}

impl<T> Counted<T> {
    /// Wraps the transport of a session over HTTP. A session over HTTP can outlive its connections.
    pub fn session(inner: T, drain: &Drain) -> Self {
        Self { inner, drain: drain.clone(), open: Arc::default(), ends: false, is_cut_off: false }
    }

    /// Wraps the transport of a connection. During a shutdown, the connection ends when it has no request in flight.
    pub fn connection(inner: T, drain: &Drain) -> Self {
        Self { inner, drain: drain.clone(), open: Arc::default(), ends: true, is_cut_off: false }
    }

    /// Returns whether the connection can end now, because a shutdown has started and no request is in flight.
    fn is_over(&self) -> bool {
        self.ends && self.drain.draining.is_cancelled() && self.open.requests().is_empty()
    }
}

impl<T: Transport<RoleServer>> Counted<T> {
    /// Returns the message if the transport accepts it. Returns `None` if the message is a request that arrives after
    /// the start of the shutdown.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                let is_ping = matches!(request.request, ClientRequest::PingRequest(_));
                if self.ends && self.drain.draining.is_cancelled() && !is_ping {
                    self.refuse(request.id.clone());
                    return None;
                }
                self.open.requests().insert(request.id.clone(), self.drain.request());
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request gets no response.
                    self.open.close(id);
                }
            }
            _ => {}
        }
        Some(message)
    }

    fn refuse(&mut self, id: RequestId) {
        let message = "the server is shutting down; connect again and repeat the request";
        let data = json!({"limit": "shutdown", "retryAfter": 1});
        let error = ErrorData::new(ErrorCode(TOO_MUCH), message, Some(data));
        let sending = self.inner.send(ServerJsonRpcMessage::error(error, Some(id)));
        tokio::spawn(async move { drop(sending.await) });
    }

    /// Sends an error as the response to each request in flight.
    fn cut_off(&mut self) {
        self.is_cut_off = true;
        let requests: Vec<_> = self.open.requests().drain().collect();
        for (id, flight) in requests {
            let message = "the server was shut down before the request was finished; repeat the request";
            let error = ErrorData::internal_error(message, Some(json!({"reason": "shutdown"})));
            let sending = self.inner.send(ServerJsonRpcMessage::error(error, Some(id)));
            tokio::spawn(async move {
                let _ = sending.await;
                drop(flight);
            });
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Counted<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
            ServerJsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let is_late =
            self.is_cut_off && answered.as_ref().is_some_and(|id| !self.open.requests().contains_key(id));
        let sending = (!is_late).then(|| self.inner.send(message));
        let open = Arc::clone(&self.open);
        async move {
            let sent = match sending {
                Some(sending) => sending.await,
                None => Ok(()),
            };
            if let Some(id) = answered {
                open.close(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.is_over() {
                return None;
            }
            let (draining, cut_off) = (self.drain.draining.clone(), self.drain.cut_off.clone());
            let message = tokio::select! {
                biased;
                message = self.inner.receive() => Some(message?),
                () = draining.cancelled(), if self.ends && !draining.is_cancelled() => None,
                () = self.open.none.notified(), if self.ends => None,
                () = cut_off.cancelled(), if !self.is_cut_off => {
                    self.cut_off();
                    None
                }
            };
            if let Some(message) = message.and_then(|message| self.admit(message)) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
