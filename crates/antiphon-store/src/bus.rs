use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{error::Result, store::fits};

/// The maximum size of one event in bytes. Put larger data into the store, and publish only a notification.
pub const MAX_EVENT: usize = 4 * 1024;

/// A channel that sends events to the current subscribers of a topic. Events are not stored.
///
/// # Contract
///
/// - After [`subscribe`](Self::subscribe) has returned, the subscription receives every event that is published on the
///   topic, through any handle. The subscription receives the events of one publisher in the order in which `publish`
///   returned. A subscription can also receive an event that was published shortly before `subscribe` returned.
/// - Every subscription receives every event of its topic, and no event of another topic.
/// - Events are not kept. If a topic has no subscriber, its events are discarded.
/// - Events can be lost if the connection is lost, or if the listener is too slow for its buffer. The subscription then
///   receives one [`Event::Gap`] in place of the lost events. After a gap, the listener must read the current data from
///   the store again.
/// - Publishing never waits for a listener.
/// - Topics follow the rules in [`name`](crate::name). An event holds up to [`MAX_EVENT`] bytes.
///
/// The module `conformance` (feature `conformance`) contains tests of this contract.
#[async_trait]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Sends an event to all current subscribers of `topic`.
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()>;

    /// Subscribes to `topic` until the subscription is dropped.
    async fn subscribe(&self, topic: &str) -> Result<Subscription>;
}

/// An item that [`Subscription::next`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A published event.
    Message(Bytes),
    /// Events were possibly lost before the next event. Read the current data from the store again.
    Gap,
}

/// A stream of events. The stream ends when the bus is closed permanently. Dropping the stream ends the subscription.
pub struct Subscription {
    receiver: mpsc::Receiver<Event>,
    missed: Arc<AtomicBool>,
}

/// The number of events that a subscription buffers for a slow listener. If more events arrive, the subscription
/// discards these events, and the listener receives an [`Event::Gap`].
pub const BUFFER: usize = 1024;

impl Subscription {
    /// Creates a subscription and its [`Feed`], which sends events to the subscription. Implementations of a backend
    /// use this function.
    pub fn channel() -> (Feed, Self) {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let missed = Arc::new(AtomicBool::new(false));
        (Feed { sender, missed: Arc::clone(&missed) }, Self { receiver, missed })
    }

    /// Returns the next event, or `None` if the bus is closed.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: if you drop its future, no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        // The gap comes before the events in the buffer. This order is safe: after the gap, a listener reads all its
        // data again, and this data includes the changes that the buffered events announce. The flag needs no wake-up,
        // because it is set only when the buffer is full, so the listener has events to read.
        if self.missed.swap(false, Ordering::AcqRel) {
            return Poll::Ready(Some(Event::Gap));
        }
        self.receiver.poll_recv(cx)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// The sending side of a [`Subscription`]. Implementations of a backend use this type.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: mpsc::Sender<Event>,
    missed: Arc<AtomicBool>,
}

impl Feed {
    /// Sends an event to the listener. If the listener's buffer is full, records a gap instead. Returns `false` if
    /// the subscription was dropped.
    pub fn send(&self, event: Bytes) -> bool {
        self.offer(Event::Message(event))
    }

    /// Records that events were possibly lost. Returns `false` if the subscription was dropped.
    pub fn gap(&self) -> bool {
        self.offer(Event::Gap)
    }

    /// Resolves when the subscription is dropped.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Returns whether the subscription was dropped.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn offer(&self, event: Event) -> bool {
        match self.sender.try_send(event) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.missed.store(true, Ordering::Release);
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }
}

/// Checks the topic and the size of an event. Implementations of a backend use this function.
///
/// # Errors
///
/// Returns [`Error::BadName`](crate::Error::BadName) if the topic is invalid. Returns
/// [`Error::TooLarge`](crate::Error::TooLarge) if the event has more than [`MAX_EVENT`] bytes.
pub fn check_event(topic: &str, event: &Bytes) -> Result<()> {
    crate::name::check(topic)?;
    fits("an event", event.len(), MAX_EVENT)
}
