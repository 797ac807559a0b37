//! The servers that a store can be put on.

use super::engine::Engine;

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
