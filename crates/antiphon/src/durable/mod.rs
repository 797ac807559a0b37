//! Records of runs in the store, if the server has one.
//!
//! Every record here expires. Values that are too large for one record are stored in
//! [`Pieces`](antiphon_store::Pieces), which also expire. Replicas remove expired records
//! (`server/replicas/cleanup.rs`).

mod claim;

pub(crate) use self::claim::{Held, Watched, watch};

use antiphon_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    base::sha256,
    error::{Error, ErrorKind},
};

/// Prefix of the records of replies to single-use sealed states.
pub(crate) const SEALS: &str = "seal";
/// Prefix of the records of at-most-once steps.
pub(crate) const STEPS: &str = "step";
/// Prefixes of the records that are removed after they expire.
pub(crate) const KINDS: [&str; 9] =
    ["seal/", "step/", "spent/", "pieces/", "rings/", "audit/", TASKS, WAITS, GROUPS];
/// Prefix of the records of tasks.
pub(crate) const TASKS: &str = "tasks/";
/// Prefix of the records of the groups of tools that are enabled for a principal.
pub(crate) const GROUPS: &str = "groups/";
/// Prefix of the records that list the tasks that wait for users.
pub(crate) const WAITS: &str = "waits/";

/// The number of expired records that are removed in one call.
const BULK: usize = 1000;

/// Removes all expired records under `prefix`, unless the server stops first. No other record may depend on
/// them.
pub(crate) async fn remove_all(
    store: &dyn Store,
    prefix: &str,
    stopped: &CancellationToken,
) -> antiphon_store::Result<()> {
    while !stopped.is_cancelled() && store.remove_expired(prefix, BULK).await? > 0 {}
    Ok(())
}

/// Returns a key of fixed length. `what` can have any length and any characters.
pub(crate) fn key(kind: &str, what: &[u8]) -> String {
    format!("{kind}/{}", sha256(what))
}

/// Converts an error of the store to an error for the caller, who can try again.
pub(crate) fn unavailable(error: antiphon_store::Error) -> Error {
    let error = Error::from(error);
    tracing::error!("the store failed: {error:#}");
    Error::new(ErrorKind::Tool("the server's store could not be reached; try again".into()))
}
