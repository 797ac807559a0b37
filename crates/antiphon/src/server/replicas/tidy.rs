//! Removes what has expired.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Error, Record, Result};

use super::Replicas;
use crate::keep::KINDS;

/// How long the removal of one record and what hangs on it may take before another replica tries.
const LEASE: Duration = Duration::from_secs(60);

/// How many expired records of a kind are taken at once, and how often in a row.
const BATCH: usize = 64;
const BATCHES: usize = 8;

#[cfg(feature = "http")]
const OF_SESSIONS: &[&str] = &["sessions/", "answers/", "replicas/"];
#[cfg(not(feature = "http"))]
const OF_SESSIONS: &[&str] = &[];

/// Removes what has expired, together with what hangs on it. Every replica does; the store sees to it that
/// no two remove the same.
pub(super) async fn tidy(replicas: Arc<Replicas>) {
    loop {
        let pause = (pause(&replicas) / 2).max(Duration::from_secs(1));
        // Replicas that were started together need not look together.
        let pause = pause.mul_f64(0.75 + f64::from(jitter()) / 512.0);
        tokio::select! {
            () = replicas.stopped.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        for prefix in OF_SESSIONS.iter().chain(&KINDS) {
            if let Err(error) = tidy_up(&replicas, prefix).await {
                tracing::warn!(%error, prefix, "what has expired could not be removed");
            }
        }
    }
}

async fn tidy_up(replicas: &Arc<Replicas>, prefix: &str) -> Result<()> {
    for _ in 0..BATCHES {
        let expired = replicas.store.claim_expired(prefix, LEASE, BATCH).await?;
        let last = expired.len() < BATCH;
        for record in expired {
            match remove(replicas, record).await {
                // Somebody has begun it anew, or was faster.
                Ok(()) | Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if last {
            break;
        }
    }
    Ok(())
}

async fn remove(replicas: &Arc<Replicas>, record: Record) -> Result<()> {
    #[cfg(feature = "http")]
    replicas.remove_with(&record).await?;
    replicas.store.delete(&record.key, record.revision).await
}

#[cfg(feature = "http")]
fn pause(replicas: &Replicas) -> Duration {
    replicas.shortest_life()
}

#[cfg(not(feature = "http"))]
fn pause(_: &Replicas) -> Duration {
    Duration::from_secs(30)
}

fn jitter() -> u8 {
    let mut byte = [0];
    getrandom::fill(&mut byte).map_or(0, |()| byte[0])
}
