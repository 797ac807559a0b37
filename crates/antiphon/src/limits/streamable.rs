//! What a request over streamable HTTP takes and is told.

use std::sync::{Arc, Mutex};

use antiphon_transport::weight::{Share, Weight};

use super::Shed;

/// Marks what came over streamable HTTP, where a request may belong to no session, and tells whoever answers that it was
/// refused. Over WebSocket and HTTP+SSE, whose messages bring their HTTP requests, too, every request has a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streamable {
    pub(crate) shed: Shed,
    /// The memory that the request takes.
    #[cfg_attr(
        not(feature = "telemetry"),
        expect(dead_code, reason = "it counts for as long as it is there")
    )]
    pub(crate) room: Option<Room>,
}

/// The memory that a request takes of the server's [`MemoryBudget`](antiphon_transport::weight::MemoryBudget), for as long as somebody has a clone of it.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "it counts for as long as it is there"))]
pub(crate) struct Room(Arc<Mutex<(Share, Weight)>>);

impl Room {
    pub(crate) fn new(share: Share, weight: Weight) -> Self {
        Self(Arc::new(Mutex::new((share, weight))))
    }

    /// The request is parsed: gives back what only the parser needed. Without telemetry nobody knows when that is, and the
    /// request takes all of it until it is answered.
    #[cfg(feature = "telemetry")]
    pub(crate) fn parsed(&self) {
        let (share, weight) = &mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        share.shrink(weight.kept());
    }
}
