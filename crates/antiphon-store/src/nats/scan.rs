use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use futures_util::StreamExt as _;

use super::link::{Kept, Kind, Link, at_millis, failed};
use crate::error::{Error, Result};

/// The most messages that are read at once.
pub(super) const PAGE: usize = 512;

/// The most bytes that are read at once: more than the largest message, and far less than what makes the
/// server think that we are too slow.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How long to wait for messages that may not be there any more.
const SCAN_TIMEOUT: Duration = Duration::from_millis(200);

/// How often a reading is begun that the server ends before its first message.
const TRIES: usize = 5;

/// Some messages, in the order of their numbers.
pub(super) struct Scan {
    pub(super) messages: Vec<Kept>,
    /// Whether there may be more.
    pub(super) more: bool,
}

impl Scan {
    /// Where to go on.
    pub(super) fn next(&self, from: u64) -> u64 {
        self.messages.last().map_or(from, |message| message.sequence + 1)
    }
}

impl Link {
    /// Reads messages whose subjects match `filter`, from number `from` on.
    pub(super) async fn scan(&self, kind: Kind, filter: String, from: u64, limit: usize) -> Result<Scan> {
        for _ in 0..TRIES {
            if let Some(scan) = self.try_scan(kind, filter.clone(), from, limit).await? {
                return Ok(scan);
            }
        }
        Err(Error::busy(super::link::NAME, "the server ended a reading before it had begun"))
    }

    /// As [`scan`](Self::scan); `None` if the server was too slow to send the first message.
    async fn try_scan(&self, kind: Kind, filter: String, from: u64, limit: usize) -> Result<Option<Scan>> {
        let batch = limit.min(PAGE);
        let consumer = self.consumer(kind, filter, from).await?;
        if consumer.cached_info().num_pending == 0 {
            self.drop_consumer(kind, &consumer.cached_info().name).await;
            return Ok(Some(Scan { messages: Vec::new(), more: false }));
        }
        // The server answers at once, unless all there was has gone since: then it would wait for more.
        let pulled =
            consumer.fetch().max_messages(batch).max_bytes(PAGE_BYTES).expires(SCAN_TIMEOUT).messages().await;
        let mut pulled = pulled.map_err(failed)?;
        let mut messages: Vec<Kept> = Vec::new();
        let mut left = 0;
        let mut cut = false;
        while let Some(message) = pulled.next().await {
            // The next one would be more bytes than were asked for.
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

    /// Counts the messages whose subjects match `filter`, without reading them.
    pub(super) async fn how_many(&self, kind: Kind, filter: String) -> Result<u64> {
        let consumer = self.consumer(kind, filter, 0).await?;
        let count = consumer.cached_info().num_pending;
        self.drop_consumer(kind, &consumer.cached_info().name).await;
        Ok(count)
    }

    /// A reader of its own, which the server drops if we do not.
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
        // It goes by itself if this does not arrive.
        let _ = self.context.send_request(subject, async_nats::Request::new()).await;
    }
}
