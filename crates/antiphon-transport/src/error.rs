//! Errors of the transports.

use std::{error::Error as StdError, time::Duration};

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a transport rejected a message or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is closed. Connect again before you send messages.
    #[error("the connection is closed")]
    Closed,
    /// The message is longer than `max_message_bytes` of this side of the connection. Send a shorter message, or raise
    /// `max_message_bytes` on both sides of the connection.
    #[error("the message has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The length of the message, in bytes.
        bytes: usize,
        /// The maximum length of a message, in bytes.
        limit: usize,
    },
    /// The peer did not read a message within the time that this error contains. The connection was closed.
    #[error("the connection was closed: the peer did not read messages for {0:?}")]
    Stalled(Duration),
    /// The peer did not respond within the time that this error contains. Check that the peer is an MCP server.
    #[error("the peer did not answer within {0:?}")]
    TimedOut(Duration),
    /// The server rejected an HTTP request, or returned an unexpected response. For the status 401 or 403, change the
    /// headers. For the status 404, use another URL or open a new session.
    #[error("the server answered with status {status}: {reason}")]
    Refused {
        /// The HTTP status of the response.
        status: u16,
        /// The start of the response body, which can explain the reason.
        reason: String,
    },
    /// The server supports WebSocket, but did not choose the subprotocol for MCP.
    #[error("the server does not support MCP over WebSocket: it did not choose the subprotocol `mcp`")]
    Subprotocol,
    /// The URL is invalid, or this transport cannot use it.
    #[error("the URL `{url}` cannot be used: {reason}")]
    Url {
        /// The URL that cannot be used.
        url: String,
        /// The reason why the URL cannot be used.
        reason: &'static str,
    },
    /// After a reconnect, the server differs from the server before the reconnect. The `String` describes the
    /// difference.
    #[error("the server changed during a reconnect: {0}")]
    Changed(String),
    /// The message could not be serialized as JSON.
    #[error("the message cannot be serialized as JSON")]
    Json(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection was lost after the message was sent, but before the server confirmed the message. The server has
    /// possibly executed the request. Send the request again only if it is idempotent.
    #[error("the connection was lost while the message was being sent: the server may have executed it")]
    Unconfirmed(#[source] Box<dyn StdError + Send + Sync>),
    /// The network connection or a library failed.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
}

#[cfg(feature = "__client")]
impl Error {
    pub(crate) fn connection(source: impl StdError + Send + Sync + 'static) -> Self {
        Self::Connection(Box::new(source))
    }
}
