//! Reads a session's log, and sends the messages of one stream.

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use antiphon_store::{Event, Result, Subscription};
use bytes::Bytes;
use futures_util::Stream;
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc::{self, Sender};
use tokio_util::sync::CancellationToken;

use super::{
    ids::Numbered,
    local_session::LocalSession,
    log::{COMMON, EventId, Head, Position, decode},
    message::{StoredMessage, missing},
    record::SessionStorage,
};

/// The maximum time between two checks of the session. The stream checks the session after this time even without a
/// notification.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum time for the last read of a log before a stream ends.
const LAST: Duration = Duration::from_secs(1);

/// The maximum number of log entries in one read.
const PAGE: usize = 64;

/// The message that is published on the topic of a session's log when the session has ended.
pub(super) const END: &[u8] = b"end";

/// A stream of events to a client. The stream reads the events from a log, regardless of which replica writes them.
pub(super) struct EventStream {
    place: Arc<SessionStorage>,
    part: Weak<LocalSession>,
    stream: Followed,
    at: Position,
    /// Whether the current segment ends at the position `at`. The field `full` is `None` if the end of the segment is
    /// not known.
    full: Option<bool>,
    sender: Sender<ServerSseMessage>,
}

/// The stream of a session that an [`EventStream`] reads.
pub(super) enum Followed {
    Request(Numbered),
    /// The messages of the session that do not belong to a request. The stream sends these messages until another
    /// stream becomes the listener.
    Common {
        listener: String,
        begun: bool,
    },
    /// The stream stays open without messages, because another stream is the listener. If the silent stream ended, the
    /// client would open the stream again.
    Silent,
}

/// The events that a stream sends to the client.
pub(crate) struct Sent(mpsc::Receiver<ServerSseMessage>);

impl Stream for Sent {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        self.0.poll_recv(cx)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Later,
    Never,
}

impl EventStream {
    #[cfg(test)]
    pub(super) fn new(
        place: Arc<SessionStorage>,
        stream: Followed,
        sender: Sender<ServerSseMessage>,
    ) -> Self {
        Self { place, part: Weak::new(), stream, at: Position::default(), full: None, sender }
    }

    /// Sends the events in `first`, and then the events of `stream` from the position `at` on.
    pub(super) fn spawn(
        part: &Arc<LocalSession>,
        stream: Followed,
        at: Position,
        first: Vec<ServerSseMessage>,
    ) -> Sent {
        // The capacity is the SDK's capacity for a slow client, plus the number of first events.
        let (sender, receiver) = mpsc::channel(16 + first.len());
        for event in first {
            let _ = sender.try_send(event);
        }
        let place = Arc::clone(&part.log.place);
        let mut tail = Self { place, part: Arc::downgrade(part), stream, at, full: None, sender };
        tokio::spawn(async move {
            let (ends, sender) = (tail.ends(), tail.sender.clone());
            tokio::select! {
                () = ends.cancelled() => {}
                // The client has disconnected.
                () = sender.closed() => return,
                () = tail.run() => return,
            }
            if matches!(tail.stream, Followed::Request(_)) {
                // Because of this last read, the client does not need to request the last entries from another replica.
                let _ = tokio::time::timeout(LAST, tail.read_on()).await;
            }
        });
        Sent(receiver)
    }

    /// Returns a token that is cancelled when the client must continue the stream at another replica. The stream of a
    /// request stays at this replica while this replica runs the request.
    fn ends(&self) -> CancellationToken {
        let replicas = &self.place.replicas;
        match &self.stream {
            Followed::Request(request) if request.part.replica == replicas.id => replicas.stopped.clone(),
            _ => replicas.draining.clone(),
        }
    }

    async fn run(&mut self) {
        // The subscription starts before the first read, so that the stream misses no entry between the subscription
        // and the read.
        let mut news = self.place.replicas.bus.subscribe(&self.place.topic()).await;
        if let Err(error) = &news {
            tracing::warn!(%error, "the subscription to new events of a session failed; its stream polls instead");
        }
        let mut around = true;
        loop {
            match self.look(around).await {
                Ok(More::Later) => {}
                Ok(More::Never) => return,
                Err(error) => {
                    tracing::warn!(%error, "the event log of a session cannot be read; trying again");
                }
            }
            around = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL.min(self.place.ttl / 3)) => true,
                goes_on = next(&mut news) => if goes_on { false } else { return },
            };
        }
    }

    /// Sends new log entries to the client. If `around` is true, `look` also checks whether the session still exists,
    /// and whether the stream still has a writer.
    async fn look(&mut self, around: bool) -> Result<More> {
        if around {
            let Some(record) = self.place.load().await? else { return Ok(More::Never) };
            self.place.touch();
            if let Some(part) = self.part.upgrade() {
                part.stay().await;
            }
            if self.at.segment.saturating_add(1) < record.segment {
                tracing::warn!(
                    "a stream has lost events: old entries of the event log were deleted before the stream read them"
                );
                self.say_missing().await;
                (self.at, self.full) = (Position { segment: record.segment - 1, next: 0 }, Some(false));
            }
        }
        let more = self.read_on().await?;
        if around && more == More::Later && self.is_orphaned().await? {
            // The writer may have written its last entries after the previous read.
            self.read_on().await?;
            return Ok(More::Never);
        }
        Ok(more)
    }

    pub(super) async fn read_on(&mut self) -> Result<More> {
        loop {
            if self.is_full().await? {
                let segment = self.at.segment.saturating_add(1);
                (self.at, self.full) = (Position { segment, next: 0 }, Some(false));
            }
            let log = self.place.segment(self.at.segment);
            let entries = self.place.replicas.store.read(&log, self.at.next, PAGE).await?;
            if entries.is_empty() {
                return Ok(More::Later);
            }
            for entry in entries {
                let after = Position { next: self.at.next.saturating_add(1), ..self.at };
                let (mut more, mut full) = (More::Later, self.full);
                if let Some((head, body)) = decode(&entry) {
                    full = Some(head.is_last(after.next));
                    more = self.pass(head, body, after).await?;
                }
                // The position advances only after the entry was sent. If the store fails earlier, the stream reads the
                // entry again.
                (self.at, self.full) = (after, full);
                if more == More::Never {
                    return Ok(More::Never);
                }
            }
        }
    }

    async fn is_full(&mut self) -> Result<bool> {
        if let Some(full) = self.full {
            return Ok(full);
        }
        let mut full = false;
        if let Some(last) = self.at.next.checked_sub(1) {
            let log = self.place.segment(self.at.segment);
            let entries = self.place.replicas.store.read(&log, last, 1).await?;
            full = entries.first().and_then(decode).is_some_and(|(head, _)| head.is_last(self.at.next));
        }
        self.full = Some(full);
        Ok(full)
    }

    /// Sends the entry before the position `after`, if the entry belongs to the stream. If `pass` fails, it has sent
    /// nothing to the client.
    async fn pass(&mut self, head: Head, body: Bytes, after: Position) -> Result<More> {
        let name = match &mut self.stream {
            Followed::Request(request) => {
                let name = request.to_string();
                if head.stream != name {
                    return Ok(More::Later);
                }
                name
            }
            Followed::Common { listener, begun } => {
                if head.stream != COMMON {
                    return Ok(More::Later);
                }
                if let Some(other) = &head.listener {
                    if other == listener {
                        *begun = true;
                    } else if *begun {
                        self.stream = Followed::Silent;
                    }
                    return Ok(More::Later);
                }
                format!("{COMMON}-{}", self.place.replicas.id)
            }
            Followed::Silent => return Ok(More::Later),
        };
        let body = match &head.pieces {
            Some(pieces) => pieces.get(&*self.place.replicas.store).await?,
            None => Some(body),
        };
        if head.partial {
            self.say_missing().await;
        }
        let Some(message) = body.as_deref().and_then(StoredMessage::read) else {
            self.say_missing().await;
            return Ok(More::Later);
        };
        let ends = message.is_answer() && matches!(self.stream, Followed::Request(_));
        let id = EventId { stream: name, after }.to_string();
        let _ = self.sender.send(ServerSseMessage::new(id, message.into())).await;
        Ok(if ends { More::Never } else { More::Later })
    }

    async fn say_missing(&self) {
        let _ = self.sender.send(ServerSseMessage::from_message(missing().into())).await;
    }

    /// Returns whether the stream has lost its writer, so that no replica will write to the stream again.
    async fn is_orphaned(&self) -> Result<bool> {
        match &self.stream {
            Followed::Request(request) => Ok(!self.place.replicas.is_alive(&request.part).await?),
            Followed::Common { .. } | Followed::Silent => Ok(false),
        }
    }
}

/// Waits for a notification of new log entries. Returns `false` if the session has ended.
async fn next(news: &mut Result<Subscription>) -> bool {
    let event = match news {
        Ok(news) => news.next().await,
        Err(_) => None,
    };
    match event {
        Some(Event::Message(message)) => message != END,
        Some(Event::Gap) => true,
        // If the subscription has failed, the stream reads new entries only when the timer expires.
        None => std::future::pending().await,
    }
}
