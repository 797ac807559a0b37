//! Seals that are good for one use: who sends one again gets the reply it led to.

use std::{future::Future, sync::Arc, time::Duration};

use antiphon_store::{Backend, Error as StoreError, Pieces, Revision};
use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Runtime;
use crate::{
    base::random_id,
    durable::{Held, SEALS, Watched, key, unavailable, watch},
    error::Result,
};

const DIGEST: usize = 32;
const BEGUN: u8 = 0;
const REPLIED: u8 = 1;

/// What to do with a request that brings a seal.
pub(crate) enum Entered {
    /// It is the first: work, and tell the guard what came of it.
    First(Guard),
    /// It was answered before, with this.
    Answered(Value),
    /// It was used before, with other answers.
    Used,
}

/// The right to use a seal.
pub(crate) struct Guard {
    runtime: Arc<Runtime>,
    backend: Backend,
    key: String,
    claim: Bytes,
    revision: Revision,
}

/// Takes a seal into use, or finds out what came of it.
///
/// `answers` is what the request brings beside the seal: an honest retry brings the same.
pub(crate) async fn enter(
    runtime: &Arc<Runtime>,
    backend: &Backend,
    state: &str,
    answers: &[u8],
) -> Result<Entered> {
    let store = &*backend.store;
    let key = key(SEALS, state.as_bytes());
    let answers: [u8; DIGEST] = Sha256::digest(answers).into();
    loop {
        let claim: Bytes = [&[BEGUN], &answers[..], random_id().as_bytes()].concat().into();
        match store.create(&key, claim.clone(), Some(lease(runtime))).await {
            Ok(revision) => {
                let (runtime, backend) = (Arc::clone(runtime), backend.clone());
                return Ok(Entered::First(Guard { runtime, backend, key, claim, revision }));
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(unavailable(error)),
        }
        let same = |value: &Bytes| value.get(1..=DIGEST) == Some(&answers[..]);
        let settled =
            |value: &Bytes| (value.first() == Some(&REPLIED) || !same(value)).then(|| value.clone());
        match watch(store, &key, runtime.limits.claim_heartbeat, settled).await.map_err(unavailable)? {
            Watched::Settled(value) if !same(&value) => return Ok(Entered::Used),
            Watched::Settled(value) => {
                let pieces: Option<Pieces> = serde_json::from_slice(&value[1 + DIGEST..]).ok();
                let reply = match pieces {
                    Some(pieces) => pieces.get(store).await.map_err(unavailable)?,
                    None => None,
                };
                return Ok(match reply.and_then(|reply| serde_json::from_slice(&reply).ok()) {
                    Some(reply) => Entered::Answered(reply),
                    None => Entered::Used,
                });
            }
            // Its user has died; what was not done is ours to do.
            Watched::Gone | Watched::Silent(_) => {}
        }
    }
}

/// A user of a seal who shows nothing for so long has died.
fn lease(runtime: &Runtime) -> Duration {
    4 * runtime.limits.claim_heartbeat
}

impl Guard {
    /// Works, and keeps the reply for whoever sends the seal again. `None` from `reply` means that there is
    /// none to keep, and that the seal may be used again.
    pub(crate) async fn work<T>(
        self,
        work: impl Future<Output = T>,
        reply: impl Fn(&T) -> Option<Value>,
    ) -> T {
        let Self { runtime, backend, key, claim, revision } = self;
        let store = &*backend.store;
        let ttl = lease(&runtime);
        let mut held = Held { store, key: &key, claim, revision, ttl };
        let result = held.beating(runtime.limits.claim_heartbeat, work).await;
        if let Err(error) = conclude(&runtime, &held, reply(&result)).await {
            tracing::error!(%error, "the reply to a seal could not be kept");
        }
        result
    }
}

async fn conclude(runtime: &Runtime, held: &Held<'_>, reply: Option<Value>) -> antiphon_store::Result<()> {
    let Some(reply) = reply else {
        // Nothing is lost if this fails: the claim lapses.
        let _ = held.store.delete(held.key, held.revision).await;
        return Ok(());
    };
    let ttl = runtime.seals_last();
    let pieces = Pieces::put(held.store, &reply.to_string().into(), ttl).await?;
    // The names of pieces are text and their number is one: this cannot fail.
    let pieces = serde_json::to_vec(&pieces).unwrap_or_default();
    let replied = [&[REPLIED], &held.claim[1..=DIGEST], &pieces].concat();
    if !held.settle(replied.into(), ttl, |_| false).await? {
        tracing::warn!("a seal was taken over by another replica before its reply was kept");
    }
    Ok(())
}
