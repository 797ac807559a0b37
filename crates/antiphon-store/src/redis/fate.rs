use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::error::Error;

/// The name of this backend in an [`Error`].
pub(super) const NAME: &str = "redis";

/// The effect of a command that returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The command did not run, because the server does not have the script (any more).
    NoScript,
    /// The command did not run. A retry of the command, possibly on another node, can succeed.
    NotYet,
    /// The command did not run. `Link` does not retry the command.
    NotRun,
    /// The command possibly ran.
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
            // A timeout is not listed here, because an open connection that stops responding also causes a timeout.
            ErrorKind::Io if error.is_connection_refusal() => Self::NotYet,
            // All scripts declare their flags, so the server returns these errors before it runs the first command
            // of a script.
            _ if matches!(error.code(), Some("OOM" | "MISCONF" | "NOAUTH" | "NOREPLICAS" | "BUSY")) => {
                Self::NotRun
            }
            _ => Self::Unknown,
        }
    }

    /// Returns the effect of a command if no connection could be opened. No connection can be opened if the server is
    /// down. A proxy without a server accepts new connections and then closes them.
    pub(super) fn without_connection(error: &RedisError) -> Self {
        match Self::of(error) {
            Self::NotRun => Self::NotRun,
            _ => Self::NotYet,
        }
    }

    /// Converts an error of Redis to an [`Error`] for the caller.
    pub(super) fn error(self, error: RedisError) -> Error {
        match self {
            Self::NoScript | Self::NotYet | Self::NotRun => Error::busy(NAME, error),
            Self::Unknown => Error::backend(NAME, error),
        }
    }
}

/// Converts an error of Redis to an [`Error`] for the caller.
pub(super) fn told(error: RedisError) -> Error {
    Fate::of(&error).error(error)
}

/// Returns the error for an unexpected reply, which no script of this crate returns.
pub(super) fn odd_reply() -> Error {
    Error::backend(NAME, "Redis returned a reply of an unexpected type")
}
