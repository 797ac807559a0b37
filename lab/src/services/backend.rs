//! The servers that a store can be put on.

use std::path::Path;

use anyhow::Result;

use super::engine::Engine;
use super::host::{Host, Stop};
use super::topology::Topology;

/// What people say on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
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

/// Where chaos tests keep their data, and how its servers fail.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Place {
    #[command(flatten)]
    servers: Servers,
    /// Only this fault, instead of all faults that the servers survive.
    #[arg(long, value_enum)]
    fault: Option<Stop>,
}

/// One server, or a topology.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
struct Servers {
    /// The server to break.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// The topology whose leader fails.
    #[arg(long, value_enum)]
    topology: Option<Topology>,
}

impl Place {
    pub(crate) fn of(topology: Topology, fault: Option<Stop>) -> Self {
        Self { servers: Servers { backend: None, topology: Some(topology) }, fault }
    }

    /// Whether one fault was chosen.
    pub(crate) fn has_fault(self) -> bool {
        self.fault.is_some()
    }

    /// The engine of the servers.
    pub(crate) fn backend(self) -> Backend {
        match (self.servers.topology, self.servers.backend) {
            (Some(topology), _) => topology.backend(),
            (None, Some(backend)) => backend,
            (None, None) => unreachable!("clap requires one of them"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.servers.topology.map_or_else(|| self.backend().engine().name(), Topology::name)
    }

    /// Starts the servers.
    pub(crate) fn start(self, folder: &Path) -> Result<Host> {
        let host = match self.servers.topology {
            Some(topology) => Host::start_topology(topology, folder)?,
            None => Host::start(self.backend().engine(), folder, self.backend().settings())?,
        };
        Ok(self.fault.into_iter().fold(host, Host::with_fault))
    }
}
