use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use futures_util::StreamExt as _;

use super::link::{Kept, Kind, Link, at_millis, failed};
use crate::error::{Error, Result};

/// The maximum number of messages that are read at once.
pub(super) const PAGE: usize = 512;

/// The maximum number of bytes that are read at once. The limit is larger than the largest message, but so small that
/// the server does not treat this client as a slow consumer.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The maximum time to wait for messages that possibly do not exist any more.
const SCAN_TIMEOUT: Duration = Duration::from_millis(200);

/// The number of attempts if the server ends a read before its first message.
const TRIES: usize = 5;

/// The messages that one scan has read, in the order of their sequence numbers.
pub(super) struct Scan {
    pub(super) messages: Vec<Kept>,
    /// Whether the stream possibly contains further messages for this scan.
    pub(super) more: bool,
}

impl Scan {
    /// Returns the sequence number at which the next scan starts.
    pub(super) fn next(&self, from: u64) -> u64 {
        self.messages.last().map_or(from, |message| message.sequence + 1)
    }
}

impl Link {
    /// Reads messages whose subjects match `filter`, starting at sequence number `from`.
    pub(super) async fn scan(&self, kind: Kind, filter: String, from: u64, limit: usize) -> Result<Scan> {
        for _ in 0..TRIES {
            if let Some(scan) = self.try_scan(kind, filter.clone(), from, limit).await? {
                return Ok(scan);
            }
        }
        Err(Error::busy(super::link::NAME, "the NATS server sent no message within the time limit of a read"))
    }

    /// Makes one attempt of [`scan`](Self::scan). Returns `None` if the server was too slow to send the first
    /// message.
    async fn try_scan(&self, kind: Kind, filter: String, from: u64, limit: usize) -> Result<Option<Scan>> {
        let batch = limit.min(PAGE);
        let consumer = self.consumer(kind, filter, from).await?;
        if consumer.cached_info().num_pending == 0 {
            self.drop_consumer(kind, &consumer.cached_info().name).await;
            return Ok(Some(Scan { messages: Vec::new(), more: false }));
        }
        // The server responds immediately. If all messages were removed meanwhile, the server waits until the timeout.
        let pulled =
            consumer.fetch().max_messages(batch).max_bytes(PAGE_BYTES).expires(SCAN_TIMEOUT).messages().await;
        let mut pulled = pulled.map_err(failed)?;
        let mut messages: Vec<Kept> = Vec::new();
        let mut left = 0;
        let mut cut = false;
        while let Some(message) = pulled.next().await {
            // The server ended the response, because the next message would exceed the requested number of bytes.
            let Ok(message) = message else {
                cut = true;
                break;
            };
            let info = message.info().map_err(failed)?;
            left = info.pending;
            messages.push(Kept {
                sequence: info.stream_sequence,
                time: at_millis(info.published.unix_timestamp_nanos()),
                subject: message.subject.to_string(),
                headers: message.headers.clone().unwrap_or_default(),
                payload: message.payload.clone(),
            });
        }
        self.drop_consumer(kind, &consumer.cached_info().name).await;
        if cut && messages.is_empty() {
            return Ok(None);
        }
        Ok(Some(Scan { more: cut || messages.len() == batch || left > 0, messages }))
    }

    /// Counts the messages whose subjects match `filter`, without reading the messages.
    pub(super) async fn how_many(&self, kind: Kind, filter: String) -> Result<u64> {
        let consumer = self.consumer(kind, filter, 0).await?;
        let count = consumer.cached_info().num_pending;
        self.drop_consumer(kind, &consumer.cached_info().name).await;
        Ok(count)
    }

    /// Creates a temporary consumer. If this client does not remove the consumer, the server removes the consumer.
    pub(super) async fn consumer(
        &self,
        kind: Kind,
        filter: String,
        from: u64,
    ) -> Result<Consumer<pull::Config>> {
        let config = pull::Config {
            deliver_policy: match from {
                0 | 1 => DeliverPolicy::All,
                start_sequence => DeliverPolicy::ByStartSequence { start_sequence },
            },
            ack_policy: AckPolicy::None,
            filter_subject: filter,
            memory_storage: true,
            inactive_threshold: Duration::from_secs(30),
            ..pull::Config::default()
        };
        self.stream(kind).create_consumer(config).await.map_err(failed)
    }

    pub(super) async fn drop_consumer(&self, kind: Kind, name: &str) {
        let subject = format!("CONSUMER.DELETE.{}.{name}", self.stream_name(kind));
        // If this request is lost, the server removes the consumer later.
        let _ = self.context.send_request(subject, async_nats::Request::new()).await;
    }
}
