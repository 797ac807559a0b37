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

/// A channel that sends events to the current subscribers of a topic. A bus does not store events.
///
/// # Contract
///
/// - After [`subscribe`](Self::subscribe) has returned, the subscription receives every event that any handle
///   publishes on the topic. Events from one publisher arrive in the order in which its calls of `publish` returned.
///   A subscription can also receive an event that was published shortly before `subscribe` returned.
/// - A subscription receives all events of its topic, and no events of other topics.
/// - The bus does not store events. If a topic has no subscriber, the bus discards the events of the topic.
/// - Events can be lost if the connection breaks, or if the buffer of a slow listener overflows. If events are lost,
///   the subscription receives one [`Event::Gap`] in place of these events. After an [`Event::Gap`], the listener
///   must read the current data from the store again.
/// - `publish` does not wait until the listeners have received the event.
/// - Topics follow the rules in [`name`](crate::name). An event holds up to [`MAX_EVENT`] bytes.
///
/// The module `conformance` (feature `conformance`) contains tests of the contract of `Bus`.
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
    /// An event that was published on the topic.
    Message(Bytes),
    /// Events were possibly lost before the next event. After a gap, read the current data from the store again.
    Gap,
}

/// A stream that returns the events of one topic. The stream ends when the bus is closed permanently. To unsubscribe,
/// drop the stream.
pub struct Subscription {
    receiver: mpsc::Receiver<Event>,
    missed: Arc<AtomicBool>,
}

/// The number of events that a subscription buffers for a slow listener. If the buffer is full, the subscription
/// discards further events, and the listener receives an [`Event::Gap`].
pub const BUFFER: usize = 1024;

impl Subscription {
    /// Creates a subscription and its [`Feed`], which sends events to the subscription. Implementations of a backend
    /// use `channel`.
    pub fn channel() -> (Feed, Self) {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let missed = Arc::new(AtomicBool::new(false));
        (Feed { sender, missed: Arc::clone(&missed) }, Self { receiver, missed })
    }

    /// Returns the next event, or `None` if the bus is closed.
    ///
    /// # Cancel safety
    ///
    /// `next` is cancel safe: if you drop the future of `next`, no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        // A listener receives the gap before the events that are still in the buffer. This order is safe: after the
        // gap, a listener reads all its data again, and this data includes the changes that the buffered events
        // announce. `missed` is set only when the buffer is full. The listener then has events to read, so this code
        // need not wake the listener.
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

/// The sending side of a [`Subscription`]. Implementations of a backend use `Feed`.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: mpsc::Sender<Event>,
    missed: Arc<AtomicBool>,
}

impl Feed {
    /// Sends an event to the listener. If the listener's buffer is full, `send` discards the event and records a gap.
    /// Returns `false` if the subscription was dropped.
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

/// Checks the topic and the size of an event. Implementations of a backend use `check_event`.
///
/// # Errors
///
/// Returns [`Error::BadName`](crate::Error::BadName) if the topic is invalid. Returns
/// [`Error::TooLarge`](crate::Error::TooLarge) if the event has more than [`MAX_EVENT`] bytes.
pub fn check_event(topic: &str, event: &Bytes) -> Result<()> {
    crate::name::check(topic)?;
    fits("an event", event.len(), MAX_EVENT)
}
