//! The interface between a streamable HTTP endpoint and the handler of a request.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::weight::{Share, Weight};

/// A mark on requests over streamable HTTP, which do not have to belong to a session. The endpoint adds the mark to the
/// extensions of the HTTP request.
///
/// Messages over WebSocket and HTTP+SSE also contain an HTTP request, but not this mark, because they always belong to
/// a session.
#[derive(Clone, Debug, Default)]
pub struct Streamable {
    /// A slot in which the handler reports that it has rejected the request because of a limit.
    pub shed: RejectionSlot,
    /// The memory that the request uses of a memory budget, if the endpoint has a budget.
    pub room: Option<Room>,
}

/// The memory that a request uses of a [`MemoryBudget`](crate::weight::MemoryBudget). Dropping the last clone returns
/// the memory to the budget.
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<(Share, Weight)>>);

impl Room {
    /// Holds `share` for a message that has the weight `weight`.
    pub fn new(share: Share, weight: Weight) -> Self {
        Self(Arc::new(Mutex::new((share, weight))))
    }

    /// Releases the memory that only the parsing needed, so that other requests can use it. Call this method after the
    /// request is parsed.
    pub fn parsed(&self) {
        let (share, weight) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share.shrink(weight.kept());
    }
}

/// A slot in which a handler reports that it has rejected a request because of a limit. The endpoint then sets the HTTP
/// status of the response.
#[derive(Clone, Debug, Default)]
pub struct RejectionSlot(Arc<OnceLock<(bool, u64)>>);

impl RejectionSlot {
    /// Reports that the request was rejected. `own` is whether a limit of this caller was reached. `retry_after` is the
    /// number of seconds after which the client can retry.
    pub fn set(&self, own: bool, retry_after: u64) {
        let _ = self.0.set((own, retry_after));
    }

    /// Returns the two values of [`set`](Self::set), or `None` if the request was not rejected.
    pub fn get(&self) -> Option<(bool, u64)> {
        self.0.get().copied()
    }
}
