//! Single-use sealed states. If a client sends the same sealed state again, the client receives the stored reply.

use std::{future::Future, sync::Arc, time::Duration};

use antiphon_store::{Backend, Pieces, Revision};
use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Runtime;
use crate::{
    base::random_id,
    durable::{Held, SEALS, Watched, key, take, unavailable, watch},
    error::Result,
};

const DIGEST: usize = 32;
const BEGUN: u8 = 0;
const REPLIED: u8 = 1;

/// The result of a check whether a client has already used a sealed state.
pub(crate) enum Entered {
    /// The client has not sent the sealed state before. Process the request with [`Guard::work`], which stores the
    /// reply for retries.
    First(Guard),
    /// The request is a retry, and the value is the stored reply.
    Answered(Value),
    /// The client has already sent the sealed state with different answers.
    Used,
}

/// The exclusive right to use a sealed state.
pub(crate) struct Guard {
    runtime: Arc<Runtime>,
    backend: Backend,
    key: String,
    claim: Bytes,
    revision: Revision,
}

/// Claims a sealed state for this request. If the client has already used the sealed state, returns the stored reply.
///
/// `answers` contains the client's answers. A retry must contain the same answers as the first request.
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
        if let Some(revision) = take(store, &key, &claim, lease(runtime)).await.map_err(unavailable)? {
            let (runtime, backend) = (Arc::clone(runtime), backend.clone());
            return Ok(Entered::First(Guard { runtime, backend, key, claim, revision }));
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
            // The request that held the claim stopped without a reply, so this request does the work.
            Watched::Gone | Watched::Silent(_) => {}
        }
    }
}

/// Returns how long a claim stays valid after the last heartbeat.
fn lease(runtime: &Runtime) -> Duration {
    4 * runtime.limits.claim_heartbeat
}

impl Guard {
    /// Runs `work` and stores the reply for retries. If `reply` returns `None`, this method does not store a reply, and
    /// the client can use the sealed state again.
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
            tracing::error!(%error, "the response to a single-use `requestState` could not be stored");
        }
        result
    }
}

async fn conclude(runtime: &Runtime, held: &Held<'_>, reply: Option<Value>) -> antiphon_store::Result<()> {
    let Some(reply) = reply else {
        // If the deletion fails, the store removes the claim when the claim expires.
        let _ = held.store.delete(held.key, held.revision).await;
        return Ok(());
    };
    let ttl = runtime.seals_last();
    let pieces = Pieces::put(held.store, &reply.to_string().into(), ttl).await?;
    // `Pieces` contains a name and a count, so this serialization cannot fail.
    let pieces = serde_json::to_vec(&pieces).unwrap_or_default();
    let replied = [&[REPLIED], &held.claim[1..=DIGEST], &pieces].concat();
    if !held.settle(replied.into(), ttl, |_| false).await? {
        tracing::warn!(
            "another replica took over a single-use `requestState` before its response was stored"
        );
    }
    Ok(())
}
