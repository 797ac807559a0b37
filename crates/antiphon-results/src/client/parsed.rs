use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    content::Content,
    error::{DualResponseClientError, Result},
    guard::Target,
    locate::{Unreachable, locate},
    setup::Setup,
};
use crate::{
    column::ColumnDefinition,
    page::{LifeBody, MetadataBody},
    rows::Row,
};

/// What a server knows of a result set.
pub type ResourceMetadata = MetadataBody;

/// A dual response that was read: its preview is here, its rows can be fetched.
///
/// Cloning is cheap, and clones are the same set.
#[derive(Clone)]
pub struct ParsedDualResponse {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) setup: Arc<Setup>,
    pub(super) content: Content,
    target: Result<Target, Unreachable>,
    /// When it ends, as far as was heard last.
    expires_at: Mutex<Option<DateTime<Utc>>>,
}

impl ParsedDualResponse {
    pub(super) fn new(setup: Arc<Setup>, content: Content) -> Self {
        let target = locate(&setup, &content);
        let expires_at = Mutex::new(content.expires_at);
        Self { inner: Arc::new(Inner { setup, content, target, expires_at }) }
    }

    /// The preview: the first rows.
    pub fn sample(&self) -> &[Row] {
        &self.inner.content.sample
    }

    /// How many rows there are.
    pub fn total_count(&self) -> u64 {
        self.inner.content.total_count
    }

    /// What people call it.
    pub fn name(&self) -> Option<&str> {
        self.inner.content.name.as_deref()
    }

    /// Its URI: `resource://abc123`. Empty if the response has only a URL.
    pub fn resource_uri(&self) -> &str {
        self.inner.content.uri.as_deref().unwrap_or_default()
    }

    /// The URL that rows are fetched from.
    ///
    /// # Errors
    ///
    /// When there is none, or none that may be gone to.
    pub fn resource_url(&self) -> Result<&str> {
        Ok(self.inner.target()?.url.as_str())
    }

    /// Its columns.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.inner.content.columns
    }

    /// When it ends; never, if it is pinned. Follows what the server says when the set is pinned, extended or
    /// looked up.
    pub fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.inner.expires_at()
    }

    /// When the query was run, if the response says.
    pub fn executed_at(&self) -> Option<DateTime<Utc>> {
        self.inner.content.executed_at
    }

    /// Whether it has ended, by the clock of this machine.
    pub fn is_expired(&self) -> bool {
        self.inner.is_expired()
    }

    /// Asks the server what it knows of the set.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn metadata(&self) -> Result<ResourceMetadata> {
        let metadata: MetadataBody = read(&self.inner.ask(Method::GET, Bytes::new()).await?)?;
        self.inner.set_expires_at(metadata.expires_at);
        Ok(metadata)
    }

    /// Has the set kept until it is deleted, and says whether it is; not, if it is gone.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), but that the set is gone is an answer.
    pub async fn pin(&self) -> Result<bool> {
        let life = self.inner.live(Bytes::new()).await;
        found(life.map(|life| life.expires_at.is_none()))
    }

    /// Has a pinned set expire again, and says whether it will; not, if it is gone.
    ///
    /// # Errors
    ///
    /// As for [`pin`](Self::pin).
    pub async fn unpin(&self) -> Result<bool> {
        let life = self.inner.live(body(&json!({"pinned": false}))).await;
        found(life.map(|life| life.expires_at.is_some()))
    }

    /// Has the set live for `life` from now on, and says when it will end.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn extend(&self, life: Duration) -> Result<Option<DateTime<Utc>>> {
        Ok(self.inner.live(body(&json!({"expires_in": life.as_secs()}))).await?.expires_at)
    }

    /// Deletes the set, and says whether it was there to be deleted.
    ///
    /// # Errors
    ///
    /// As for [`pin`](Self::pin).
    pub async fn delete(&self) -> Result<bool> {
        found(self.inner.ask(Method::DELETE, Bytes::new()).await.map(|_| true))
    }
}

impl Inner {
    pub(super) fn target(&self) -> Result<&Target> {
        self.target.as_ref().map_err(|unreachable| match unreachable {
            Unreachable::Refused(why) => DualResponseClientError::UrlRefused(why.clone()),
            Unreachable::Unknown => DualResponseClientError::Config(
                "the response does not say where its rows are; use `with_base_url` or `with_fallback_base_url`"
                    .to_owned(),
            ),
        })
    }

    pub(super) fn is_expired(&self) -> bool {
        self.expires_at().is_some_and(|end| end <= self.setup.now())
    }

    fn expires_at(&self) -> Option<DateTime<Utc>> {
        *self.expires_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_expires_at(&self, end: Option<DateTime<Utc>>) {
        *self.expires_at.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    async fn live(&self, body: Bytes) -> Result<LifeBody> {
        let life: LifeBody = read(&self.ask(Method::PUT, body).await?)?;
        self.set_expires_at(life.expires_at);
        Ok(life)
    }
}

/// That a set is gone is an answer where it is asked whether it is there.
fn found(outcome: Result<bool>) -> Result<bool> {
    match outcome {
        Err(DualResponseClientError::NotFound(_) | DualResponseClientError::Expired(_)) => Ok(false),
        outcome => outcome,
    }
}

pub(super) fn body(value: &Value) -> Bytes {
    value.to_string().into()
}

/// Reads an answer that is JSON.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        DualResponseClientError::broken("the answer is not what was asked for", error.into())
    })
}

/// Without the rows, and without the query of the URL, which may be a credential.
impl fmt::Debug for ParsedDualResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.inner.target.as_ref().ok().map(|target| target.url.origin().ascii_serialization());
        f.debug_struct("ParsedDualResponse")
            .field("uri", &self.resource_uri())
            .field("origin", &place)
            .field("total_count", &self.total_count())
            .field("sample", &self.sample().len())
            .field("expires_at", &self.expires_at())
            .finish_non_exhaustive()
    }
}
