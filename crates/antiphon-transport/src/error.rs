//! Errors of the transports.

use std::{error::Error as StdError, time::Duration};

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a transport rejected a message or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is closed. Connect again.
    #[error("the connection is closed")]
    Closed,
    /// The message is longer than this side sends. Send less, or raise `max_message_bytes` on both sides.
    #[error("the message has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The length of the message.
        bytes: usize,
        /// The maximum length.
        limit: usize,
    },
    /// The peer does not read the messages that are sent to it. The connection was closed.
    #[error("the peer has not read for {0:?}")]
    Stalled(Duration),
    /// The peer did not respond in time. Check that it is an MCP server.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The server returned an unexpected response. For 401 and 403, change the headers. For 404, use another URL or
    /// open a new session.
    #[error("the server answered with status {status}: {reason}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The start of the response.
        reason: String,
    },
    /// The server supports WebSocket, but not MCP over it.
    #[error("the server did not choose the subprotocol `mcp`")]
    Subprotocol,
    /// The URL cannot be used.
    #[error("`{url}` cannot be used: {reason}")]
    Url {
        /// The URL.
        url: String,
        /// The reason.
        reason: &'static str,
    },
    /// After a reconnect, the server differs from the one before.
    #[error("the server came back as another: {0}")]
    Changed(String),
    /// The message could not be written as JSON.
    #[error("the message cannot be written as JSON")]
    Json(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection was lost after the message was sent, and before the server confirmed it. The server has
    /// possibly executed it, so send it again only if it is idempotent.
    #[error("the connection was lost while the message was being sent: it may have been carried out")]
    Unconfirmed(#[source] Box<dyn StdError + Send + Sync>),
    /// The network or a library failed.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
}

#[cfg(feature = "__client")]
impl Error {
    pub(crate) fn connection(source: impl StdError + Send + Sync + 'static) -> Self {
        Self::Connection(Box::new(source))
    }
}
