//! Redis 7 or later, a single server or a cluster.
//!
//! Every operation is one script on keys of one hash slot. The server identifies the script by its digest. In the
//! table, the part in braces decides the slot.
//!
//! | data | keys |
//! |---|---|
//! | records | spread over [`RedisConfig::buckets`] by a hash of the key: `antiphon:v1:{space.7}` followed by `:r:key` (a hash: value `v`, revision `n`, expiry `x`), `:i` (the sorted keys of the bucket, for listings), `:x` and `:x:segment` (the keys that expire, by the time from which they can be claimed: all of them, and by the first segment of the key), `:n` (the newest revision) |
//! | logs | one list for each log, `antiphon:v1:{space.l.log}` |
//! | jobs | one slot for each queue, `antiphon:v1:{space.q.queue}`, with a stream and its consumer group (`:s`). `lua/queue.lua` describes the other keys |
//! | events | sharded publish and subscribe on `antiphon:v1:{space.b}:topic` |
//!
//! Scripts receive the key up to the closing brace and derive the others from it. All times come from the server's
//! clock.
//!
//! # Connections
//!
//! All handles from one [`Redis`] share these connections:
//! - One connection for operations. In a cluster, one to each node.
//! - One that listens for events. It is opened when it is first needed.
//! - One for each queue with waiting workers, up to [`RedisConfig::max_waiting_queues`].
//!
//! A waiting worker does not need its own connection. Thousands of workers share the connection of their queue.
//! Lost connections are opened again. Subscriptions then receive an [`Event::Gap`](crate::Event::Gap).
//!
//! # Durability and failover
//!
//! A server with `appendonly yes` and `appendfsync always` keeps every acknowledged write. With `appendfsync` set
//! to `everysec` it can lose the last second. A replica that takes over does not have the writes that had not
//! reached it. `min-replicas-to-write` shortens this window but does not close it. After such a failover a job can
//! run twice, and two writers at one revision can both have succeeded. Revisions are based on the time, so a lost
//! revision is not used again. If this is not acceptable, use PostgreSQL or NATS.
//!
//! # Server settings
//!
//! - `maxmemory-policy noeviction`: any other policy deletes records. A full server then rejects writes that add
//!   data, with [`Error::Busy`]. Jobs can still be leased and finished, and records can be deleted.
//! - `appendonly yes`.
//! - An ACL user needs all commands except the administrative ones on `~antiphon:v1:*` and `&antiphon:v1:*`.
//!
//! # Limits
//!
//! - All data is in memory. Each queue and each log is on one node, and so are all events of a space.
//! - The server drops an unclaimed record one day after it expired.
//! - [`claim_expired`](crate::Store::claim_expired) with a prefix of more than one segment searches all expired
//!   records of the first segment, a few thousand at a time.

mod bus;
mod config;
mod dial;
mod fate;
mod hub;
mod keys;
mod link;
mod pages;
mod queue;
mod reply;
mod script;
mod store;
mod wait;

use std::{fmt, sync::Arc};

pub use self::{bus::RedisBus, config::RedisConfig, queue::RedisQueue, store::RedisStore};
use self::{dial::Dialer, hub::Hub, keys::Keys, link::Link, reply::Parts, wait::Waits};
use crate::{
    backend::Backend,
    error::{Error, Result},
    queue::QueueConfig,
};

/// A connected Redis server or cluster.
#[derive(Clone)]
pub struct Redis {
    shared: Arc<Shared>,
}

struct Shared {
    config: RedisConfig,
    keys: Keys,
    link: Link,
    hub: Hub,
    waits: Waits,
}

impl Redis {
    /// Connects to the server or cluster.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        config.check()?;
        let dialer = Dialer::new(&config)?;
        let link = Link::connect(&config, &dialer).await?;
        let keys = Keys::new(&config.space, config.buckets);
        settle(&link, &keys, &config).await?;
        let hub = Hub::new(dialer.clone(), keys.topics(), config.timeout);
        let waits = Waits::new(dialer, link.clone(), config.max_waiting_queues);
        Ok(Self { shared: Arc::new(Shared { config, keys, link, hub, waits }) })
    }

    /// Returns the store for records and logs.
    pub fn store(&self) -> RedisStore {
        RedisStore::new(Arc::clone(&self.shared))
    }

    /// Returns the queue for jobs.
    pub fn queue(&self, config: QueueConfig) -> RedisQueue {
        RedisQueue::new(Arc::clone(&self.shared), config)
    }

    /// Returns the bus for events.
    pub fn bus(&self) -> RedisBus {
        RedisBus::new(Arc::clone(&self.shared))
    }

    /// Returns the store, the queue and the bus as a [`Backend`].
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.shared.config).finish()
    }
}

/// Checks that all processes use the same layout, and warns about server settings that can lose data.
async fn settle(link: &Link, keys: &Keys, config: &RedisConfig) -> Result<()> {
    let reply = link.run(&script::OPEN, keys.meta(), |cmd| {
        cmd.arg(config.buckets);
    });
    let mut parts = Parts::of(reply.await?)?;
    let (buckets, cluster) = (parts.text()?, parts.text()? == "1");
    let (eviction, append_only) = (parts.text()?, parts.text()? == "1");
    if buckets != config.buckets.to_string() {
        let space = &config.space;
        let problem =
            format!("space `{space}` has {buckets} buckets, not {}: set `buckets` to that", config.buckets);
        return Err(Error::Config { problem });
    }
    if cluster && !config.is_cluster() {
        let problem = "the server is a node of a cluster: set `cluster`".to_owned();
        return Err(Error::Config { problem });
    }
    if eviction != "noeviction" {
        tracing::warn!(%eviction, "Redis can evict records when its memory is full; set `maxmemory-policy noeviction`");
    }
    if !append_only {
        tracing::warn!("Redis loses records at a restart; set `appendonly yes`");
    }
    Ok(())
}
