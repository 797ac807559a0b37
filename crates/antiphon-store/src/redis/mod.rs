//! Redis 7 or later: a single server, a primary with Sentinels, or a cluster.
//!
//! Every operation is one Lua script, called by its digest (`EVALSHA`). All keys of one operation are in one hash slot.
//! The part of a key in braces determines the hash slot.
//!
//! - **Records** are distributed over [buckets](RedisConfig::with_buckets) by a hash of the key. The Redis keys of
//!   bucket 7 start with `antiphon:v1:{space.7}`, followed by one of these suffixes:
//!   - `:r:key` is a hash with the value (`v`), the revision (`n`) and the expiry time (`x`) of the record `key`.
//!   - `:i` contains the sorted keys of all records in the bucket, for listings.
//!   - `:x` contains the keys of the records that expire, sorted by the time from which each record can be claimed.
//!     `:x:segment` contains only the keys whose first segment is `segment`.
//!   - `:n` is the newest revision in the bucket.
//! - **Logs** are lists: each log is the list `antiphon:v1:{space.l.log}`.
//! - **Jobs** are in streams: each queue has one hash slot, `antiphon:v1:{space.q.queue}`, with a stream and its
//!   consumer group (`:s`). `lua/queue.lua` describes the other keys of a queue.
//! - **Events** use sharded publish and subscribe on `antiphon:v1:{space.b}:topic`.
//!
//! A script receives the part of the key up to the closing brace, and derives the full keys from this part. All times
//! come from the server's clock.
//!
//! # Connections
//!
//! All handles from one [`Redis`] share the following connections:
//! - One connection carries all operations. In a cluster, each node has its own connection for operations.
//! - One connection listens for events. The connection for events is opened when it is first needed.
//! - Each queue with waiting workers has one connection. The maximum number of connections for waiting workers is
//!   [`RedisConfig::with_max_waiting_queues`].
//!
//! A waiting worker does not need its own connection. Thousands of workers share the connection of their queue. If a
//! connection is lost, this crate opens a new connection. With [Sentinel](RedisConfig::with_sentinel), the new
//! connection leads to the primary that Sentinel names. After a lost connection, subscriptions receive an
//! [`Event::Gap`](crate::Event::Gap).
//!
//! # Durability and failover
//!
//! A server with `appendonly yes` and `appendfsync always` keeps every acknowledged write. With `appendfsync` set to
//! `everysec`, the server can lose the writes of the last second. If a replica takes over, the writes that were not yet
//! replicated are lost. The setting `min-replicas-to-write` makes lost writes less likely, but does not prevent lost
//! writes. After a failover that loses writes, a job can run twice, and two writers at one revision can both have
//! succeeded. Revisions are based on the time, so a lost revision is not used again. If you cannot accept lost writes,
//! use PostgreSQL or NATS.
//!
//! # Server settings
//!
//! - `maxmemory-policy noeviction`: with any other policy, Redis deletes records when its memory is full. With
//!   `noeviction`, a full server rejects writes that add data, and the rejected calls return [`Error::Busy`]. On a full
//!   server, jobs can still be leased and finished, and records can be deleted.
//! - `appendonly yes`: Redis writes every change to a file, so that data survives a restart.
//! - An ACL user needs all commands except the administrative commands on `~antiphon:v1:*` and `&antiphon:v1:*`.
//!
//! # Limits
//!
//! - Redis keeps all data in memory. Each queue and each log is on one node. All events of a space go through one node.
//! - The server drops an unclaimed record one day after it expired.
//! - [`claim_expired`](crate::Store::claim_expired) with a prefix of several segments searches all expired records
//!   under the first segment, a few thousand at a time.

mod bus;
mod config;
mod dial;
mod fate;
mod hub;
mod keys;
mod link;
mod pages;
mod primary;
mod queue;
mod reply;
mod script;
mod store;
mod wait;

use std::{fmt, sync::Arc};

use ::redis::RedisError;

pub use self::{bus::RedisBus, config::RedisConfig, queue::RedisQueue, store::RedisStore};
use self::{dial::Dialer, hub::Hub, keys::Keys, link::Link, reply::Parts, wait::Waits};
use crate::{
    backend::Backend,
    error::{Error, Result},
    queue::QueueConfig,
};

/// A connection to a Redis server or cluster, from which you create a store, a queue and a bus.
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
        let config = config.with_parameters()?;
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

/// Converts the error of the first script. If Redis rejects the script, a retry also fails.
fn refused(error: Error) -> Error {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<RedisError>());
    match cause {
        Some(cause) if cause.code() == Some("NOPERM") || cause.to_string().contains("compiling script") => {
            let problem = format!(
                "Redis rejected a script: {cause}; allow the user to run scripts, and use Redis 7 or later"
            );
            Error::Config { problem }
        }
        _ => error,
    }
}

/// Checks that all processes store the data in the same layout, and warns about server settings that can lose data.
async fn settle(link: &Link, keys: &Keys, config: &RedisConfig) -> Result<()> {
    let reply = link.run(&script::OPEN, keys.meta(), |cmd| {
        cmd.arg(config.buckets);
    });
    let mut parts = Parts::of(reply.await.map_err(refused)?)?;
    let (buckets, cluster) = (parts.text()?, parts.text()? == "1");
    let (eviction, append_only) = (parts.text()?, parts.text()? == "1");
    if buckets != config.buckets.to_string() {
        let space = &config.space;
        let problem = format!(
            "space `{space}` was created with {buckets} buckets, not {}; set `RedisConfig::with_buckets` \
             to {buckets}",
            config.buckets
        );
        return Err(Error::Config { problem });
    }
    if cluster && !config.is_cluster() {
        let problem = "the Redis server is a node of a cluster; set `RedisConfig::with_cluster`".to_owned();
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
