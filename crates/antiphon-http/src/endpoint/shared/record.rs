//! What is kept of a session.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use antiphon_store::{Error, Result, Revision};
use rmcp::model::{InitializeRequestParams, LoggingLevel};
use serde::{Deserialize, Serialize};

use super::{Replicas, digest, lock};
use antiphon_transport::session::Elicitations;

/// What a session was begun with, and what its client has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) params: InitializeRequestParams,
    /// A digest of who began it; only they may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<LoggingLevel>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) subscribed: BTreeSet<String>,
    /// The URL elicitations that it was sent.
    #[serde(default, skip_serializing_if = "Elicitations::is_empty")]
    pub(super) elicitations: Elicitations,
    /// Whether its client has ever opened a stream to listen on.
    #[serde(default)]
    pub(super) heard: bool,
    /// The segment its log has come to, or the one before.
    #[serde(default)]
    pub(super) segment: u64,
}

/// A session's place in the store.
#[derive(Debug)]
pub(super) struct SessionStorage {
    pub(super) replicas: Arc<Replicas>,
    /// The digest of its id.
    pub(super) name: String,
    pub(super) ttl: Duration,
    touched: Mutex<Instant>,
}

impl SessionStorage {
    pub(super) fn new(replicas: Arc<Replicas>, name: String, ttl: Duration) -> Self {
        Self { replicas, name, ttl, touched: Mutex::new(Instant::now()) }
    }

    fn key(&self) -> String {
        session_key(&self.name)
    }

    pub(super) fn segment(&self, number: u64) -> String {
        format!("events/{}/{number}", self.name)
    }

    /// The topic that tells of more in the log.
    pub(super) fn topic(&self) -> String {
        format!("events/{}", self.name)
    }

    pub(super) async fn load(&self) -> Result<Option<SessionRecord>> {
        Ok(self.load_at().await?.map(|(record, _)| record))
    }

    async fn load_at(&self) -> Result<Option<(SessionRecord, Revision)>> {
        let Some(found) = self.replicas.store.get(&self.key()).await? else { return Ok(None) };
        let record =
            serde_json::from_slice(&found.value).map_err(|error| Error::backend("session", error))?;
        Ok(Some((record, found.revision)))
    }

    pub(super) async fn create(&self, record: &SessionRecord) -> Result<()> {
        self.replicas.store.create(&self.key(), encode(record), Some(self.ttl)).await.map(drop)
    }

    /// Changes the record, and gives it its whole time again. `None` if there is none any more.
    pub(super) async fn change(&self, change: impl Fn(&mut SessionRecord)) -> Result<Option<SessionRecord>> {
        loop {
            let Some((mut record, revision)) = self.load_at().await? else { return Ok(None) };
            change(&mut record);
            match self.replicas.store.update(&self.key(), encode(&record), Some(self.ttl), revision).await {
                Ok(_) => {
                    self.touch_now();
                    return Ok(Some(record));
                }
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Shows that the session is in use: its record stays for its whole time from now. Most calls do
    /// nothing, because a third of that time has not passed.
    pub(super) fn touch(self: &Arc<Self>) {
        if lock(&self.touched).elapsed() < self.ttl / 3 {
            return;
        }
        self.touch_now();
        let place = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = place.change(|_| ()).await {
                tracing::warn!(%error, "a session in use could not be kept from expiring");
            }
        });
    }

    fn touch_now(&self) {
        *lock(&self.touched) = Instant::now();
    }

    /// Removes the session and all that was sent in it.
    pub(super) async fn delete(&self) -> Result<()> {
        let found = self.load_at().await?;
        if let Some((_, revision)) = &found {
            match self.replicas.store.delete(&self.key(), *revision).await {
                Ok(()) | Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.delete_events(found.map_or(0, |(record, _)| record.segment)).await
    }

    /// Removes all that was sent, of which the last may be in `segment`.
    pub(super) async fn delete_events(&self, segment: u64) -> Result<()> {
        // One before is kept; one after may have been begun by a replica that then died.
        for number in segment.saturating_sub(2)..=segment + 2 {
            self.replicas.store.delete_log(&self.segment(number)).await?;
        }
        Ok(())
    }
}

/// What a session is called in the backend.
pub(super) fn session_name(id: &str) -> String {
    digest(&["session", id])
}

/// Who began a session, in a form that tells the store nothing about them.
pub(super) fn caller(name: &str, principal: Option<&str>) -> Option<String> {
    principal.map(|principal| digest(&["caller", name, principal]))
}

fn session_key(name: &str) -> String {
    format!("sessions/{name}")
}

fn encode(record: &SessionRecord) -> bytes::Bytes {
    serde_json::to_vec(record).expect("a session's record is JSON").into()
}
