//! Removes expired records.

use std::{sync::Arc, time::Duration};

use super::Replicas;
use crate::{
    base::jitter,
    durable::{KINDS, remove_all},
};

/// The shortest lifetime of a record. Only session records can have a shorter lifetime.
const LIFE: Duration = Duration::from_secs(30);

/// Removes expired records, and the records that depend on expired records. Every replica calls this function. The
/// store ensures that only one replica removes a record.
pub(super) async fn clean_up(replicas: Arc<Replicas>) {
    loop {
        let life = replicas.sessions().map_or(LIFE, |sessions| sessions.shortest_life().min(LIFE));
        let pause = jitter((life / 2).max(Duration::from_secs(1)));
        tokio::select! {
            biased;
            () = replicas.stopped.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if let Some(sessions) = replicas.sessions() {
            sessions.clean_up().await;
        }
        for prefix in KINDS {
            if let Err(error) = remove_all(&*replicas.store, prefix, &replicas.stopped).await {
                tracing::warn!(%error, prefix, "expired records could not be removed from the store");
            }
        }
    }
}
