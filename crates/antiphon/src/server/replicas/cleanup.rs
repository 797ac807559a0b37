//! Removes what has expired.

use std::{sync::Arc, time::Duration};

use antiphon_transport::jitter;

use super::Replicas;
use crate::durable::{KINDS, remove_all};

/// How long something lives at least before it expires, unless sessions say otherwise.
const LIFE: Duration = Duration::from_secs(30);

/// Removes what has expired, together with what hangs on it. Every replica does; the store sees to it that
/// no two remove the same.
pub(super) async fn clean_up(replicas: Arc<Replicas>) {
    loop {
        let life = replicas.sessions().map_or(LIFE, |sessions| sessions.shortest_life().min(LIFE));
        let pause = jitter::around((life / 2).max(Duration::from_secs(1)));
        tokio::select! {
            () = replicas.stopped.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if let Some(sessions) = replicas.sessions() {
            sessions.clean_up().await;
        }
        for prefix in KINDS {
            if let Err(error) = remove_all(&*replicas.store, prefix, &replicas.stopped).await {
                tracing::warn!(%error, prefix, "what has expired could not be removed");
            }
        }
    }
}
