use std::{error::Error as StdError, time::Duration};

use serde_json::Value;

use crate::{page::Page, stray::StrayOutput};

/// The result type of operations on a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation on a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host could not connect to the server.
    #[error("could not connect to {endpoint}")]
    Connect {
        /// The name of the endpoint.
        endpoint: String,
        /// The cause of the error.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server requires authorization, and the request had no valid token.
    #[error("{endpoint} requires authorization: {challenge}")]
    Unauthorized {
        /// The name of the endpoint.
        endpoint: String,
        /// The `WWW-Authenticate` header of the server's response.
        challenge: String,
    },
    /// The server requires authorization, and the host could not get a token.
    #[error("authorization failed for {endpoint}")]
    Authorization {
        /// The name of the endpoint.
        endpoint: String,
        /// The cause of the error.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The connection was lost during a request. The host cannot determine whether the server executed the request.
    #[error("the connection was lost during `{method}`: the server may have executed the request")]
    Lost {
        /// The MCP method of the request.
        method: String,
        /// The last stray line that the program wrote to its standard output during the request. A stray line is not an
        /// MCP message, and can be the reason why a response is missing.
        #[source]
        stray: Option<StrayOutput>,
    },
    /// The server returned a JSON-RPC error.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The JSON-RPC error code.
        code: i32,
        /// The error message that the server sent.
        message: String,
        /// The additional data of the JSON-RPC error, from its member `data`.
        data: Option<Value>,
    },
    /// The server requires that the user first visits the listed web pages (`-32042`). Either the user did not visit
    /// the pages, or the server required the pages again.
    #[error(
        "the server requires the user to open web pages first: the user did not open them, or the server asked for them again"
    )]
    PagesRequired(Vec<Page>),
    /// The tool still asks questions after the maximum number of rounds.
    #[error(
        "the server still sends questions after {0} rounds; raise `HostLimits::with_rounds` if this is expected"
    )]
    Rounds(u32),
    /// The task was cancelled, by this host, by another client or by an operator.
    #[error("task `{id}` was cancelled")]
    TaskCancelled {
        /// The ID of the task.
        id: String,
    },
    /// The server does not have the task (`-32602`). The task has expired, or the task belongs to another caller. Call
    /// the tool again.
    #[error("the server has no task `{id}`; it may have expired")]
    TaskUnknown {
        /// The ID of the task.
        id: String,
    },
    /// The task did not end within [`HostLimits::with_task_patience`](crate::HostLimits), and is still running. Wait
    /// for the task again with [`Connection::task`](crate::Connection::task), or cancel the task.
    #[error("task `{id}` is not finished after {after:?}; it continues on the server")]
    TaskUnfinished {
        /// The ID of the task.
        id: String,
        /// How long the host has waited for the server.
        after: Duration,
    },
    /// The server has received answers to all questions of the task, but the task still asks the same questions.
    /// Cancel the task, or wait for the task again. If the server is slow, raise
    /// [`HostLimits::with_stuck_polls`](crate::HostLimits).
    #[error("task `{id}` still asks the questions {keys:?}, although the server received their answers")]
    TaskStuck {
        /// The ID of the task.
        id: String,
        /// The keys of the questions that the task still asks.
        keys: Vec<String>,
    },
    /// The server did not respond in time.
    #[error("the server did not answer `{method}` within {after:?}")]
    Timeout {
        /// The MCP method of the request.
        method: String,
        /// How long the host has waited for the server.
        after: Duration,
        /// The last stray line that the program wrote to its standard output during the request. A stray line is not an
        /// MCP message, and can be the reason why a response is missing.
        #[source]
        stray: Option<StrayOutput>,
    },
    /// The response of the server cannot be parsed.
    #[error("the answer to `{method}` cannot be read: {problem}")]
    Malformed {
        /// The MCP method of the request.
        method: String,
        /// The reason why the response cannot be parsed.
        problem: String,
    },
    /// The host is not configured for the operation, the parameters are invalid, or the protocol revision does not
    /// support the operation. The `String` contains the reason.
    #[error("{0}")]
    Misuse(String),
}

impl Error {
    /// Returns the JSON-RPC error code, if the server returned a JSON-RPC error.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Server { code, .. } => Some(*code),
            Self::PagesRequired(_) => Some(crate::page::PAGES_REQUIRED),
            Self::TaskUnknown { .. } => Some(crate::task::INVALID_PARAMS),
            _ => None,
        }
    }
}
