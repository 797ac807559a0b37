use std::error::Error as StdError;

/// What this crate's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store, a queue or a bus refused or failed.
///
/// All but [`Backend`](Self::Backend) mean that nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another writer got there first: read again, decide again.
    #[error("`{key}` is not at the revision it was expected at")]
    Conflict {
        /// The key that was to be written.
        key: String,
    },
    /// Another writer has appended to the log: read on, decide again.
    #[error("log `{log}` has {found} entries, not {expected}")]
    LogConflict {
        /// The log that was to be appended to.
        log: String,
        /// How many entries the writer took it to have.
        expected: u64,
        /// How many it has.
        found: u64,
    },
    /// The job was leased to somebody else meanwhile, or is done: stop working on it.
    #[error("the lease on job `{id}` of queue `{queue}` was lost")]
    LeaseLost {
        /// The queue.
        queue: String,
        /// The job.
        id: String,
    },
    /// A key, topic, queue or job id that no backend takes. [`name`](crate::name) has the rules.
    #[error("`{name}` cannot be a name: {problem}")]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// More bytes than fit in one place.
    #[error("{bytes} bytes do not fit in {place}, which holds {limit}")]
    TooLarge {
        /// A value, an append, a payload or an event.
        place: &'static str,
        /// How many there are.
        bytes: usize,
        /// How many fit.
        limit: usize,
    },
    /// All connections are in use, or none could be made in time. Nothing was done: try again later.
    #[error("{backend} has no connection to spare")]
    Busy {
        /// Which backend.
        backend: &'static str,
        /// What it said, if anything.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The backend failed, and **what was asked may or may not have been done**.
    /// [`Retrying`](crate::Retrying) finds out.
    #[error("{backend} failed")]
    Backend {
        /// Which backend.
        backend: &'static str,
        /// What it said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A URL or a configuration that cannot be used.
    #[error("{problem}")]
    Config {
        /// What is wrong, and what to do about it.
        problem: String,
    },
}

impl Error {
    /// A failure of `backend`'s, whose effect is uncertain.
    pub fn backend(backend: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Backend { backend, source: source.into() }
    }

    /// A refusal for want of a connection: nothing was done.
    pub fn busy(backend: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Busy { backend, source: Some(source.into()) }
    }

    /// Whether the same call may succeed if it is made again, with nothing else changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Backend { .. })
    }
}
