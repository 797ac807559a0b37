use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_nats::jetstream::message::PublishMessage;
use async_trait::async_trait;
use bytes::Bytes;

use super::{
    clock::millis,
    config::config,
    link::{Kept, Kind, Link, written},
    log::Logs,
    recent::Recent,
    timer::Timer,
};
use crate::{
    error::{Error, Result},
    name,
    store::{Cursor, Page, Record, Revision, Store, check_entries, check_value},
};

/// The header with the time to live of a record, in milliseconds.
pub(super) const TTL: &str = "Antiphon-Ttl";
/// The header that marks a record with its own timer.
pub(super) const TIMED: &str = "Antiphon-Timed";
/// The header that marks a message as a deletion marker.
pub(super) const GONE: &str = "Antiphon-Gone";

/// The maximum number of attempts of a write after conflicts. Each conflict of a write means that another writer has
/// made progress.
pub(super) const TRIES: usize = 8;

/// A duration in milliseconds. If a cached deadline is less than this duration away, the deadline is read again from
/// the server.
const DOUBTFUL: u64 = 1_000;

/// A [`Store`] on `JetStream` streams.
#[derive(Clone, Debug)]
pub struct NatsStore {
    pub(super) link: Arc<Link>,
    pub(super) memory: Arc<Memory>,
}

/// Cached data about records and logs.
#[derive(Debug)]
pub(super) struct Memory {
    /// A cache that maps the sequence number of a record to the time at which the record expires.
    deadlines: Recent<Option<u64>>,
    /// A cache that maps the sequence number of a claimed record to the sequence number of its claim.
    pub(super) claims: Recent<u64>,
    logs: Logs,
}

/// The current message under a key.
pub(super) struct Version {
    pub(super) sequence: u64,
    pub(super) deadline: Option<u64>,
    pub(super) gone: bool,
    /// Whether the record has its own timer.
    pub(super) timed: bool,
    pub(super) value: Bytes,
}

impl Version {
    pub(super) fn is_live(&self, now: u64) -> bool {
        !self.gone && self.deadline.is_none_or(|deadline| now < deadline)
    }

    pub(super) fn into_record(self, key: &str) -> Record {
        Record::new(key, self.value, Revision(self.sequence))
    }
}

impl From<Kept> for Version {
    fn from(kept: Kept) -> Self {
        Self {
            sequence: kept.sequence,
            deadline: kept.number(TTL).map(|ttl| kept.time.saturating_add(ttl)),
            gone: kept.headers.get(GONE).is_some(),
            timed: kept.headers.get(TIMED).is_some(),
            value: kept.payload,
        }
    }
}

impl NatsStore {
    pub(super) fn new(link: Arc<Link>) -> Self {
        let memory = Memory { deadlines: Recent::new(), claims: Recent::new(), logs: Logs::new() };
        Self { link, memory: Arc::new(memory) }
    }

    /// Returns the current message under a key. The message can be a record, an expired record, or the marker of a
    /// deletion.
    pub(super) async fn look(&self, key: &str) -> Result<Option<Version>> {
        let found = self.link.last(Kind::Records, &self.link.subject(Kind::Records, key)).await?;
        let found = found.map(Version::from);
        if let Some(version) = &found {
            self.memory.deadlines.note(version.sequence, version.deadline);
        }
        Ok(found)
    }

    /// Writes a record that replaces the message with sequence number `at`. If the record needs an expiry timer,
    /// `write` sends the timer before the record.
    async fn write(&self, key: &str, write: &Write, at: u64, timing: Timing) -> Result<Option<u64>> {
        let mut message = PublishMessage::build().payload(write.value.clone());
        let mut timer = None;
        if let Some(ttl) = write.ttl {
            message = message.header(TTL, ttl.to_string());
            if timing != Timing::Before {
                message = message.header(TIMED, "1");
            }
            if timing == Timing::Now {
                let due = Timer::written(self.link.clock.now() + ttl, key);
                timer = Some(self.link.send(&due.subject(&self.link), due.message()).await?);
            }
        }
        let subject = self.link.subject(Kind::Records, key);
        let sequence = self.link.put_at(&subject, message, at).await?;
        if let Some(timer) = timer {
            // Wait for the timer even if the record was not written, because the next attempt relies on this timer.
            written(timer).await?;
        }
        if let Some(sequence) = sequence {
            let deadline = write.ttl.map(|ttl| self.link.clock.now() + ttl);
            self.memory.deadlines.note(sequence, deadline);
        }
        Ok(sequence)
    }

    /// Returns the deadline of the record at `revision`, if the record can be written.
    async fn deadline(&self, key: &str, revision: Revision) -> Result<Option<u64>> {
        let now = self.link.clock.now();
        match self.memory.deadlines.recall(revision.0) {
            Some(deadline) if deadline.is_none_or(|deadline| deadline > now + DOUBTFUL) => Ok(deadline),
            _ => match self.look(key).await? {
                Some(version) if version.sequence == revision.0 && version.is_live(self.link.clock.now()) => {
                    Ok(version.deadline)
                }
                _ => Err(conflict(key)),
            },
        }
    }
}

/// The source of a record's expiry timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// The timer is set together with the record.
    Now,
    /// An earlier attempt that did not write the record has set the timer.
    Set,
    /// The timer of the previous version is still used. The timer of the previous version is due before the new version
    /// expires, and is then set again.
    Before,
}

struct Write {
    value: Bytes,
    ttl: Option<u64>,
}

#[async_trait]
impl Store for NatsStore {
    async fn now(&self) -> Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(self.link.clock.now()))
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        name::check(key)?;
        let found = self.link.run(self.look(key)).await?;
        let now = self.link.clock.now();
        Ok(found.filter(|version| version.is_live(now)).map(|version| version.into_record(key)))
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let write = Write { value, ttl: ttl.map(millis) };
        self.link
            .run(async {
                let mut at = 0;
                for attempt in 0..TRIES {
                    let timing = if attempt == 0 { Timing::Now } else { Timing::Set };
                    if let Some(sequence) = self.write(key, &write, at, timing).await? {
                        return Ok(Revision(sequence));
                    }
                    at = match self.look(key).await? {
                        None => 0,
                        Some(version) if !version.is_live(self.link.clock.now()) => version.sequence,
                        Some(_) => break,
                    };
                }
                Err(conflict(key))
            })
            .await
    }

    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let write = Write { value, ttl: ttl.map(millis) };
        if revision.0 == 0 {
            return Err(conflict(key));
        }
        self.link
            .run(async {
                let before = self.deadline(key, revision).await?;
                // The timer of the previous version is sufficient if it is due before this version expires, because
                // the timer is then set again.
                let end = write.ttl.map(|ttl| self.link.clock.now() + ttl);
                let timed = end.is_some_and(|end| before.is_none_or(|before| end < before));
                let timing = if timed { Timing::Now } else { Timing::Before };
                let written = self.write(key, &write, revision.0, timing).await?;
                written.map(Revision).ok_or_else(|| conflict(key))
            })
            .await
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        name::check(key)?;
        if revision.0 == 0 {
            return Err(conflict(key));
        }
        self.link
            .run(async {
                // The server removes a message even if another writer replaces the record at the same time. So a
                // conditional write first replaces the record with a deletion marker.
                let subject = self.link.subject(Kind::Records, key);
                let gone = PublishMessage::build().header(GONE, "1");
                let marker =
                    self.link.put_at(&subject, gone, revision.0).await?.ok_or_else(|| conflict(key))?;
                self.link.forget(Kind::Records, marker).await;
                if let Some(claim) = self.memory.claims.recall(revision.0) {
                    self.link.forget(Kind::Claims, claim).await;
                }
                Ok(())
            })
            .await
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        name::check_prefix(prefix)?;
        if let Some(after) = after {
            name::check(&after.0).map_err(|_| foreign_cursor())?;
        }
        self.link.run(self.page(prefix, after.map(|cursor| cursor.0.as_str()), limit)).await
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        name::check_prefix(prefix)?;
        self.link.run(self.claim(prefix, millis(lease), limit)).await
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        name::check(log)?;
        check_entries(&entries)?;
        self.link.run(self.memory.logs.append(&self.link, log, at, &entries)).await
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        name::check(log)?;
        self.link.run(self.memory.logs.read(&self.link, log, from, limit)).await
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        name::check(log)?;
        self.link.run(self.memory.logs.delete(&self.link, log)).await
    }
}

/// Parses the cursor at which a listing continues.
pub(super) fn cursor(after: Option<&Cursor>) -> Result<u64> {
    let parsed = after.map_or(Ok(1), |cursor| cursor.0.parse());
    parsed.map_err(|_| foreign_cursor())
}

fn foreign_cursor() -> Error {
    config("invalid cursor: the cursor is not from a listing of this backend; start the listing again")
}

fn conflict(key: &str) -> Error {
    Error::Conflict { key: key.to_owned() }
}
