use std::{
    fmt,
    future::{Future, IntoFuture},
    time::{Duration, Instant},
};

use async_nats::{
    Client, HeaderMap, Request,
    client::RequestErrorKind,
    connection::State,
    jetstream::{
        Context, ErrorCode,
        context::{PublishAckFuture, PublishErrorKind},
        message::PublishMessage,
        stream::{DirectGetErrorKind, RawMessageErrorKind, Stream},
    },
};
use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{clock::Clock, config::NatsConfig};
use crate::error::{Error, Result};

pub(super) const NAME: &str = "NATS";

/// Creates the error for a failure whose effect is unknown.
pub(super) fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::backend(NAME, source)
}

/// The streams, in the order of their indices in `Link::streams`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Records,
    Logs,
    Timers,
    Claims,
    Jobs,
    Fences,
    Dead,
}

impl Kind {
    pub(super) const ALL: [Self; 7] =
        [Self::Records, Self::Logs, Self::Timers, Self::Claims, Self::Jobs, Self::Fences, Self::Dead];

    pub(super) fn name(self) -> &'static str {
        ["records", "logs", "timers", "claims", "jobs", "fences", "dead"][self as usize]
    }

    /// Returns whether a message in this stream replaces the previous message on its subject.
    pub(super) fn keeps_one(self) -> bool {
        !matches!(self, Self::Logs | Self::Timers)
    }
}

/// A message that a stream contains.
pub(super) struct Kept {
    pub(super) subject: String,
    pub(super) sequence: u64,
    /// The time at which the server stored the message, in milliseconds by the server's clock.
    pub(super) time: u64,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

impl Kept {
    /// Returns the number in the header `header`, which this crate has set.
    pub(super) fn number(&self, header: &str) -> Option<u64> {
        self.headers.get(header)?.as_str().parse().ok()
    }
}

/// The connection, and the basic operations on streams.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) clock: Clock,
    /// A counter that changes whenever events were possibly missed.
    pub(super) interrupted: watch::Receiver<u64>,
    pub(super) streams: Vec<Stream<()>>,
    pub(super) config: NatsConfig,
    /// Whether reads use the direct get of NATS. Direct get is used only with one replica, because with more replicas
    /// a direct read can be stale.
    pub(super) direct: bool,
    /// Whether the server stores long delays of jobs as message schedules, which NATS supports since version 2.12.
    /// Without schedules, the server keeps all delays in memory.
    pub(super) schedules: bool,
}

impl Link {
    /// Waits for a connection, and then makes a call with the configured timeout.
    pub(super) async fn run<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.ready().await?;
        timeout(self.config.timeout, call).await.unwrap_or_else(|late| Err(failed(late)))
    }

    /// Waits until the client is connected. Without a connection, the client would buffer a message, and would send the
    /// message after the call has already failed.
    pub(super) async fn ready(&self) -> Result<()> {
        if self.client.connection_state() == State::Connected {
            return Ok(());
        }
        let mut interrupted = self.interrupted.clone();
        let connected = async {
            while self.client.connection_state() != State::Connected {
                // A notification can be missed, so also check periodically.
                let _ = timeout(Duration::from_millis(50), interrupted.changed()).await;
            }
        };
        timeout(self.config.connect_timeout, connected).await.map_err(|late| Error::busy(NAME, late))
    }

    /// Returns the maximum time of an operation.
    pub(super) fn timeout(&self) -> Duration {
        self.config.timeout
    }

    /// Returns the maximum payload of a message in bytes, without the space for headers.
    pub(super) fn max_payload(&self) -> usize {
        self.client.max_payload().saturating_sub(HEADERS)
    }

    /// Returns the NATS subject for `path` in this space.
    pub(super) fn subject(&self, kind: Kind, path: &str) -> String {
        subject(&self.config, kind.name(), path)
    }

    /// Returns the NATS subject for the events of a topic.
    pub(super) fn topic(&self, topic: &str) -> String {
        subject(&self.config, "bus", topic)
    }

    /// Returns the name of the space, which is a part of the names of consumers.
    pub(super) fn space(&self) -> &str {
        &self.config.space
    }

    /// Returns the path for which [`subject`](Self::subject) returned the text `subject`.
    pub(super) fn path(&self, kind: Kind, subject: &str) -> Option<String> {
        let root = self.subject(kind, "");
        subject.strip_prefix(&root).map(|path| path.replace('.', "/"))
    }

    pub(super) fn stream(&self, kind: Kind) -> &Stream<()> {
        &self.streams[kind as usize]
    }

    pub(super) fn stream_name(&self, kind: Kind) -> String {
        stream_name(&self.config, kind)
    }

    /// Writes a message if the last message on its subject has the sequence number `at`. If `at` is 0, the subject must
    /// not have a message. Returns `None` if the last message has another sequence number.
    pub(super) async fn put_at(
        &self,
        subject: &str,
        message: PublishMessage,
        at: u64,
    ) -> Result<Option<u64>> {
        let sent = self.send(subject, message.expected_last_subject_sequence(at)).await?;
        written(sent).await
    }

    /// Writes a message without a condition.
    pub(super) async fn put(&self, subject: &str, message: PublishMessage) -> Result<u64> {
        let sent = self.send(subject, message).await?;
        written(sent).await?.ok_or_else(|| failed("NATS rejected an unconditional write"))
    }

    /// Sends a message to a stream, without waiting for the response.
    pub(super) async fn send(&self, subject: &str, message: PublishMessage) -> Result<PublishAckFuture> {
        self.context.send_publish(subject.to_owned(), message).await.map_err(failed)
    }

    /// Returns the last message on a subject, according to the leader of the stream.
    pub(super) async fn last(&self, kind: Kind, subject: &str) -> Result<Option<Kept>> {
        if self.direct {
            direct(self.stream(kind).direct_get_last_for_subject(subject).await)
        } else {
            raw(self.stream(kind).get_last_raw_message_by_subject(subject).await)
        }
    }

    /// Returns a message by its sequence number.
    pub(super) async fn message(&self, kind: Kind, sequence: u64) -> Result<Option<Kept>> {
        if self.direct {
            direct(self.stream(kind).direct_get(sequence).await)
        } else {
            raw(self.stream(kind).get_raw_message(sequence).await)
        }
    }

    /// Returns the sequence number of the last message of a stream, according to the leader of the stream.
    pub(super) async fn last_sequence(&self, kind: Kind) -> Result<u64> {
        let info = self.stream(kind).get_info().await.map_err(failed)?;
        Ok(info.state.last_sequence)
    }

    /// Returns whether a message that was delivered still exists.
    ///
    /// Returns `None` if the leader of the stream has not yet applied the message. With replicas, the server that
    /// delivers a job can apply a message before the leader does.
    pub(super) async fn is_kept(&self, kind: Kind, sequence: u64) -> Result<Option<bool>> {
        if self.message(kind, sequence).await?.is_some() {
            return Ok(Some(true));
        }
        if self.direct {
            return Ok(Some(false));
        }
        if self.last_sequence(kind).await? < sequence {
            return Ok(None);
        }
        // The message possibly arrived between the two requests.
        Ok(Some(self.message(kind, sequence).await?.is_some()))
    }

    /// Removes a message, and waits until it is removed durably.
    ///
    /// A single server records a removal by `forget` with a delay. If the server is killed during this delay, the
    /// removed message can reappear. So on a single server, `remove` also overwrites the message, which takes effect
    /// immediately. With replicas, `remove` does not overwrite the message. The log of the replicas already contains
    /// the removal, and overwriting a message in a large stream is slow.
    pub(super) async fn remove(&self, kind: Kind, sequence: u64) -> Result<()> {
        let subject = format!("$JS.API.STREAM.MSG.DELETE.{}", self.stream_name(kind));
        let answer = self.client.request(subject, removal(sequence, self.direct)).await.map_err(failed)?;
        let done = b"\"success\":true";
        // The removal also succeeds if another process has already removed the message.
        if answer.payload.windows(done.len()).any(|part| part == done)
            || self.message(kind, sequence).await?.is_none()
        {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&answer.payload).into_owned()))
    }

    /// Removes an obsolete message. If the removal fails, the obsolete message stays in the stream and is still
    /// ignored.
    pub(super) async fn forget(&self, kind: Kind, sequence: u64) {
        let subject = format!("STREAM.MSG.DELETE.{}", self.stream_name(kind));
        let sent = self.context.send_request(subject, Request::new().payload(removal(sequence, false))).await;
        if let Err(error) = sent {
            tracing::debug!(%error, "an obsolete NATS message could not be removed; it stays in the stream and is ignored");
        }
    }

    /// Reads the server's time.
    pub(super) async fn set_clock(&self) -> Result<()> {
        let mut best = Duration::MAX;
        for _ in 0..4 {
            let asked = Instant::now();
            let consumer = self.consumer(Kind::Claims, self.subject(Kind::Claims, "clock"), 0).await?;
            let took = asked.elapsed();
            if took < best {
                best = took;
                self.clock.set(asked, at_millis(consumer.cached_info().created.unix_timestamp_nanos()));
            }
            self.drop_consumer(Kind::Claims, &consumer.cached_info().name).await;
            if best < Duration::from_millis(2) {
                break;
            }
        }
        Ok(())
    }
}

/// The time to wait until a concurrent write becomes visible to readers.
pub(super) const IN_FLIGHT: Duration = Duration::from_millis(20);

/// The number of bytes of a message that are reserved for headers.
pub(super) const HEADERS: usize = 4 * 1024;

fn subject(config: &NatsConfig, kind: &str, path: &str) -> String {
    let mut subject = format!("{}.v1.{kind}.{}.", config.prefix, config.space);
    subject.extend(path.chars().map(|char| if char == '/' { '.' } else { char }));
    subject
}

pub(super) fn stream_name(config: &NatsConfig, kind: Kind) -> String {
    format!("{}_v1_{}", config.prefix, kind.name())
}

/// Returns the sequence number of a sent message, or `None` if the condition of the write was not met.
pub(super) async fn written(sent: PublishAckFuture) -> Result<Option<u64>> {
    match sent.into_future().await {
        Ok(ack) => Ok(Some(ack.sequence)),
        Err(error) => match error.kind() {
            PublishErrorKind::WrongLastSequence => Ok(None),
            PublishErrorKind::Other if lost_race(&error) => {
                // The competing write is possibly not visible to readers yet.
                sleep(IN_FLIGHT).await;
                Ok(None)
            }
            // Even the error `NoResponders` does not mean that nothing was written. The error can be about the timer
            // of a record, and the record can still be written.
            _ => Err(failed(error)),
        },
    }
}

/// Returns whether a replicated stream rejected a write because a competing write is in flight. Since NATS 2.11, the
/// leader rejects competing writes with a separate error code.
fn lost_race(error: &(dyn std::error::Error + 'static)) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    source.is_some_and(|error| error.error_code() == ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
}

fn removal(sequence: u64, overwrite: bool) -> Bytes {
    format!("{{\"seq\":{sequence},\"no_erase\":{}}}", !overwrite).into()
}

type Message = async_nats::jetstream::message::StreamMessage;

fn direct(found: Result<Message, async_nats::jetstream::stream::DirectGetError>) -> Result<Option<Kept>> {
    match found {
        Ok(message) => Ok(Some(kept(message))),
        Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn raw(found: Result<Message, async_nats::jetstream::stream::RawMessageError>) -> Result<Option<Kept>> {
    match found {
        Ok(message) => Ok(Some(kept(message))),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn kept(message: Message) -> Kept {
    Kept {
        time: at_millis(message.time.unix_timestamp_nanos()),
        subject: message.subject.into_string(),
        sequence: message.sequence,
        headers: message.headers,
        payload: message.payload,
    }
}

pub(super) fn at_millis(nanos: i128) -> u64 {
    u64::try_from(nanos / 1_000_000).unwrap_or_default()
}

/// Sends a request to a subject without a responder. When the server rejects the request, the server has processed all
/// earlier messages of this connection.
pub(super) async fn round_trip(link: &Link) -> Result<()> {
    match link.client.request(subject(&link.config, "nobody", "-"), Bytes::new()).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("config", &self.config).finish_non_exhaustive()
    }
}
