use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::error::Error;

/// What [`Error`] calls this backend.
pub(super) const NAME: &str = "redis";

/// What a failure says about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was not run, for the server does not have the script (any more).
    NoScript,
    /// It was not run, and may be in a moment, or by another node.
    NotYet,
    /// It was not run.
    NotRun,
    /// It may have been run.
    Unknown,
}

impl Fate {
    pub(super) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => Self::NoScript,
            ErrorKind::Server(
                ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly,
            )
            | ErrorKind::ClusterConnectionNotFound => Self::NotYet,
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Self::NotRun,
            // Not so a timeout: it may be that of an open connection that went silent.
            ErrorKind::Io if error.is_connection_refusal() => Self::NotYet,
            // Our scripts declare their flags, so these come before the first of their commands.
            _ if matches!(error.code(), Some("OOM" | "MISCONF" | "NOAUTH" | "NOREPLICAS" | "BUSY")) => {
                Self::NotRun
            }
            _ => Self::Unknown,
        }
    }
}

/// What to tell the caller.
pub(super) fn told(error: RedisError) -> Error {
    match Fate::of(&error) {
        Fate::NoScript | Fate::NotYet | Fate::NotRun => Error::busy(NAME, error),
        Fate::Unknown => Error::backend(NAME, error),
    }
}

/// A reply that none of our scripts gives.
pub(super) fn odd_reply() -> Error {
    Error::backend(NAME, "the reply is not of the expected form")
}
