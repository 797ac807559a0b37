//! Who is connected, and who goes first when there is no more room.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

/// The connections of a server.
pub(super) struct Connections {
    most: usize,
    seated: Mutex<Seated>,
    closing: CancellationToken,
    evicted: CancellationToken,
    empty: tokio::sync::Notify,
}

#[derive(Default)]
struct Seated {
    /// Oldest first.
    connections: BTreeMap<u64, Arc<Connection>>,
    next: u64,
    /// How many connections there are, with those that were asked to leave.
    here: usize,
}

/// A connection, as others see it.
pub(super) struct Connection {
    /// How many requests it has in hand, of which the last bytes of the answer are not sent.
    requests: AtomicUsize,
    leave: CancellationToken,
}

/// How a connection is asked to leave.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leave {
    /// Another needs the place, or the server ends: when nothing is in hand.
    Soon,
    /// The server has ended.
    Now,
}

/// A connection's place, for as long as it has one.
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

    /// A place for one more: that of the oldest who has nothing in hand, if there is no other. Who sends a head byte by
    /// byte, or nothing at all, has nothing in hand.
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

    /// Asks everybody to leave, and returns when they have.
    pub(super) async fn gone(&self) {
        self.closing.cancel();
        loop {
            // Registered first: whoever leaves from here on is heard.
            let empty = self.empty.notified();
            if self.seated().here == 0 {
                return;
            }
            empty.await;
        }
    }

    /// Has everybody leave at once.
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

    /// A request is in hand, until this is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }
}

impl ConnectionGuard {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Ends when the connection is asked to leave, in that way.
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

/// A request in hand.
pub(super) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
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
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), connections.gone()).await;
        assert!(waited.is_err(), "the first is still there");
        drop(first);
        connections.gone().await;
    }
}
