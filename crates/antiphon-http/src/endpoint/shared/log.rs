//! The log of a session, which contains all messages that all replicas have sent in all streams of the session.

use std::{collections::VecDeque, fmt, str::FromStr, sync::Arc};

use antiphon_store::{Error, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::record::SessionStorage;
use antiphon_store::{PIECE, Pieces};

/// The maximum number of entries in a segment of the log. The log keeps the last two segments. Older segments are
/// deleted.
const SEGMENT_EVENTS: u64 = 4096;
/// The maximum size of a segment of the log, in bytes.
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// An upper limit for the number of a segment. No session has this many segments.
const SEGMENTS: u64 = u32::MAX as u64;

/// The name of the stream of messages that do not belong to a request. Clients listen to the common stream with GET.
pub(super) const COMMON: &str = "all";

/// A position in a log, from which a reader continues to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) next: u64,
}

/// The ID of an event: the name of the event's stream, and the position in the log directly after the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    /// The name of the event's stream. For the common stream, the name consists of `all-` and the ID of the replica at
    /// which the client listened.
    pub(super) stream: String,
    pub(super) after: Position,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.stream, self.after.segment, self.after.next)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut pieces = text.rsplitn(3, '.');
        let mut number = || pieces.next().and_then(|piece| piece.parse().ok()).ok_or(());
        let (next, segment): (u64, u64) = (number()?, number()?);
        let stream = pieces.next().ok_or(())?.to_owned();
        // The ID comes from a client, so the ID can contain a position that no log has.
        if next > SEGMENT_EVENTS || segment > SEGMENTS {
            return Err(());
        }
        Ok(Self { stream, after: Position { segment, next } })
    }
}

/// The metadata of a log entry. A log entry contains its metadata, followed by the message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) stream: String,
    /// The number of bytes in the segment up to and including this entry.
    total: u64,
    /// The ID of the change that this entry announces to the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<String>,
    /// The stream that sends the messages of the common stream from this entry on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) listener: Option<String>,
    /// Whether the log lacks notifications that the server sent before this entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// The location of the message, if the message is too large for the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pieces: Option<Pieces>,
}

impl Head {
    pub(super) fn of(stream: impl Into<String>) -> Self {
        Self { stream: stream.into(), ..Self::default() }
    }

    /// Returns whether this entry is the last entry of its segment. `next` is the number of the next entry.
    pub(super) fn is_last(&self, next: u64) -> bool {
        next >= SEGMENT_EVENTS || self.total >= SEGMENT_BYTES
    }
}

/// Decodes a log entry into its metadata and its message.
pub(super) fn decode(entry: &Bytes) -> Option<(Head, Bytes)> {
    let end = entry.iter().position(|&byte| byte == b'\n')?;
    Some((serde_json::from_slice(&entry[..end]).ok()?, entry.slice(end + 1..)))
}

fn encode(head: &Head, body: &[u8]) -> Bytes {
    let mut entry = serde_json::to_vec(head).expect("a head is JSON");
    entry.push(b'\n');
    entry.extend_from_slice(body);
    entry.into()
}

/// The log of a session, as one replica reads and writes it.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) place: Arc<SessionStorage>,
    tip: Mutex<Tip>,
}

/// The end of the log, as far as this replica has read. If this replica cannot append an entry because of a conflict,
/// other replicas have added entries.
#[derive(Debug, Default)]
struct Tip {
    at: Position,
    total: u64,
    full: bool,
    /// The IDs of the most recent changes that the log contains.
    changes: VecDeque<String>,
}

/// The number of change IDs that a replica remembers. If a duplicate of an older change arrives, the replica writes
/// the change again.
const CHANGES: usize = 64;

impl Tip {
    fn passed(&mut self, head: Head) {
        self.at.next += 1;
        self.total = head.total;
        self.full = head.is_last(self.at.next);
        if let Some(change) = head.change {
            if self.changes.len() == CHANGES {
                self.changes.pop_front();
            }
            self.changes.push_back(change);
        }
    }
}

impl Log {
    pub(super) fn new(place: Arc<SessionStorage>, segment: u64) -> Self {
        let at = Position { segment, next: 0 };
        Self { place, tip: Mutex::new(Tip { at, ..Tip::default() }) }
    }

    /// Returns the end of the log, as far as this replica has read. All future entries are after the returned
    /// position.
    pub(super) async fn tip(&self) -> Position {
        self.tip.lock().await.at
    }

    /// Adds an entry to the log, and returns the position after the entry. A change that the log already contains is
    /// not added again.
    pub(super) async fn append(&self, mut head: Head, body: Bytes) -> Result<Position> {
        let store = &*self.place.replicas.store;
        let mut inline = body;
        let size = inline.len() as u64;
        if inline.len() > PIECE {
            head.pieces = Some(Pieces::put(store, &inline, self.place.ttl).await?);
            inline = Bytes::new();
        }
        let mut tip = self.tip.lock().await;
        let begun = loop {
            if head.change.as_ref().is_some_and(|change| tip.changes.contains(change)) {
                return Ok(tip.at);
            }
            if tip.full {
                tip.at = Position { segment: tip.at.segment + 1, next: 0 };
                (tip.total, tip.full) = (0, false);
            }
            head.total = tip.total + size + 64;
            let log = self.place.segment(tip.at.segment);
            match store.append(&log, tip.at.next, vec![encode(&head, &inline)]).await {
                Ok(_) => break tip.at,
                Err(Error::LogConflict { found, .. }) if found > tip.at.next => {
                    self.catch_up(&mut tip, &log, found).await?;
                }
                // The append also fails with a conflict if another replica has deleted the log and the session.
                Err(error) => return Err(error),
            }
        };
        tip.passed(head);
        let at = tip.at;
        drop(tip);
        self.tell_of_more();
        if begun.next == 0 && begun.segment > 0 {
            self.drop_oldest(begun.segment);
        }
        Ok(at)
    }

    /// Reads the log entries that other replicas have written.
    async fn catch_up(&self, tip: &mut Tip, log: &str, found: u64) -> Result<()> {
        // The replica skips older entries, because older entries cannot announce the same change.
        tip.at.next = tip.at.next.max(found.saturating_sub(CHANGES as u64));
        while tip.at.next < found {
            let entries = self.place.replicas.store.read(log, tip.at.next, CHANGES).await?;
            if entries.is_empty() {
                return Err(Error::LogConflict { log: log.to_owned(), expected: found, found: tip.at.next });
            }
            for entry in &entries {
                tip.passed(decode(entry).map(|(head, _)| head).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Notifies other replicas, which read the log, that the log has new entries.
    fn tell_of_more(&self) {
        let place = Arc::clone(&self.place);
        tokio::spawn(async move {
            if let Err(error) = place.replicas.bus.publish(&place.topic(), Bytes::new()).await {
                tracing::debug!(%error, "new events of a session could not be announced to the other replicas; their streams continue later");
            }
        });
    }

    /// Deletes old segments of the log. Only the segment `begun` and the segment before `begun` stay.
    fn drop_oldest(&self, begun: u64) {
        let place = Arc::clone(&self.place);
        tokio::spawn(async move {
            let dropped = async {
                place.change(|record| record.segment = record.segment.max(begun)).await?;
                match begun.checked_sub(2) {
                    Some(oldest) => place.replicas.store.delete_log(&place.segment(oldest)).await,
                    None => Ok(()),
                }
            };
            if let Err(error) = dropped.await {
                tracing::warn!(%error, "old events of a session could not be deleted");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_names_the_stream_and_the_place() {
        let id = EventId { stream: "abc-1-2".into(), after: Position { segment: 3, next: 14 } };
        assert_eq!(id.to_string(), "abc-1-2.3.14");
        assert_eq!(id.to_string().parse(), Ok(id));
        for other in
            ["", "0", "0/1", "a.b.c", "a.1", "1.2", "a.18446744073709551615.0", "a.0.18446744073709551615"]
        {
            assert_eq!(other.parse::<EventId>(), Err(()), "{other}");
        }
    }
}
