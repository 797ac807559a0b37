//! Redis 7 or later, a single server or a cluster.
//!
//! Every operation is one script, known to the server by its digest, on keys of one hash slot; what is in
//! braces below decides the slot.
//!
//! | what | where |
//! |---|---|
//! | records | spread over [`RedisConfig::buckets`] by a hash of the key: `antiphon:v1:{space.7}` followed by `:r:key` (a hash: value `v`, revision `n`, expiry `x`), `:i` (the bucket's keys in order, to list them), `:x` and `:x:segment` (those that expire by the time at which they can be claimed; of all, and by the first segment of the key), `:n` (the newest revision) |
//! | logs | a list each, `antiphon:v1:{space.l.log}` |
//! | jobs | a slot for each queue, `antiphon:v1:{space.q.queue}`, with a stream and its consumer group (`:s`); what is beside it is told in `lua/queue.lua` |
//! | events | sharded publish and subscribe on `antiphon:v1:{space.b}:topic` |
//!
//! Scripts are given the part up to the brace and derive the rest. Times are those of the server's clock.
//!
//! # Connections
//!
//! All handles made from one [`Redis`] share one connection (in a cluster: one to each node), one that
//! listens, made when it is first needed, and one for each queue on which somebody waits, up to
//! [`RedisConfig::max_waiting_queues`]. A worker that waits is not a connection: thousands of them share
//! that of their queue. All are made again when they are lost; subscriptions then get an
//! [`Event::Gap`](crate::Event::Gap).
//!
//! # When a node dies
//!
//! A server with `appendonly yes` and `appendfsync always` keeps what it has acknowledged; with
//! `appendfsync everysec` it may lose the last second. A replica that takes over lacks what had not reached
//! it, also with `min-replicas-to-write`, which only keeps this short: a job may then be done twice, and of
//! two writers at one revision both may have been told that they won. Revisions are made of the time, so
//! that one which was lost is not given again. Where that is too little, use PostgreSQL or NATS.
//!
//! # What to set
//!
//! - `maxmemory-policy noeviction`: any other throws records away. A full server then refuses what would
//!   add to it, with [`Error::Busy`]; jobs can still be worked off, records deleted.
//! - `appendonly yes`.
//! - An access list needs all commands but the administrative ones on `~antiphon:v1:*` and `&antiphon:v1:*`.
//!
//! # Limits
//!
//! - All data are in memory. A queue and a log are each on one node, and so are all events of a space.
//! - A record that has been expired for a day, and that nobody claims, is dropped by the server.
//! - [`claim_expired`](crate::Store::claim_expired) with a prefix of more than one segment looks at expired
//!   records of the first segment, a few thousand at a time, to find those of the others.

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

/// A Redis server or cluster, connected.
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
    /// Connects.
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

    /// A store on it.
    pub fn store(&self) -> RedisStore {
        RedisStore::new(Arc::clone(&self.shared))
    }

    /// A queue on it.
    pub fn queue(&self, config: QueueConfig) -> RedisQueue {
        RedisQueue::new(Arc::clone(&self.shared), config)
    }

    /// A bus on it.
    pub fn bus(&self) -> RedisBus {
        RedisBus::new(Arc::clone(&self.shared))
    }

    /// All three.
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.shared.config).finish()
    }
}

/// Agrees on the layout with those who were here before, and warns of what would lose data.
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
        tracing::warn!(%eviction, "redis throws data away when its memory is full: set `maxmemory-policy noeviction`");
    }
    if !append_only {
        tracing::warn!("redis does not keep what it is told: set `appendonly yes`");
    }
    Ok(())
}
