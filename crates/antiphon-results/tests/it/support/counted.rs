//! A store that counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use antiphon_store::{Backend, Cursor, Memory, Page, QueueConfig, Record, Result, Revision, Store};
use async_trait::async_trait;
use bytes::Bytes;

/// A store that counts the records that are read, the updates that are made, and those that lose against another.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) reads: AtomicU64,
    pub(crate) made: AtomicU64,
    pub(crate) lost: AtomicU64,
}

impl Counted {
    /// The store of a backend, counted, with a queue and a bus of this process.
    pub(crate) fn backend(backend: Backend, counts: &Arc<Counts>) -> Backend {
        let memory = Memory::default();
        let counted = Self { inner: backend.store, counts: Arc::clone(counts) };
        Backend::new(counted, memory.queue(QueueConfig::default()), memory.bus())
    }
}

#[async_trait]
impl Store for Counted {
    async fn now(&self) -> Result<SystemTime> {
        self.inner.now().await
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key).await
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        self.inner.create(key, value, ttl).await
    }

    async fn update(&self, key: &str, value: Bytes, ttl: Option<Duration>, at: Revision) -> Result<Revision> {
        let updated = self.inner.update(key, value, ttl, at).await;
        let count = if updated.is_ok() { &self.counts.made } else { &self.counts.lost };
        count.fetch_add(1, Ordering::Relaxed);
        updated
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        self.inner.delete(key, revision).await
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        self.inner.list(prefix, after, limit).await
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        self.inner.claim_expired(prefix, lease, limit).await
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        self.inner.append(log, at, entries).await
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        self.inner.read(log, from, limit).await
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        self.inner.delete_log(log).await
    }
}
