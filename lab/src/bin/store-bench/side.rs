//! What is measured, and who does it.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

/// One operation of a store, a queue or a bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Create,
    Update,
    Append,
    Read,
    List,
    Push,
    LeaseAndAck,
    Publish,
}

impl Operation {
    pub(crate) const ALL: [Self; 9] = [
        Self::Get,
        Self::Create,
        Self::Update,
        Self::Append,
        Self::Read,
        Self::List,
        Self::Push,
        Self::LeaseAndAck,
        Self::Publish,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Append => "append",
            Self::Read => "read 100 entries",
            Self::List => "list 100 records",
            Self::Push => "push",
            Self::LeaseAndAck => "lease and ack",
            Self::Publish => "publish to receive",
        }
    }
}

/// Ours, or the bare client.
#[async_trait]
pub(crate) trait Side: Send {
    /// Does it once, and says how long that took; what has to be there first is no part of it.
    async fn run(&mut self, operation: Operation) -> Result<Duration>;
}

/// A value, an entry, a payload and an event.
pub(crate) const VALUE: &[u8] = &[b'x'; 256];
/// Where there are a hundred records or entries.
pub(crate) const HUNDRED: &str = "hundred";
pub(crate) const FULL: usize = 100;
