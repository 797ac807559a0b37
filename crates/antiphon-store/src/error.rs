use std::error::Error as StdError;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store, a queue or a bus.
///
/// Every variant except [`Backend`](Self::Backend) means that the call had no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another writer has changed the record. Read the record again before you retry.
    #[error("write conflict on `{key}`: another writer changed the record; read it again and retry")]
    Conflict {
        /// The key of the record.
        key: String,
    },
    /// Another writer has appended to the log. Read the new entries before you retry.
    #[error(
        "append conflict on log `{log}`: expected {expected} entries and found {found}; read the new entries \
         and retry"
    )]
    LogConflict {
        /// The name of the log.
        log: String,
        /// The number of entries that the writer expected in the log.
        expected: u64,
        /// The actual number of entries in the log.
        found: u64,
    },
    /// The worker lost its lease: the job was leased again, is done, or is dead. Stop the work on the job.
    #[error(
        "the lease on job `{id}` of queue `{queue}` was lost: another worker leased the job, or the job is \
         done or dead; stop the work on this job"
    )]
    LeaseLost {
        /// The name of the queue.
        queue: String,
        /// The ID of the job.
        id: String,
    },
    /// The name of a key, a log, a topic, a queue or a job is invalid. [`name`](crate::name) describes the rules.
    #[error("invalid name `{name}`: {problem}")]
    BadName {
        /// The invalid name.
        name: String,
        /// The rule that the name violates.
        problem: &'static str,
    },
    /// The data is larger than the limit.
    #[error("{place} is too large: {bytes} bytes exceed the limit of {limit} bytes")]
    TooLarge {
        /// The kind of data: a value, an append, a payload or an event.
        place: &'static str,
        /// The actual size of the data in bytes.
        bytes: usize,
        /// The maximum size of the data in bytes.
        limit: usize,
    },
    /// All connections are in use, or no connection could be opened in time. The call had no effect. Retry the call
    /// later.
    #[error("{backend} is busy or unreachable: the call had no effect; retry the call later")]
    Busy {
        /// The name of the backend.
        backend: &'static str,
        /// The cause of the error, if the cause is known.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The backend failed, and **the call was possibly applied**. For most calls, [`Retrying`](crate::Retrying) finds
    /// out whether the call was applied.
    #[error("a call to {backend} failed: the effect of the call is unknown")]
    Backend {
        /// The name of the backend.
        backend: &'static str,
        /// The cause of the error.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A URL or a configuration that cannot be used.
    #[error("{problem}")]
    Config {
        /// A text that describes the problem, and how to fix the problem.
        problem: String,
    },
}

impl Error {
    /// Creates [`Error::Backend`], for a failed call whose effect is unknown.
    pub fn backend(backend: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Backend { backend, source: source.into() }
    }

    /// Creates [`Error::Busy`], for a call that got no connection and had no effect.
    pub fn busy(backend: &'static str, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Busy { backend, source: Some(source.into()) }
    }

    /// Returns `true` if a later call with the same arguments and the same configuration can succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Backend { .. })
    }
}
