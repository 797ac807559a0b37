//! Several servers that act as one, and survive the loss of one of them.

use std::fmt::Debug;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::backend::Backend;
use super::host::Stop;

mod nats;
mod node;
mod postgres;
mod redis;
mod switch;

/// How long servers may take to agree on a new leader, or to copy what a server missed.
const PATIENCE: Duration = Duration::from_mins(2);

/// The topologies that run on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Topology {
    /// A PostgreSQL primary with a synchronous standby, behind a proxy that leads to the primary.
    PostgresStandby,
    /// A Redis primary with a replica, and three Sentinels.
    RedisSentinel,
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
    pub(crate) const ALL: [Self; 3] = [Self::PostgresStandby, Self::RedisSentinel, Self::NatsCluster];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PostgresStandby => "postgres-standby",
            Self::RedisSentinel => "redis-sentinel",
            Self::NatsCluster => "nats-cluster",
        }
    }

    /// The engine of its servers.
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::PostgresStandby => Backend::Postgres,
            Self::RedisSentinel => Backend::Redis,
            Self::NatsCluster => Backend::Nats,
        }
    }

    /// Starts the servers, with their data and logs in `folder`.
    pub(super) fn start(self, folder: &Path) -> Result<Box<dyn Servers>> {
        Ok(match self {
            Self::PostgresStandby => Box::new(postgres::Pair::start(folder)?),
            Self::RedisSentinel => Box::new(redis::Sentinel::start(folder)?),
            Self::NatsCluster => Box::new(nats::Cluster::start(folder)?),
        })
    }
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
