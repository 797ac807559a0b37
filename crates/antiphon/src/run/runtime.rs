//! The data that all runs of a server share.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
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

/// The data that all runs of a server share. The shared data does not depend on the tools or on the transport.
pub(crate) struct Runtime {
    /// The audience of the server. Only servers with the same audience can read the sealed states and the stored data
    /// of this server.
    pub(crate) audience: String,
    /// The name of this replica, for logs and traces.
    pub(crate) replica: String,
    pub(crate) limits: Limits,
    pub(crate) seal: SealConfig,
    /// The rate limiter, which admits or rejects requests.
    pub(crate) limiter: Limiter,
    /// How much each caller has spent on requests to the server's model.
    pub(crate) spend: Spend,
    pub(crate) models: Models,
    /// The store, queue and bus that replicas share.
    pub(crate) backend: Option<Backend>,
    pub(crate) changes: Changes,
    /// Whether responses contain a trace of the run.
    pub(crate) traces: bool,
    /// The recorder that receives the telemetry.
    pub(crate) recorder: Recorder,
    /// A token that is cancelled when the server begins a graceful shutdown.
    pub(crate) shutdown: CancellationToken,
    /// A guard that stops the exchange of announcements with other replicas, when the last run is dropped.
    pub(crate) _replicas_stop: DropGuard,
    pub(crate) states: States,
    /// A function that returns whether any tool of the server is in a group.
    pub(crate) is_group: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Whether models can relay answers, if the question allows relayed answers.
    pub(crate) relays: bool,
    /// The clients that recently answered a question without showing the question to the user.
    pub(crate) unresponsive: Recent,
    /// The forms that this process recently sent in rounds.
    pub(crate) asked: Recent,
}

/// The values that tools share ([`State`](crate::State)), by type.
pub(crate) type States = HashMap<TypeId, Box<dyn Any + Send + Sync>>;

/// A mounted server.
pub(crate) struct Mount {
    pub(crate) prefix: String,
    /// The state values of the mounted server.
    pub(crate) states: States,
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// The mounted servers that contain a tool, prompt or resource, innermost first. The list is empty if the outer server
/// itself contains the tool, prompt or resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Option<Arc<[Arc<Mount>]>>);

impl Mounts {
    fn all(&self) -> &[Arc<Mount>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns the list with `outer` added. The mounted server `outer` contains all other mounted servers in the list.
    pub(crate) fn within(&self, outer: &Arc<Mount>) -> Self {
        Self(Some(self.all().iter().chain([outer]).map(Arc::clone).collect()))
    }

    /// Returns the shared value of type `T` from the innermost mounted server that has a value of this type.
    pub(crate) fn state<T: 'static>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        self.all().iter().find_map(|mount| mount.states.get(&id))?.downcast_ref()
    }

    /// Returns `true` if at least one of the mounted servers has a shared value of this type.
    pub(crate) fn has_state(&self, id: TypeId) -> bool {
        self.all().iter().any(|mount| mount.states.contains_key(&id))
    }

    /// Returns the prefix of the outermost mounted server.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.all().last().map(|mount| mount.prefix.as_str())
    }

    /// Returns the prefixes of all mounted servers, outermost first, for example `shop/notes`.
    pub(crate) fn path(&self) -> Option<String> {
        let prefixes: Vec<_> = self.all().iter().rev().map(|mount| mount.prefix.as_str()).collect();
        (!prefixes.is_empty()).then(|| prefixes.join("/"))
    }

    /// Returns the full name of a group, for example `shop/notes/admin`. `group` is the name that the mounted server
    /// uses, for example `admin`.
    pub(crate) fn group(&self, group: String) -> String {
        match self.path() {
            Some(path) => format!("{path}/{group}"),
            None => group,
        }
    }
}

impl Runtime {
    /// Returns the shared value of type `T`.
    pub(crate) fn state<T: 'static>(&self) -> Option<&T> {
        self.states.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Returns the store that the replicas share. The first call also starts the background work that removes expired
    /// records.
    pub(super) fn store(&self) -> Option<&dyn Store> {
        let backend = self.backend.as_ref()?;
        self.changes.begin();
        Some(&*backend.store)
    }

    /// Returns the minimum lifetime of a record that a sealed state refers to. The record must not expire before the
    /// sealed state.
    pub(super) fn seals_last(&self) -> Duration {
        self.seal.ttl + 2 * self.seal.skew
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("audience", &self.audience).finish_non_exhaustive()
    }
}

/// Encrypts `journal` as a sealed state. If the journal is too large for the client, this function stores the encrypted
/// journal. The returned sealed state then contains a handle to the stored journal.
///
/// Every round stores a new journal and does not change earlier journals. The server must accept earlier sealed states,
/// because a client can send an earlier sealed state again after a lost connection.
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

/// Reads the journal that `handle` refers to from the store.
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
