//! The stored record of a session.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use antiphon_store::{Error, Result, Revision};
use rmcp::model::{InitializeRequestParams, LoggingLevel};
use serde::{Deserialize, Serialize};

use super::{Replicas, digest, lock};
use antiphon_transport::session::{Elicitations, Subscriptions};

/// The parameters of a session, and the settings that its client has changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) params: InitializeRequestParams,
    /// A digest of the caller that opened the session. No other caller can use the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<LoggingLevel>,
    #[serde(default, skip_serializing_if = "Subscriptions::is_empty")]
    pub(super) subscriptions: Subscriptions,
    /// The IDs of the URL elicitations that were sent in the session.
    #[serde(default, skip_serializing_if = "Elicitations::is_empty")]
    pub(super) elicitations: Elicitations,
    /// The groups of tools that are enabled in the session.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) groups: BTreeSet<String>,
    /// Whether the client has opened a stream to listen at any time in the session.
    #[serde(default)]
    pub(super) heard: bool,
    /// The number of the last segment of the session's log. The stored number can be too low by one.
    #[serde(default)]
    pub(super) segment: u64,
}

/// Access to a session's data in the store.
#[derive(Debug)]
pub(super) struct SessionStorage {
    pub(super) replicas: Arc<Replicas>,
    /// The digest of the session ID.
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

    /// Returns the topic on which replicas announce new entries in the session's log.
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

    /// Changes the session record and renews its TTL. Returns `None` if the record no longer exists.
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

    /// Renews the TTL of the session record, because the session is in use. `touch` has no effect if less than a third
    /// of the TTL has passed since the last renewal.
    pub(super) fn touch(self: &Arc<Self>) {
        if lock(&self.touched).elapsed() < self.ttl / 3 {
            return;
        }
        self.touch_now();
        let place = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = place.change(|_| ()).await {
                tracing::warn!(%error, "the lifetime of an active session could not be extended");
            }
        });
    }

    fn touch_now(&self) {
        *lock(&self.touched) = Instant::now();
    }

    /// Removes the session record and all messages that were sent in the session.
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

    /// Removes all messages that were sent in the session. `segment` is the number of the last segment according to
    /// the session record.
    pub(super) async fn delete_events(&self, segment: u64) -> Result<()> {
        // The log keeps one earlier segment. A replica that has stopped since then may have begun a later segment.
        for number in segment.saturating_sub(2)..=segment + 2 {
            self.replicas.store.delete_log(&self.segment(number)).await?;
        }
        Ok(())
    }
}

/// Returns the name that a session has in the backend.
pub(super) fn session_name(id: &str) -> String {
    digest(&["session", id])
}

/// Returns a digest of the caller that opened a session. The name of the caller cannot be derived from the digest.
pub(super) fn caller(name: &str, principal: Option<&str>) -> Option<String> {
    principal.map(|principal| digest(&["caller", name, principal]))
}

fn session_key(name: &str) -> String {
    format!("sessions/{name}")
}

fn encode(record: &SessionRecord) -> bytes::Bytes {
    serde_json::to_vec(record).expect("a session's record is JSON").into()
}
