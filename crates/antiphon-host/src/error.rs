use std::{error::Error as StdError, time::Duration};

use serde_json::Value;

use crate::page::Page;

/// What talking to a server returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a server did not answer, or not as hoped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no connection, and none could be made.
    #[error("could not connect to {endpoint}")]
    Connect {
        /// Whereto.
        endpoint: String,
        /// What went wrong.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server wants to know who is calling.
    #[error("{endpoint} wants authorization: {challenge}")]
    Unauthorized {
        /// Whereto.
        endpoint: String,
        /// Its `WWW-Authenticate` header.
        challenge: String,
    },
    /// The server wanted to know who is calling, and nobody could be authorized.
    #[error("nobody is authorized at {endpoint}")]
    Authorization {
        /// Whereto.
        endpoint: String,
        /// What went wrong.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The connection was lost while a request was under way: whether it was carried out is not
    /// known.
    #[error("the connection was lost during `{method}`; it may or may not have been carried out")]
    Lost {
        /// The request's method.
        method: String,
    },
    /// The server answered with an error.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message.
        message: String,
        /// What else it said.
        data: Option<Value>,
    },
    /// The server wants the person to visit pages first (`-32042`), and they did not, or the server
    /// asked again.
    #[error("the server wants pages visited first, and they were not")]
    PagesRequired(Vec<Page>),
    /// The server keeps asking.
    #[error("the server still asks after {0} rounds; raise `HostLimits::rounds` if it may")]
    Rounds(u32),
    /// The task was cancelled, by this host or by somebody else.
    #[error("task `{id}` was cancelled")]
    TaskCancelled {
        /// The task's id.
        id: String,
    },
    /// The server has no such task (`-32602`): it has expired, or was never this host's. Call the
    /// tool again.
    #[error("the server knows no task `{id}`; it may have expired")]
    TaskUnknown {
        /// The task's id.
        id: String,
    },
    /// The task was waited for as long as [`HostLimits::task_patience`](crate::HostLimits) allows. It
    /// goes on: pick it up again with [`Connection::task`](crate::Connection::task), or cancel it.
    #[error("task `{id}` is not finished after {after:?}; it goes on")]
    TaskUnfinished {
        /// The task's id.
        id: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The task was given what it asked for, and still only asks for that. Cancel it, or wait for it
    /// again; raise [`HostLimits::stuck_polls`](crate::HostLimits) if the server takes its time.
    #[error("task `{id}` still asks for {keys:?}, which it was given")]
    TaskStuck {
        /// The task's id.
        id: String,
        /// The keys of what was given.
        keys: Vec<String>,
    },
    /// It took longer than it may.
    #[error("no answer to `{method}` within {after:?}")]
    Timeout {
        /// The request's method.
        method: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The server sent something that is no answer.
    #[error("the answer to `{method}` cannot be read: {problem}")]
    Malformed {
        /// The request's method.
        method: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The host was told to do something it is not set up for.
    #[error("{0}")]
    Misuse(String),
}

impl Error {
    /// The JSON-RPC error code, if the server answered with one.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Server { code, .. } => Some(*code),
            Self::PagesRequired(_) => Some(crate::page::PAGES_REQUIRED),
            Self::TaskUnknown { .. } => Some(crate::task::INVALID_PARAMS),
            _ => None,
        }
    }
}
