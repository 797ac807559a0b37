//! State that all runs of a server share.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    time::Duration,
};

use antiphon_store::{Backend, Store};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::route::Models;
use crate::{
    changes::Changes,
    limits::{Limiter, Limits, Spend},
    seal::SealConfig,
    telemetry::Recorder,
};

/// State that all runs of a server share. It depends neither on the tools nor on the transport.
pub(crate) struct Runtime {
    /// The server's audience. Sealed and stored state can be read only by servers with the same audience.
    pub(crate) audience: String,
    /// The name of this replica, for logs and traces.
    pub(crate) replica: String,
    pub(crate) limits: Limits,
    pub(crate) seal: SealConfig,
    /// The rate limits and the admission of requests.
    pub(crate) limiter: Limiter,
    /// The spending of callers on the server's model.
    pub(crate) spend: Spend,
    pub(crate) models: Models,
    /// The store, queue and bus that replicas share.
    pub(crate) backend: Option<Backend>,
    pub(crate) changes: Changes,
    /// Whether responses contain the trace of their run.
    pub(crate) traces: bool,
    /// Receives the telemetry.
    pub(crate) recorder: Recorder,
    /// Cancelled when the server begins a graceful shutdown.
    pub(crate) shutdown: CancellationToken,
    /// Stops the announcements to other replicas when the last run is dropped.
    pub(crate) _replicas_stop: DropGuard,
    pub(crate) states: States,
}

/// The state values that tools share, by type.
pub(crate) type States = HashMap<TypeId, Box<dyn Any + Send + Sync>>;

impl Runtime {
    /// Returns the shared state of this type.
    pub(crate) fn state<T: 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Returns the store that replicas share, and starts the removal of expired records.
    pub(super) fn store(&self) -> Option<&dyn Store> {
        let backend = self.backend.as_ref()?;
        self.changes.begin();
        Some(&*backend.store)
    }

    /// Returns how long a record must be kept, so that every valid sealed state can still use it.
    pub(super) fn seals_last(&self) -> Duration {
        self.seal.ttl + 2 * self.seal.skew
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("audience", &self.audience).finish_non_exhaustive()
    }
}
