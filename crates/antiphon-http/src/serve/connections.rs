//! Tracks the connections of a server. If the limit of connections is reached, the server closes an idle connection. A
//! connection is idle when all its response bodies have been sent.

use std::{
    collections::BTreeMap,
    future::Future as _,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// The open connections of a server, and the limit of connections.
pub(super) struct Connections {
    most: usize,
    seated: Mutex<Seated>,
    closing: CancellationToken,
    evicted: CancellationToken,
    empty: tokio::sync::Notify,
}

#[derive(Default)]
struct Seated {
    /// The connections that are not closing, oldest first.
    connections: BTreeMap<u64, Arc<Connection>>,
    next: u64,
    /// The number of connections, including connections that are closing.
    here: usize,
}

/// The state of one connection.
pub(super) struct Connection {
    /// The number of requests whose response has not been sent completely.
    requests: AtomicUsize,
    leave: CancellationToken,
}

/// The way in which a connection must close.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leave {
    /// Another connection needs the slot, or the server is shutting down. The connection closes when no request is in
    /// flight on this connection.
    Soon,
    /// The shutdown time is over. The connection closes immediately.
    Now,
}

/// A guard for the slot of a connection. When the guard is dropped, the slot is free again.
pub(super) struct ConnectionGuard {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
    number: u64,
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            seated: Mutex::default(),
            closing: CancellationToken::new(),
            evicted: CancellationToken::new(),
            empty: tokio::sync::Notify::new(),
        })
    }

    fn seated(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a slot for a new connection. If no slot is free, this method closes the oldest connection without a
    /// request in flight. A request is in flight only after the client has sent complete headers. Returns `None` if all
    /// connections have requests in flight.
    pub(super) fn guard(self: &Arc<Self>) -> Option<ConnectionGuard> {
        let mut seated = self.seated();
        if seated.connections.len() >= self.most {
            let (&number, connection) =
                seated.connections.iter().find(|(_, connection)| !connection.is_busy())?;
            connection.leave.cancel();
            seated.connections.remove(&number);
        }
        let (number, connection) = (seated.next, Arc::new(Connection::default()));
        seated.next += 1;
        seated.here += 1;
        seated.connections.insert(number, Arc::clone(&connection));
        Some(ConnectionGuard { connections: Arc::clone(self), connection, number })
    }

    /// Asks all connections to close, and waits until all connections have closed.
    pub(super) async fn gone(&self) {
        self.closing.cancel();
        loop {
            // The task registers before the check, so that the task does not miss a connection that closes after the
            // check.
            let empty = self.empty.notified();
            if self.seated().here == 0 {
                return;
            }
            empty.await;
        }
    }

    /// Closes all connections immediately.
    pub(super) fn evict_all(&self) {
        self.evicted.cancel();
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self { requests: AtomicUsize::new(0), leave: CancellationToken::new() }
    }
}

impl Connection {
    pub(super) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0
    }

    /// Counts a request as in flight until the returned value is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }
}

impl ConnectionGuard {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Waits until the server requires the connection to close in the way that `leave` names.
    pub(super) async fn request(&self, leave: Leave) -> Leave {
        match leave {
            Leave::Soon => tokio::select! {
                () = self.connection.leave.cancelled() => {}
                () = self.connections.closing.cancelled() => {}
            },
            Leave::Now => self.connections.evicted.cancelled().await,
        }
        leave
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut seated = self.connections.seated();
        seated.connections.remove(&self.number);
        seated.here -= 1;
        if seated.here == 0 {
            self.connections.empty.notify_waiters();
        }
    }
}

/// A guard for a request in flight.
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A response body that keeps another value alive until the body is sent. If a maximum age is set, the body ends at
/// this age.
pub(crate) struct Held<G> {
    body: Body,
    _kept: G,
    ends: Option<Pin<Box<Sleep>>>,
}

impl<G> Held<G> {
    /// Creates a body that owns `kept` until the body is sent. The body ends after `age`, even if the body was not
    /// sent completely.
    pub(crate) fn new(body: Body, kept: G, age: Option<Duration>) -> Self {
        Self { body, _kept: kept, ends: age.map(|age| Box::pin(tokio::time::sleep(age))) }
    }
}

impl<G: Unpin> HttpBody for Held<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(ends) = &mut self.ends
            && ends.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    #[test]
    fn the_oldest_who_has_nothing_in_hand_makes_room() {
        let connections = Connections::new(2);
        let first = connections.guard().unwrap();
        let second = connections.guard().unwrap();
        let working = first.connection().busy();
        let third = connections.guard().unwrap();
        assert!(second.connection().leave.is_cancelled() && !first.connection().leave.is_cancelled());
        let _also = third.connection().busy();
        assert!(connections.guard().is_none(), "nobody who works is sent away");
        drop(working);
        assert!(connections.guard().is_some());
        assert!(first.connection().leave.is_cancelled());
    }

    #[tokio::test]
    async fn gone_waits_for_those_who_were_asked_to_leave() {
        let connections = Connections::new(1);
        let first = connections.guard().unwrap();
        let second = connections.guard().unwrap();
        drop(second);
        let waited = tokio::time::timeout(Duration::from_millis(20), connections.gone()).await;
        assert!(waited.is_err(), "the first is still there");
        drop(first);
        connections.gone().await;
    }

    #[tokio::test(start_paused = true)]
    async fn stream_ends_at_its_age_and_not_before() {
        let events = stream::unfold(0_u32, |n| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from("event")), n + 1))
        });
        let held = Held::new(Body::from_stream(events), (), Some(Duration::from_millis(3500)));
        let sent = Body::new(held).into_data_stream().count().await;
        assert_eq!(sent, 3);
    }
}
