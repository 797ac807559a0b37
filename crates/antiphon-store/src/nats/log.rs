use async_nats::jetstream::message::PublishMessage;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::time::sleep;

use super::{
    link::{IN_FLIGHT, Kept, Kind, Link, failed},
    recent::Recent,
    scan::PAGE,
    store::{GONE, TRIES},
};
use crate::{
    error::{Error, Result},
    store::MAX_VALUE,
};

/// The logs of a store. Each log is one subject, and each append is one message.
#[derive(Debug)]
pub(super) struct Logs {
    ends: Recent<End>,
    /// A cache that maps a log entry to the sequence number of the message that contains the entry, or of an earlier
    /// message.
    places: Recent<u64>,
}

/// The end of a log.
#[derive(Clone, Copy, Debug)]
struct End {
    sequence: u64,
    length: u64,
}

/// The contents of one append.
struct Append {
    sequence: u64,
    first: u64,
    entries: Vec<Bytes>,
    gone: bool,
}

impl Append {
    fn end(&self) -> End {
        let length = if self.gone { 0 } else { self.first + self.entries.len() as u64 };
        End { sequence: self.sequence, length }
    }
}

impl Logs {
    pub(super) fn new() -> Self {
        Self { ends: Recent::new(), places: Recent::new() }
    }

    pub(super) async fn append(&self, link: &Link, log: &str, at: u64, entries: &[Bytes]) -> Result<u64> {
        let frame = frame(at, entries);
        if frame.len() > link.max_payload() {
            return Err(Error::TooLarge { place: "an append", bytes: frame.len(), limit: MAX_VALUE });
        }
        let subject = link.subject(Kind::Logs, log);
        let mut end = self.ends.recall(log).filter(|end| end.length == at && at > 0);
        if end.is_none() && (at > 0 || entries.is_empty()) {
            end = Some(self.end(link, log, &subject).await?);
        }
        let mut tries = 0;
        while tries < TRIES {
            let found = end.unwrap_or(End { sequence: 0, length: 0 });
            if found.length != at {
                return Err(Error::LogConflict { log: log.to_owned(), expected: at, found: found.length });
            }
            if entries.is_empty() {
                return Ok(at);
            }
            let message = PublishMessage::build().payload(frame.clone());
            if let Some(sequence) = link.put_at(&subject, message, found.sequence).await? {
                let length = at + entries.len() as u64;
                self.ends.note(log, End { sequence, length });
                return Ok(length);
            }
            let now = self.end(link, log, &subject).await?;
            if now.sequence == found.sequence {
                // A competing write has succeeded and is not visible to readers yet.
                sleep(IN_FLIGHT).await;
            } else {
                tries += 1;
            }
            end = Some(now);
        }
        Err(Error::busy(super::link::NAME, format!("too many writers append to log `{log}` concurrently")))
    }

    async fn end(&self, link: &Link, log: &str, subject: &str) -> Result<End> {
        let last = link.last(Kind::Logs, subject).await?.map(read).transpose()?;
        let end = last.map_or(End { sequence: 0, length: 0 }, |append| append.end());
        self.ends.note(log, end);
        Ok(end)
    }

    pub(super) async fn read(&self, link: &Link, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        let subject = link.subject(Kind::Logs, log);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let Some(last) = link.last(Kind::Logs, &subject).await?.map(read).transpose()? else {
            return Ok(Vec::new());
        };
        let end = last.end();
        self.ends.note(log, end);
        if from >= end.length {
            return Ok(Vec::new());
        }
        // If a caller follows a log or reads a short log, the last append often contains all requested entries.
        if last.first <= from {
            return Ok(part(last, from, limit).collect());
        }
        let mut entries: Vec<Bytes> = Vec::new();
        // If the position of the entry is not cached, the log must be read from its start.
        let (mut place, page) = self.places.recall((log, from)).map_or((1, PAGE), |place| (place, limit));
        let mut next = from;
        while entries.is_empty() {
            let scan = link.scan(Kind::Logs, subject.clone(), place, page).await?;
            place = scan.next(place);
            for kept in scan.messages {
                let append = read(kept)?;
                let Append { sequence, first, .. } = append;
                let end = append.end();
                if append.gone || end.length <= next {
                    continue;
                }
                if first > next {
                    // The log is being deleted.
                    return Ok(entries);
                }
                entries.extend(part(append, next, limit - entries.len()));
                next = from + entries.len() as u64;
                if entries.len() == limit {
                    place = if next < end.length { sequence } else { sequence + 1 };
                    break;
                }
            }
            if !scan.more {
                break;
            }
        }
        self.places.note((log, next), place);
        Ok(entries)
    }

    pub(super) async fn delete(&self, link: &Link, log: &str) -> Result<()> {
        let subject = link.subject(Kind::Logs, log);
        if link.last(Kind::Logs, &subject).await?.is_none() {
            return Ok(());
        }
        // An append that the server stores before this marker is deleted with the log. An append that the server
        // stores after this marker starts a new log.
        let end = link.put(&subject, PublishMessage::build().header(GONE, "1")).await?;
        let purged = link.stream(Kind::Logs).purge().filter(subject).sequence(end + 1).await;
        purged.map_err(failed)?;
        Ok(())
    }
}

fn part(append: Append, from: u64, limit: usize) -> impl Iterator<Item = Bytes> {
    let skipped = usize::try_from(from.saturating_sub(append.first)).unwrap_or(usize::MAX);
    append.entries.into_iter().skip(skipped).take(limit)
}

/// Encodes an append: the index of the first entry, then each entry with its length.
fn frame(first: u64, entries: &[Bytes]) -> Bytes {
    let length = 8 + entries.iter().map(|entry| 4 + entry.len()).sum::<usize>();
    let mut frame = BytesMut::with_capacity(length);
    frame.put_u64(first);
    for entry in entries {
        frame.put_u32(u32::try_from(entry.len()).expect("the size of an append was checked"));
        frame.put_slice(entry);
    }
    frame.freeze()
}

fn read(kept: Kept) -> Result<Append> {
    let gone = kept.headers.get(GONE).is_some();
    let mut append = Append { sequence: kept.sequence, first: 0, entries: Vec::new(), gone };
    let mut frame = kept.payload;
    if !gone {
        append.first = frame.try_get_u64().map_err(failed)?;
    }
    while frame.has_remaining() {
        let length = usize::try_from(frame.try_get_u32().map_err(failed)?).map_err(failed)?;
        if length > frame.len() {
            return Err(failed("a message in the NATS stream of logs is truncated"));
        }
        append.entries.push(frame.split_to(length));
    }
    Ok(append)
}
