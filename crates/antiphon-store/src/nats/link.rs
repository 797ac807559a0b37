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

/// A failure after which nobody can say what was done.
pub(super) fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::backend(NAME, source)
}

/// The streams, in the order of their numbers.
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

    /// Whether a message takes the place of the one before it on its subject.
    pub(super) fn keeps_one(self) -> bool {
        !matches!(self, Self::Logs | Self::Timers)
    }
}

/// A message that is kept.
pub(super) struct Kept {
    pub(super) subject: String,
    pub(super) sequence: u64,
    /// When the server took it, in milliseconds by its clock.
    pub(super) time: u64,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

impl Kept {
    /// A number in a header of ours.
    pub(super) fn number(&self, header: &str) -> Option<u64> {
        self.headers.get(header)?.as_str().parse().ok()
    }
}

/// The connection, and the few things that everything here is made of.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) clock: Clock,
    /// Changes whenever events may have been missed.
    pub(super) interrupted: watch::Receiver<u64>,
    pub(super) streams: Vec<Stream<()>>,
    pub(super) config: NatsConfig,
    /// Whether whoever answers is the leader. With more than one replica, a direct answer may be an old one.
    pub(super) direct: bool,
}

impl Link {
    /// Makes a call when there is a connection, and ends it in time.
    pub(super) async fn run<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.ready().await?;
        timeout(self.config.timeout, call).await.unwrap_or_else(|late| Err(failed(late)))
    }

    /// Waits for a connection. What is sent without one would be kept and done later, when nobody expects it.
    pub(super) async fn ready(&self) -> Result<()> {
        if self.client.connection_state() == State::Connected {
            return Ok(());
        }
        let mut interrupted = self.interrupted.clone();
        let connected = async {
            while self.client.connection_state() != State::Connected {
                // An announcement may be lost, so it is not relied on.
                let _ = timeout(Duration::from_millis(50), interrupted.changed()).await;
            }
        };
        timeout(self.config.connect_timeout, connected).await.map_err(|late| Error::busy(NAME, late))
    }

    /// How long an operation may take.
    pub(super) fn timeout(&self) -> Duration {
        self.config.timeout
    }

    /// How many bytes of payload a message may have, with room for headers.
    pub(super) fn max_payload(&self) -> usize {
        self.client.max_payload().saturating_sub(HEADERS)
    }

    /// The subject of `path` in this space.
    pub(super) fn subject(&self, kind: Kind, path: &str) -> String {
        subject(&self.config, kind.name(), path)
    }

    /// The subject of a topic.
    pub(super) fn topic(&self, topic: &str) -> String {
        subject(&self.config, "bus", topic)
    }

    /// The space, for names of consumers.
    pub(super) fn space(&self) -> &str {
        &self.config.space
    }

    /// What `subject` is the subject of.
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

    /// Writes a message if the last one on its subject is number `at`; 0 is none. `None` if it is another.
    pub(super) async fn put_at(
        &self,
        subject: &str,
        message: PublishMessage,
        at: u64,
    ) -> Result<Option<u64>> {
        let sent = self.send(subject, message.expected_last_subject_sequence(at)).await?;
        written(sent).await
    }

    /// Writes a message, whatever is there.
    pub(super) async fn put(&self, subject: &str, message: PublishMessage) -> Result<u64> {
        let sent = self.send(subject, message).await?;
        written(sent).await?.ok_or_else(|| failed("an unconditional write was refused"))
    }

    /// Sends a message to be kept, without waiting for the answer.
    pub(super) async fn send(&self, subject: &str, message: PublishMessage) -> Result<PublishAckFuture> {
        self.context.send_publish(subject.to_owned(), message).await.map_err(failed)
    }

    /// The last message on a subject, as its leader knows it.
    pub(super) async fn last(&self, kind: Kind, subject: &str) -> Result<Option<Kept>> {
        if self.direct {
            direct(self.stream(kind).direct_get_last_for_subject(subject).await)
        } else {
            raw(self.stream(kind).get_last_raw_message_by_subject(subject).await)
        }
    }

    /// A message by its number.
    pub(super) async fn message(&self, kind: Kind, sequence: u64) -> Result<Option<Kept>> {
        if self.direct {
            direct(self.stream(kind).direct_get(sequence).await)
        } else {
            raw(self.stream(kind).get_raw_message(sequence).await)
        }
    }

    /// The number of the last message of a stream, as its leader knows it.
    pub(super) async fn last_sequence(&self, kind: Kind) -> Result<u64> {
        let info = self.stream(kind).get_info().await.map_err(failed)?;
        Ok(info.state.last_sequence)
    }

    /// Whether a message that was seen elsewhere is still there. `None` if the stream's leader has not come to its
    /// number yet: with replicas, the server that offers a job may have applied it before the leader has.
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
        // It may have come between the two questions.
        Ok(Some(self.message(kind, sequence).await?.is_some()))
    }

    /// Removes a message and waits until it is gone, and stays so. What is only forgotten may be there again when the
    /// server is killed: it notes such a removal a while later, but what it overwrites is overwritten at once.
    pub(super) async fn remove(&self, kind: Kind, sequence: u64) -> Result<()> {
        let subject = format!("$JS.API.STREAM.MSG.DELETE.{}", self.stream_name(kind));
        let answer = self.client.request(subject, removal(sequence, true)).await.map_err(failed)?;
        let done = b"\"success\":true";
        // It is gone, too, if somebody else has removed it.
        if answer.payload.windows(done.len()).any(|part| part == done)
            || self.message(kind, sequence).await?.is_none()
        {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&answer.payload).into_owned()))
    }

    /// Removes a message that means nothing any more. If that fails it stays, and still means nothing.
    pub(super) async fn forget(&self, kind: Kind, sequence: u64) {
        let subject = format!("STREAM.MSG.DELETE.{}", self.stream_name(kind));
        let sent = self.context.send_request(subject, Request::new().payload(removal(sequence, false))).await;
        if let Err(error) = sent {
            tracing::debug!(%error, "a message that means nothing any more was not removed");
        }
    }

    /// Asks the server for the time.
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

/// How long to give a write that is under way to be there for readers.
pub(super) const IN_FLIGHT: Duration = Duration::from_millis(20);

/// Room for headers.
pub(super) const HEADERS: usize = 4 * 1024;

fn subject(config: &NatsConfig, kind: &str, path: &str) -> String {
    let mut subject = format!("{}.v1.{kind}.{}.", config.prefix, config.space);
    subject.extend(path.chars().map(|char| if char == '/' { '.' } else { char }));
    subject
}

pub(super) fn stream_name(config: &NatsConfig, kind: Kind) -> String {
    format!("{}_v1_{}", config.prefix, kind.name())
}

/// The number of a message that was sent, or `None` if its condition did not hold.
pub(super) async fn written(sent: PublishAckFuture) -> Result<Option<u64>> {
    match sent.into_future().await {
        Ok(ack) => Ok(Some(ack.sequence)),
        Err(error) => match error.kind() {
            PublishErrorKind::WrongLastSequence => Ok(None),
            PublishErrorKind::Other if lost_race(&error) => {
                // Whoever reads now may not find what has won yet.
                sleep(IN_FLIGHT).await;
                Ok(None)
            }
            // Not even that nobody listened means that nothing was done: it may be so of a record's timer, and the
            // record itself be there.
            _ => Err(failed(error)),
        },
    }
}

/// Whether a replicated stream refused a write because a rival's is under way. Since NATS 2.11 its leader says so
/// with an error of its own.
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

/// Sends a question nobody answers, so that the server says that nobody does: by then it has dealt with
/// everything this connection sent before.
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
