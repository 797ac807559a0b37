use std::{error::Error as StdError, time::Duration};

use serde_json::Value;

use crate::page::Page;

/// The result of an operation on a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host is not connected, and cannot connect.
    #[error("could not connect to {endpoint}")]
    Connect {
        /// The name of the endpoint.
        endpoint: String,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server requires authorization.
    #[error("{endpoint} wants authorization: {challenge}")]
    Unauthorized {
        /// The name of the endpoint.
        endpoint: String,
        /// The `WWW-Authenticate` header of the response.
        challenge: String,
    },
    /// The server requires authorization, and the host could not get it.
    #[error("authorization failed for {endpoint}")]
    Authorization {
        /// The name of the endpoint.
        endpoint: String,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The connection was lost during a request. It is unknown whether the server executed the request.
    #[error("the connection was lost during `{method}`; it may or may not have been carried out")]
    Lost {
        /// The request's method.
        method: String,
    },
    /// The server returned an error.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message.
        message: String,
        /// The data of the error.
        data: Option<Value>,
    },
    /// The server requires the user to visit web pages first (`-32042`). The user did not visit them, or the server
    /// required them again.
    #[error("the server requires the user to visit web pages first, and the user did not")]
    PagesRequired(Vec<Page>),
    /// The server still asks questions after the maximum number of rounds.
    #[error(
        "the server still sends questions after {0} rounds; raise `HostLimits::rounds` if this is expected"
    )]
    Rounds(u32),
    /// The task was cancelled, by this host or by another party.
    #[error("task `{id}` was cancelled")]
    TaskCancelled {
        /// The ID of the task.
        id: String,
    },
    /// The server does not have this task (`-32602`): it has expired, or it never belonged to this host. Call the
    /// tool again.
    #[error("the server has no task `{id}`; it may have expired")]
    TaskUnknown {
        /// The ID of the task.
        id: String,
    },
    /// The task did not finish within [`HostLimits::task_patience`](crate::HostLimits), and is still running. Wait
    /// for it again with [`Connection::task`](crate::Connection::task), or cancel it.
    #[error("task `{id}` is not finished after {after:?}; it continues on the server")]
    TaskUnfinished {
        /// The ID of the task.
        id: String,
        /// How long the host waited.
        after: Duration,
    },
    /// The task received answers to all its questions, and still asks the same ones. Cancel it, or wait for it again.
    /// If the server is slow, raise [`HostLimits::stuck_polls`](crate::HostLimits).
    #[error("task `{id}` still asks for {keys:?}, which it was given")]
    TaskStuck {
        /// The ID of the task.
        id: String,
        /// The question keys whose answers the server received.
        keys: Vec<String>,
    },
    /// The response did not arrive in time.
    #[error("no answer to `{method}` within {after:?}")]
    Timeout {
        /// The request's method.
        method: String,
        /// How long the host waited.
        after: Duration,
    },
    /// The response cannot be parsed.
    #[error("the answer to `{method}` cannot be read: {problem}")]
    Malformed {
        /// The request's method.
        method: String,
        /// The reason.
        problem: String,
    },
    /// The host is not configured for this operation.
    #[error("{0}")]
    Misuse(String),
}

impl Error {
    /// Returns the JSON-RPC error code, if the server returned one.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Server { code, .. } => Some(*code),
            Self::PagesRequired(_) => Some(crate::page::PAGES_REQUIRED),
            Self::TaskUnknown { .. } => Some(crate::task::INVALID_PARAMS),
            _ => None,
        }
    }
}
