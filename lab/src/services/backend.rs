//! The servers that a store can be put on.

use std::path::Path;

use anyhow::Result;

use super::engine::Engine;
use super::host::Host;
use super::topology::Topology;

/// What people say on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Backend {
    Postgres,
    Redis,
    Nats,
}

impl Backend {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Postgres, Self::Redis, Self::Nats];

    /// The server it stands on.
    pub(crate) fn engine(self) -> Engine {
        match self {
            Self::Postgres => Engine::Postgres,
            Self::Redis => Engine::Redis,
            Self::Nats => Engine::Nats,
        }
    }

    /// What makes the server write down each write before it answers, where that is not its habit.
    pub(crate) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Redis => &["--appendfsync", "always"],
            // NATS writes to its files before it answers but synchronises them only now and then: that
            // survives the death of the process, and not that of the machine.
            Self::Postgres | Self::Nats => &[],
        }
    }
}

/// Where chaos tests keep their data: on one server, or on a topology.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Place {
    /// The server to break.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// The topology whose leader fails.
    #[arg(long, value_enum)]
    topology: Option<Topology>,
}

impl Place {
    pub(crate) fn of(topology: Topology) -> Self {
        Self { backend: None, topology: Some(topology) }
    }

    /// The engine of the servers.
    pub(crate) fn backend(self) -> Backend {
        match (self.topology, self.backend) {
            (Some(topology), _) => topology.backend(),
            (None, Some(backend)) => backend,
            (None, None) => unreachable!("clap requires one of them"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.topology.map_or_else(|| self.backend().engine().name(), Topology::name)
    }

    /// Starts the servers.
    pub(crate) fn start(self, folder: &Path) -> Result<Host> {
        match self.topology {
            Some(topology) => Host::start_topology(topology, folder),
            None => Host::start(self.backend().engine(), folder, self.backend().settings()),
        }
    }
}
