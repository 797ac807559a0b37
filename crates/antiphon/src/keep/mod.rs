//! What a run keeps in the store, where the server has one.
//!
//! Everything here is a record that expires, and what is too large for one is in [`Pieces`] that do, too. Replicas
//! remove what has (`server/replicas/tidy.rs`).

mod claim;
mod once;
mod pieces;
mod single;
mod spill;

pub(crate) use self::{
    once::at_most_once,
    pieces::{PIECE, Pieces},
    single::{Entered, enter},
    spill::{load, seal},
};

use std::time::Duration;

use antiphon_store::Store;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, ErrorKind},
    server::Shared,
};

/// Records of replies to seals that are good for one use.
const SEALS: &str = "seal";
/// Records of steps that are taken at most once.
const STEPS: &str = "step";
/// Records of what callers have the server's own model cost.
pub(crate) const SPENT: &str = "spent";
/// What is removed when it has expired.
pub(crate) const KINDS: [&str; 7] =
    ["seal/", "step/", "spent/", "pieces/", "rings/", "audit/", crate::task::RECORDS];

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
    use std::fmt::Write as _;
    let digest = Sha256::digest(what);
    let mut key = format!("{kind}/");
    for byte in digest {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

impl Shared {
    /// The store, and somebody who sweeps it.
    fn store(&self) -> Option<&dyn Store> {
        let backend = self.backend.as_ref()?;
        if let Some(replicas) = &self.replicas {
            replicas.begin();
        }
        Some(&*backend.store)
    }

    /// For how long a record must outlive now, so that no seal that is still good has lost what it needs.
    fn seals_last(&self) -> Duration {
        self.seal.ttl + 2 * self.seal.skew
    }
}

/// The store failed: nobody's fault, and worth another try.
fn unavailable(error: antiphon_store::Error) -> Error {
    let error = Error::from(error);
    tracing::error!("the store failed: {error:#}");
    Error::new(ErrorKind::Tool("the server's store could not be reached; try again".into()))
}
