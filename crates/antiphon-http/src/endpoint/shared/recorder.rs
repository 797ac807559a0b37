//! Stores the messages that a part of a session sends.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use rmcp::{
    model::{GetExtensions as _, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{
        EventStore, EventStoreError, EventStream, ServerSseMessage,
    },
};

use super::{
    ids::{LocalSessionId, Numbered},
    log::{COMMON, EventId, Head, Log, Position},
};
use antiphon_transport::session::ChangeId;

/// The limits for the stored events of one stream. A client can resume the stream only from stored events.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// A recorder that stores the messages of one session part before the messages are sent.
pub(super) struct Recorder {
    log: Arc<Log>,
    part: LocalSessionId,
    limits: StreamLimits,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: i64,
    /// The open streams, by the names that the SDK gives to them.
    open: HashMap<String, Stream>,
}

/// The state of the event stream that belongs to a request.
#[derive(Clone, Debug)]
struct Stream {
    number: i64,
    events: usize,
    bytes: usize,
    partial: bool,
    /// The position in the log after the last stored event of the stream.
    after: Position,
}

/// The maximum number of open streams that the recorder remembers. The limit is needed because the recorder is not
/// notified when the stream of a cancelled request ends.
const OPEN: usize = 4096;

impl Recorder {
    pub(super) fn new(log: Arc<Log>, part: LocalSessionId, limits: StreamLimits) -> Self {
        Self { log, part, limits, streams: Mutex::default() }
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, stream: &Stream) -> String {
        let name = Numbered { part: self.part.clone(), number: stream.number }.to_string();
        EventId { stream: name, after: stream.after }.to_string()
    }

    async fn stream(&self, name: &str) -> Stream {
        if let Some(stream) = self.streams().open.get(name) {
            return stream.clone();
        }
        let after = self.log.tip().await;
        let mut streams = self.streams();
        let number = streams.next;
        streams.next += 1;
        if streams.open.len() >= OPEN {
            let oldest = streams.open.iter().min_by_key(|(_, stream)| stream.number);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                streams.open.remove(&oldest);
            }
        }
        let stream = Stream { number, events: 0, bytes: 0, partial: false, after };
        streams.open.insert(name.to_owned(), stream.clone());
        stream
    }

    /// Stores a message that does not belong to a request. The function returns no event ID, because replicas send the
    /// message from the log.
    async fn keep_common(&self, message: &ServerJsonRpcMessage) -> Result<(), EventStoreError> {
        let mut head = Head::of(COMMON);
        if let ServerJsonRpcMessage::Notification(notification) = message {
            let change = notification.notification.extensions().get::<ChangeId>();
            head.change = change.map(|ChangeId(id)| id.as_ref().to_owned());
        }
        self.log.append(head, serde_json::to_vec(message)?.into()).await?;
        Ok(())
    }

    async fn keep(&self, stream: &mut Stream, message: &ServerJsonRpcMessage) -> Result<(), EventStoreError> {
        let mut head = Head::of(Numbered { part: self.part.clone(), number: stream.number }.to_string());
        let body = serde_json::to_vec(message)?;
        let over = stream.events >= self.limits.events || stream.bytes + body.len() > self.limits.bytes;
        if over && matches!(message, ServerJsonRpcMessage::Notification(_)) {
            // The next stored event contains the information that notifications are missing.
            stream.partial = true;
            return Ok(());
        }
        head.partial = std::mem::take(&mut stream.partial);
        (stream.events, stream.bytes) = (stream.events + 1, stream.bytes + body.len());
        stream.after = self.log.append(head, body.into()).await?;
        Ok(())
    }
}

/// Logs that an event could not be stored. The server still sends an event that could not be stored. The client misses
/// this event only if the stream breaks.
fn failed(error: &EventStoreError) {
    use antiphon_store::Error;
    // The log was deleted, because the session ended while a message was sent. The failed write has no effect, because
    // no client can resume the session.
    if matches!(error.downcast_ref(), Some(Error::LogConflict { found: 0, .. })) {
        tracing::debug!(%error, "a session ended before one of its events was stored");
    } else {
        tracing::warn!(%error, "an event of a session could not be stored");
    }
}

#[async_trait]
impl EventStore for Recorder {
    async fn store_event(&self, name: &str, event: &ServerSseMessage) -> Result<String, EventStoreError> {
        self.log.place.touch();
        let message = event.message.as_deref();
        if name.ends_with(":common") {
            if let Some(message) = message {
                self.keep_common(message).await.unwrap_or_else(|error| failed(&error));
            }
            return Ok(String::new());
        }
        let mut stream = self.stream(name).await;
        if let Some(message) = message {
            self.keep(&mut stream, message).await.unwrap_or_else(|error| failed(&error));
        }
        let id = self.id(&stream);
        let ends =
            matches!(message, Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)));
        if ends {
            self.streams().open.remove(name);
        } else {
            self.streams().open.insert(name.to_owned(), stream);
        }
        Ok(id)
    }

    async fn replay_events_after(&self, _: &str) -> Result<EventStream, EventStoreError> {
        // The session part reads the log itself, because it has access to the session's storage.
        Err("the event store of a session does not replay events".into())
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("part", &self.part).finish_non_exhaustive()
    }
}
