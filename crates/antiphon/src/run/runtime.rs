//! State that all runs of a server share.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    time::{Duration, SystemTime},
};

use antiphon_replay::Journal;
use antiphon_store::{Backend, Pieces, Store};
use bytes::Bytes;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{ask::Models, channels::Recent};
use crate::{
    changes::Changes,
    durable::unavailable,
    error::Result,
    limits::{Limiter, Limits, Spend},
    seal::{Binding, Handle, OpenError, SealConfig, TooLarge},
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
    /// Whether models can relay answers to questions that allow it.
    pub(crate) relays: bool,
    /// The clients that answered a question lately without asking their user.
    pub(crate) unresponsive: Recent,
    /// The rounds in which this process asked questions lately.
    pub(crate) asked: Recent,
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

/// Seals `journal`. If it is too large for the client, stores it encrypted and seals a handle to it.
///
/// Every round stores a new journal and changes no earlier one. After a lost connection, a client can send an
/// earlier sealed state again, which must still open.
pub(crate) async fn seal(
    runtime: &Runtime,
    journal: &Journal,
    binding: &Binding,
) -> Result<std::result::Result<String, TooLarge>> {
    let sealed = runtime.seal.seal(journal, binding, SystemTime::now());
    let (Err(_), Some(store)) = (&sealed, runtime.store()) else { return Ok(sealed) };
    let now = SystemTime::now();
    let (handle, sealed) = match runtime.seal.seal_apart(journal, binding, now) {
        Ok(sealed) => sealed,
        Err(too_large) => return Ok(Err(too_large)),
    };
    let sealed = Bytes::from(sealed);
    pieces(&handle).write(store, &sealed, runtime.seals_last()).await.map_err(unavailable)?;
    Ok(Ok(runtime.seal.seal_handle(&handle, binding, now)))
}

/// Returns the journal that a handle refers to.
pub(crate) async fn load(
    runtime: &Runtime,
    handle: &Handle,
    binding: &Binding,
) -> Result<std::result::Result<Journal, OpenError>> {
    let Some(store) = runtime.store() else { return Ok(Err(OpenError::Spilled)) };
    match pieces(handle).get(store).await.map_err(unavailable)? {
        Some(sealed) => Ok(runtime.seal.open_apart(handle, &sealed, binding)),
        None => Ok(Err(OpenError::Spilled)),
    }
}

fn pieces(handle: &Handle) -> Pieces {
    Pieces::named(format!("{:032x}", u128::from_le_bytes(handle.name)), handle.bytes as usize)
}
