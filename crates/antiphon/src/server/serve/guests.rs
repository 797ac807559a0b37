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
pub(super) struct Guests {
    most: usize,
    seated: Mutex<Seated>,
    closing: CancellationToken,
    evicted: CancellationToken,
    empty: tokio::sync::Notify,
}

#[derive(Default)]
struct Seated {
    /// Oldest first.
    guests: BTreeMap<u64, Arc<Guest>>,
    next: u64,
    /// How many connections there are, with those that were asked to leave.
    here: usize,
}

/// A connection, as others see it.
pub(super) struct Guest {
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
pub(super) struct Seat {
    guests: Arc<Guests>,
    guest: Arc<Guest>,
    number: u64,
}

impl Guests {
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
    pub(super) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let mut seated = self.seated();
        if seated.guests.len() >= self.most {
            let (&number, guest) = seated.guests.iter().find(|(_, guest)| !guest.is_busy())?;
            guest.leave.cancel();
            seated.guests.remove(&number);
        }
        let (number, guest) = (seated.next, Arc::new(Guest::default()));
        seated.next += 1;
        seated.here += 1;
        seated.guests.insert(number, Arc::clone(&guest));
        Some(Seat { guests: Arc::clone(self), guest, number })
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

impl Default for Guest {
    fn default() -> Self {
        Self { requests: AtomicUsize::new(0), leave: CancellationToken::new() }
    }
}

impl Guest {
    pub(super) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0
    }

    /// A request is in hand, until this is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }
}

impl Seat {
    pub(super) fn guest(&self) -> &Arc<Guest> {
        &self.guest
    }

    /// Ends when the connection is asked to leave, in that way.
    pub(super) async fn request(&self, leave: Leave) -> Leave {
        match leave {
            Leave::Soon => tokio::select! {
                () = self.guest.leave.cancelled() => {}
                () = self.guests.closing.cancelled() => {}
            },
            Leave::Now => self.guests.evicted.cancelled().await,
        }
        leave
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seated = self.guests.seated();
        seated.guests.remove(&self.number);
        seated.here -= 1;
        if seated.here == 0 {
            self.guests.empty.notify_waiters();
        }
    }
}

/// A request in hand.
pub(super) struct Busy(Arc<Guest>);

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
        let guests = Guests::new(2);
        let first = guests.seat().unwrap();
        let second = guests.seat().unwrap();
        let working = first.guest().busy();
        let third = guests.seat().unwrap();
        assert!(second.guest().leave.is_cancelled() && !first.guest().leave.is_cancelled());
        let _also = third.guest().busy();
        assert!(guests.seat().is_none(), "nobody who works is sent away");
        drop(working);
        assert!(guests.seat().is_some());
        assert!(first.guest().leave.is_cancelled());
    }

    #[tokio::test]
    async fn gone_waits_for_those_who_were_asked_to_leave() {
        let guests = Guests::new(1);
        let first = guests.seat().unwrap();
        let second = guests.seat().unwrap();
        drop(second);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(20), guests.gone()).await;
        assert!(waited.is_err(), "the first is still there");
        drop(first);
        guests.gone().await;
    }
}
