//! Several servers that act as one, and survive the loss of one of them.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::backend::Backend;
use super::engine::Engine;
use super::host::Stop;
use crate::http::Message;
use crate::mcp;

mod nats;
mod node;
mod patroni;
mod pgbouncer;
mod postgres;
mod redis;
mod redis_cluster;
mod switch;

/// How long servers may take to agree on a new leader, or to copy what a server missed.
const PATIENCE: Duration = Duration::from_mins(2);

/// The topologies that run on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Topology {
    /// A PostgreSQL primary with a synchronous standby, behind a proxy that leads to the primary.
    PostgresStandby,
    /// Patroni with two PostgreSQL servers, etcd and `HAProxy`.
    PostgresPatroni,
    /// PostgreSQL behind `PgBouncer`.
    PostgresPgbouncer,
    /// A Redis primary with a replica, and three Sentinels.
    RedisSentinel,
    /// Three Redis primaries, each with a replica, as one cluster.
    RedisCluster,
    /// Three NATS servers, each with a copy of every stream.
    NatsCluster,
}

/// Running servers of a topology, which end with this.
pub(super) trait Servers: Debug + Send {
    /// The URL that clients connect with.
    fn url(&self) -> String;

    /// Stops the server that accepts writes, and waits until another server accepts them.
    fn fail(&mut self, stop: Stop) -> Result<()>;

    /// Starts the stopped server again, and waits until it has a copy of everything.
    fn heal(&mut self) -> Result<()>;
}

impl Topology {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::PostgresStandby,
        Self::PostgresPatroni,
        Self::PostgresPgbouncer,
        Self::RedisSentinel,
        Self::RedisCluster,
        Self::NatsCluster,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PostgresStandby => "postgres-standby",
            Self::PostgresPatroni => "postgres-patroni",
            Self::PostgresPgbouncer => "postgres-pgbouncer",
            Self::RedisSentinel => "redis-sentinel",
            Self::RedisCluster => "redis-cluster",
            Self::NatsCluster => "nats-cluster",
        }
    }

    /// The engine of its servers.
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::PostgresStandby | Self::PostgresPatroni | Self::PostgresPgbouncer => Backend::Postgres,
            Self::RedisSentinel | Self::RedisCluster => Backend::Redis,
            Self::NatsCluster => Backend::Nats,
        }
    }

    /// The contract tests that apply to its servers: their names begin with `.0`, and `.1` tells them the URL.
    pub(crate) fn contract(self) -> (&'static str, &'static str) {
        match self {
            Self::RedisCluster => ("redis::cluster", Engine::RedisCluster.variable()),
            other => (other.backend().engine().name(), other.backend().engine().variable()),
        }
    }

    /// The faults that its servers survive without the loss of an acknowledged write.
    pub(crate) fn faults(self) -> &'static [Stop] {
        match self {
            Self::PostgresStandby => &[Stop::Killed, Stop::Asked, Stop::Stalled, Stop::Cut],
            Self::PostgresPgbouncer => &[Stop::Killed, Stop::Asked, Stop::Stalled],
            // A primary of Redis that stalls acknowledges later what its successor never gets.
            Self::RedisSentinel | Self::RedisCluster => &[Stop::Killed, Stop::Asked],
            Self::PostgresPatroni | Self::NatsCluster => &[Stop::Killed, Stop::Stalled, Stop::Asked],
        }
    }

    /// Starts the servers, with their data and logs in `folder`.
    pub(super) fn start(self, folder: &Path) -> Result<Box<dyn Servers>> {
        Ok(match self {
            Self::PostgresStandby => Box::new(postgres::Pair::start(folder)?),
            Self::PostgresPatroni => Box::new(patroni::Patroni::start(folder)?),
            Self::PostgresPgbouncer => Box::new(pgbouncer::Pooled::start(folder)?),
            Self::RedisSentinel => Box::new(redis::Sentinel::start(folder)?),
            Self::RedisCluster => Box::new(redis_cluster::Cluster::start(folder)?),
            Self::NatsCluster => Box::new(nats::Cluster::start(folder)?),
        })
    }
}

/// Returns the body of a page that must exist.
fn get(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let mut request = Message::post(&address.to_string(), &[], Vec::new());
    request.start = format!("GET {path} HTTP/1.1");
    request.headers.push(("connection".into(), "close".into()));
    let answer = mcp::exchange_once(address, &request.to_bytes(), Duration::from_secs(5))?;
    ensure!(answer.status() == 200, "{path} was answered with {}", answer.status());
    Ok(answer.body)
}

/// Repeats `check` until it returns a value.
fn until<T>(what: &str, mut check: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        let missing = match check() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if start.elapsed() > PATIENCE {
            let late = format!("{what}: not within {} s", PATIENCE.as_secs());
            return Err(missing.unwrap_or_else(|| anyhow::anyhow!("not yet"))).context(late);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
