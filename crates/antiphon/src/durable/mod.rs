//! The records in the store with which the server keeps runs.
//!
//! Every record of this module expires. If a value is too large for one record, the server stores the value in several
//! [`Pieces`](antiphon_store::Pieces), which also expire. Replicas remove expired records
//! (`server/replicas/cleanup.rs`).

mod claim;

pub(crate) use self::claim::{Held, Watched, take, watch};

use antiphon_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    base::sha256,
    error::{Error, ErrorKind},
};

/// The name prefix of records that contain replies to requests with a single-use `requestState`.
pub(crate) const SEALS: &str = "seal";
/// The name prefix of the records of at-most-once steps.
pub(crate) const STEPS: &str = "step";
/// The name prefixes of the records that the server removes after they expire.
pub(crate) const KINDS: [&str; 9] =
    ["seal/", "step/", "spent/", "pieces/", "rings/", "audit/", TASKS, WAITS, GROUPS];
/// The name prefix of the records of tasks.
pub(crate) const TASKS: &str = "tasks/";
/// The name prefix of records that contain the tool groups that are enabled for a principal.
pub(crate) const GROUPS: &str = "groups/";
/// The name prefix of records that list the tasks that wait for users.
pub(crate) const WAITS: &str = "waits/";

/// The maximum number of expired records that the server removes in one call to the store.
const BULK: usize = 1000;

/// Removes all expired records whose name begins with `prefix`. If the server shuts down, this function stops early.
/// Use this function only for records on which no other records depend.
pub(crate) async fn remove_all(
    store: &dyn Store,
    prefix: &str,
    stopped: &CancellationToken,
) -> antiphon_store::Result<()> {
    while !stopped.is_cancelled() && store.remove_expired(prefix, BULK).await? > 0 {}
    Ok(())
}

/// Returns a record name of fixed length for `what`, which can contain any number of arbitrary bytes.
pub(crate) fn key(kind: &str, what: &[u8]) -> String {
    format!("{kind}/{}", sha256(what))
}

/// Converts an error of the store into an error for the caller. The error message asks the caller to try again later.
pub(crate) fn unavailable(error: antiphon_store::Error) -> Error {
    let error = Error::from(error);
    tracing::error!("the store failed: {error:#}");
    Error::new(ErrorKind::Tool("the server's store could not be reached; try again".into()))
}
