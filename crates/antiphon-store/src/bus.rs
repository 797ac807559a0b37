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

/// The most bytes of one event. An event says that something happened; what, is in the store.
pub const MAX_EVENT: usize = 4 * 1024;

/// Tells whoever listens, at once, and nobody later.
///
/// # Contract
///
/// - When [`subscribe`](Self::subscribe) has returned, every event published on the topic afterwards, from
///   whatever opening, comes to the subscription; events of one publisher come in the order in which their
///   `publish` returned. One that was published a moment before may come as well.
/// - Every subscription gets every event. Nobody else's topic is heard.
/// - Nothing is kept: without a listener an event is gone.
/// - Where events may have been lost (the connection was cut, or the listener was too slow for its
///   buffer), the subscription gets a [`Event::Gap`] in their place: read again whatever you watch.
/// - Publishing never waits for a listener.
/// - Topics follow [`name`](crate::name); an event holds up to [`MAX_EVENT`] bytes.
///
/// The contract is written as tests in `conformance` (the feature of that name).
#[async_trait]
pub trait Bus: fmt::Debug + Send + Sync + 'static {
    /// Tells all who listen to `topic`.
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()>;

    /// Listens to `topic` until the subscription is dropped.
    async fn subscribe(&self, topic: &str) -> Result<Subscription>;
}

/// What a subscription gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody published this.
    Message(Bytes),
    /// Something may have been missed here.
    Gap,
}

/// A stream of events; it ends when the bus is closed for good. Dropping it ends the listening.
pub struct Subscription {
    receiver: mpsc::Receiver<Event>,
    missed: Arc<AtomicBool>,
}

/// How many events wait for a slow listener before there is a gap.
pub const BUFFER: usize = 1024;

impl Subscription {
    /// A subscription and what feeds it. For those who write a backend.
    pub fn channel() -> (Feed, Self) {
        let (sender, receiver) = mpsc::channel(BUFFER);
        let missed = Arc::new(AtomicBool::new(false));
        (Feed { sender, missed: Arc::clone(&missed) }, Self { receiver, missed })
    }

    /// The next event; `None` when the bus is closed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if it is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Subscription {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        // Told before what is still in the buffer, which is safe: whoever reads everything again then has
        // also seen what those events announce. The buffer was full, so nobody sleeps through it.
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

/// Where a backend puts what a subscription gives.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: mpsc::Sender<Event>,
    missed: Arc<AtomicBool>,
}

impl Feed {
    /// Gives an event to the listener, or notes that it missed one. `false` when it listens no more.
    pub fn send(&self, event: Bytes) -> bool {
        self.offer(Event::Message(event))
    }

    /// Notes that something may have been missed. `false` when nobody listens any more.
    pub fn gap(&self) -> bool {
        self.offer(Event::Gap)
    }

    /// Resolves when nobody listens any more.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Whether nobody listens any more.
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

/// Refuses what no backend has to take. For those who write one.
pub fn check_event(topic: &str, event: &Bytes) -> Result<()> {
    crate::name::check(topic)?;
    fits("an event", event.len(), MAX_EVENT)
}
