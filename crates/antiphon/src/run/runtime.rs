//! What all runs of a server share.

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

/// What all runs of a server share. It knows neither the tools nor the way that requests come in.
pub(crate) struct Runtime {
    /// Whose state it is: what one audience has sealed and stored, no other reads.
    pub(crate) audience: String,
    /// Who this is among its replicas, for people.
    pub(crate) replica: String,
    pub(crate) limits: Limits,
    pub(crate) seal: SealConfig,
    /// Who is let in.
    pub(crate) limiter: Limiter,
    /// What callers have our model cost.
    pub(crate) spend: Spend,
    pub(crate) models: Models,
    /// What is shared with the other replicas.
    pub(crate) backend: Option<Backend>,
    pub(crate) changes: Changes,
    /// Whether answers tell what their runs did.
    pub(crate) traces: bool,
    /// Whoever is told what the server does.
    pub(crate) recorder: Recorder,
    /// Is cancelled when the server begins to drain.
    pub(crate) shutdown: CancellationToken,
    /// Replicas are told of changes for as long as there are runs.
    pub(crate) _replicas_stop: DropGuard,
    pub(crate) states: States,
}

/// What tools were given to share, by type.
pub(crate) type States = HashMap<TypeId, Box<dyn Any + Send + Sync>>;

impl Runtime {
    /// What tools were given of this type.
    pub(crate) fn state<T: 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The store that replicas share, and somebody who removes what has expired in it.
    pub(super) fn store(&self) -> Option<&dyn Store> {
        let backend = self.backend.as_ref()?;
        self.changes.begin();
        Some(&*backend.store)
    }

    /// For how long a record must outlive now, so that no seal that is still good has lost what it needs.
    pub(super) fn seals_last(&self) -> Duration {
        self.seal.ttl + 2 * self.seal.skew
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("audience", &self.audience).finish_non_exhaustive()
    }
}
