//! Writes and checks the heartbeats of replicas, and removes the data of ended sessions and of stopped replicas.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Error, Record, Result};
use bytes::Bytes;

use super::{
    Replicas, forward,
    ids::LocalSessionId,
    news,
    news::News,
    record::{SessionRecord, SessionStorage},
    stream::END,
};

/// The time without a heartbeat after which a replica counts as stopped.
const SILENCE: Duration = Duration::from_secs(30);

impl Replicas {
    pub(super) async fn begin_sessions(self: &Arc<Self>) -> Result<()> {
        let letters = self.subscribe_answers().await?;
        let news = self.subscribe_news().await?;
        self.show_life().await?;
        tokio::spawn(forward::hear(Arc::clone(self), letters));
        tokio::spawn(news::hear(Arc::clone(self), news));
        tokio::spawn(live(Arc::clone(self)));
        Ok(())
    }

    fn life(&self) -> String {
        format!("replicas/{}", self.id)
    }

    async fn show_life(&self) -> Result<()> {
        let key = self.life();
        let shown = match self.store.get(&key).await? {
            Some(record) => self.store.update(&key, Bytes::new(), Some(SILENCE), record.revision).await,
            None => self.store.create(&key, Bytes::new(), Some(SILENCE)).await,
        };
        match shown {
            // A conflict means that the record already exists.
            Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn die(&self) -> Result<()> {
        match self.store.get(&self.life()).await? {
            Some(record) => self.store.delete(&record.key, record.revision).await,
            None => Ok(()),
        }
    }

    pub(super) async fn is_replica_alive(&self, replica: &str) -> Result<bool> {
        // The client may have invented the ID of the replica.
        if antiphon_store::name::check_segment(replica).is_err() {
            return Ok(false);
        }
        Ok(replica == self.id || self.store.get(&format!("replicas/{replica}")).await?.is_some())
    }

    /// Returns whether a part of a session can still write to the log of the session.
    pub(super) async fn is_alive(&self, part: &LocalSessionId) -> Result<bool> {
        if part.replica != self.id {
            return self.is_replica_alive(&part.replica).await;
        }
        Ok(self.sessions().iter().flat_map(|sessions| sessions.parts()).any(|own| own.id == *part))
    }

    /// Ends a session on all replicas.
    pub(super) async fn end(&self, place: &SessionStorage) -> Result<()> {
        place.delete().await?;
        self.tell(&News::Ended { session: place.name.clone() }).await?;
        self.bus.publish(&place.topic(), Bytes::from_static(END)).await
    }

    /// Removes the data in the backend that depends on an expired record.
    pub(super) async fn remove_with(self: &Arc<Self>, record: &Record) -> Result<()> {
        if let Some(name) = record.key.strip_prefix("sessions/") {
            let segment =
                serde_json::from_slice::<SessionRecord>(&record.value).map_or(0, |read| read.segment);
            let place = SessionStorage::new(Arc::clone(self), name.to_owned(), SILENCE);
            place.delete_events(segment).await?;
            self.tell(&News::Ended { session: name.to_owned() }).await?;
        } else if record.key.starts_with("answers/") {
            tracing::info!("a client's answer was dropped: the replica that sent the question has stopped");
        }
        Ok(())
    }

    /// Returns the shortest lifetime of the records that this module writes.
    pub(super) fn shortest_life(&self) -> Duration {
        self.sessions().iter().map(|sessions| sessions.ttl()).min().unwrap_or(SILENCE).min(SILENCE)
    }
}

async fn live(replicas: Arc<Replicas>) {
    loop {
        tokio::select! {
            () = replicas.stopped.cancelled() => break,
            () = tokio::time::sleep(SILENCE / 3) => {}
        }
        if let Err(error) = replicas.show_life().await {
            tracing::warn!(%error, "the heartbeat of this replica failed; other replicas may treat it as stopped");
        }
    }
    replicas.close_parts().await;
    if let Err(error) = replicas.die().await {
        tracing::debug!(%error, "the heartbeat record of this replica could not be deleted; it stays until it expires");
    }
    replicas.ended.cancel();
}
