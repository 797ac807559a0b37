//! Gives debugging tools access to the messages of a connection, and to the standard error of its program.

use std::{fmt, sync::Arc};

use serde_json::Value;

/// A JSON-RPC message between a host and a server.
///
/// A frame contains the message as the SDK parses and writes it. So a frame does not contain HTTP headers, or members
/// of a message that the SDK does not support.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Frame {
    /// The sender of the message.
    pub direction: Direction,
    /// The JSON-RPC message.
    pub message: Value,
}

/// The sender of a [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// The host sent the message.
    Sent,
    /// The host received the message.
    Received,
}

type FrameListener = Arc<dyn Fn(&Frame) + Send + Sync>;
#[cfg(feature = "process")]
pub(crate) type LineListener = Arc<dyn Fn(&str) + Send + Sync>;

/// The functions that observe a connection.
#[derive(Clone, Default)]
pub(crate) struct Taps {
    pub(crate) frames: Option<FrameListener>,
    #[cfg(feature = "process")]
    pub(crate) stderr: Option<LineListener>,
}

impl Taps {
    /// Reports a message to the function that observes messages, if this function is set.
    pub(crate) fn frame(&self, direction: Direction, message: &impl serde::Serialize) {
        if let Some(listener) = &self.frames
            && let Ok(message) = serde_json::to_value(message)
        {
            listener(&Frame { direction, message });
        }
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taps").finish_non_exhaustive()
    }
}
