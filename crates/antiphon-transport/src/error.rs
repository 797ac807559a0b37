//! What can go wrong between two peers.

use std::{error::Error as StdError, time::Duration};

/// What the functions here return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a transport refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection is closed: connect again.
    #[error("the connection is closed")]
    Closed,
    /// The message is longer than this side sends: send less, or raise `max_message_bytes` on both
    /// sides.
    #[error("the message has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The peer does not read what it is sent; the connection was closed.
    #[error("the peer has not read for {0:?}")]
    Stalled(Duration),
    /// The peer did not answer in time: is it an MCP server?
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The server answered with something else than was asked for. 401 and 403 want other headers,
    /// 404 another address or a new session.
    #[error("the server answered with status {status}: {reason}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said, cut short.
        reason: String,
    },
    /// The server speaks WebSocket but not MCP over it.
    #[error("the server did not choose the subprotocol `mcp`")]
    Subprotocol,
    /// The address cannot be used.
    #[error("`{url}` cannot be used: {reason}")]
    Url {
        /// The address.
        url: String,
        /// What to change.
        reason: &'static str,
    },
    /// The server, reached again, is not the one that was left.
    #[error("the server came back as another: {0}")]
    Changed(String),
    /// The message could not be written as JSON.
    #[error("the message cannot be written as JSON")]
    Json(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection was lost after the message went out and before the server said that it has it. What it
    /// asks for may happen: ask again only for what may happen twice.
    #[error("the connection was lost while the message was being sent: it may have been carried out")]
    Unconfirmed(#[source] Box<dyn StdError + Send + Sync>),
    /// The network or the library below failed.
    #[error("the connection failed")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
}

#[cfg(feature = "__client")]
impl Error {
    pub(crate) fn connection(source: impl StdError + Send + Sync + 'static) -> Self {
        Self::Connection(Box::new(source))
    }
}
