//! What a run keeps in the store, where the server has one.
//!
//! Everything here is a record that expires, and what is too large for one is in [`Pieces`](antiphon_store::Pieces) that do, too. Replicas
//! remove what has (`server/replicas/cleanup.rs`).

mod claim;

pub(crate) use self::claim::{Held, Watched, watch};

use antiphon_store::Store;
use tokio_util::sync::CancellationToken;

use crate::{
    base::sha256,
    error::{Error, ErrorKind},
};

/// Records of replies to seals that are good for one use.
pub(crate) const SEALS: &str = "seal";
/// Records of steps that are taken at most once.
pub(crate) const STEPS: &str = "step";
/// What is removed when it has expired.
pub(crate) const KINDS: [&str; 7] = ["seal/", "step/", "spent/", "pieces/", "rings/", "audit/", TASKS];
/// Where the records of tasks are.
pub(crate) const TASKS: &str = "tasks/";

/// How many expired records are removed at once.
const BULK: usize = 1000;

/// Removes all expired records under `prefix`, on which nothing may hang, unless the server ends first.
pub(crate) async fn remove_all(
    store: &dyn Store,
    prefix: &str,
    stopped: &CancellationToken,
) -> antiphon_store::Result<()> {
    while !stopped.is_cancelled() && store.remove_expired(prefix, BULK).await? > 0 {}
    Ok(())
}

/// A name made of something that may have any length and any characters.
pub(crate) fn key(kind: &str, what: &[u8]) -> String {
    format!("{kind}/{}", sha256(what))
}

/// The store failed: nobody's fault, and worth another try.
pub(crate) fn unavailable(error: antiphon_store::Error) -> Error {
    let error = Error::from(error);
    tracing::error!("the store failed: {error:#}");
    Error::new(ErrorKind::Tool("the server's store could not be reached; try again".into()))
}
