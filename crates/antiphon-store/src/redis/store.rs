use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;

use super::{
    Shared,
    fate::odd_reply,
    keys::millis,
    reply::{self, Parts},
    script,
};
use crate::{
    error::{Error, Result},
    name,
    store::{Cursor, ENTRY_COST, MAX_VALUE, Page, Record, Revision, Store, check_entries, check_value},
};

/// The maximum number of entries that one append stores, or that one read returns.
const MAX_ENTRIES: usize = MAX_VALUE / ENTRY_COST;

/// The size in bytes after which a reply contains no further items.
pub(super) const ROOM: usize = 1024 * 1024;

/// The time for which the server keeps an expired, unclaimed record.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A [`Store`] in Redis.
#[derive(Clone)]
pub struct RedisStore {
    pub(super) shared: Arc<Shared>,
}

impl RedisStore {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn write(
        &self,
        key: &str,
        value: &Bytes,
        ttl: Option<Duration>,
        at: Option<Revision>,
    ) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let reply = self.shared.link.run(&script::WRITE, self.shared.keys.bucket_of(key), |cmd| {
            cmd.arg(key).arg(&value[..]);
            match at {
                Some(revision) => cmd.arg(revision.0),
                None => cmd.arg(""),
            };
            match ttl {
                Some(ttl) => cmd.arg(millis(ttl)).arg(millis(KEPT)),
                None => cmd.arg(""),
            };
        });
        match reply.await? {
            Value::Nil => Err(Error::Conflict { key: key.to_owned() }),
            value => revision(&value),
        }
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn now(&self) -> Result<SystemTime> {
        // Records expire by the clock of their node. The nodes of a cluster have almost the same time.
        let reply = self.shared.link.run(&script::NOW, self.shared.keys.bucket_of("now"), |_| {});
        Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(reply::count(&reply.await?)?))
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        name::check(key)?;
        let reply = self.shared.link.run(&script::GET, self.shared.keys.bucket_of(key), |cmd| {
            cmd.arg(key);
        });
        match reply.await? {
            Value::Nil => Ok(None),
            value => {
                let mut parts = Parts::of(value)?;
                Ok(Some(Record::new(key, parts.bytes()?, Revision(parts.count()?))))
            }
        }
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        self.write(key, &value, ttl, None).await
    }

    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision> {
        self.write(key, &value, ttl, Some(revision)).await
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        name::check(key)?;
        let reply = self.shared.link.run(&script::DELETE, self.shared.keys.bucket_of(key), |cmd| {
            cmd.arg(key).arg(revision.0);
        });
        if reply::yes(&reply.await?)? { Ok(()) } else { Err(Error::Conflict { key: key.to_owned() }) }
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        name::check_prefix(prefix)?;
        self.pages(prefix, after, limit).await
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        name::check_prefix(prefix)?;
        self.claims(prefix, lease, limit).await
    }

    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        name::check_prefix(prefix)?;
        self.removals(prefix, limit).await
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        name::check(log)?;
        check_entries(&entries)?;
        let reply = self.shared.link.run(&script::APPEND, self.shared.keys.log(log), |cmd| {
            cmd.arg(at);
            for entry in &entries {
                cmd.arg(&entry[..]);
            }
        });
        let mut parts = Parts::of(reply.await?)?;
        match (parts.int()?, parts.count()?) {
            (1, length) => Ok(length),
            (_, found) => Err(Error::LogConflict { log: log.to_owned(), expected: at, found }),
        }
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        name::check(log)?;
        // No log is longer than this number, and Lua represents integers exactly up to this number.
        let from = from.min(1 << 52);
        let reply = self.shared.link.run(&script::READ, self.shared.keys.log(log), |cmd| {
            cmd.arg(from).arg(limit.min(MAX_ENTRIES)).arg(ROOM);
        });
        let mut parts = Parts::of(reply.await?)?;
        (0..parts.left()).map(|_| parts.bytes()).collect()
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        name::check(log)?;
        let mut cmd = redis::cmd("UNLINK");
        cmd.arg(self.shared.keys.log(log));
        self.shared.link.command(&cmd).await.map(drop)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.shared.config).finish()
    }
}

fn revision(value: &Value) -> Result<Revision> {
    let number = reply::int(value)?;
    u64::try_from(number).map(Revision).map_err(|_| odd_reply())
}
