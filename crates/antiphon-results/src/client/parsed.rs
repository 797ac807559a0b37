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

/// The metadata of a result set, as its server returns it.
pub type ResourceMetadata = MetadataBody;

/// A parsed dual response, which contains the preview and can fetch the rows.
///
/// Clones of a `ParsedDualResponse` are cheap and refer to the same result set.
#[derive(Clone)]
pub struct ParsedDualResponse {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) setup: Arc<Setup>,
    pub(super) content: Content,
    target: Result<Target, Unreachable>,
    /// Expiry time of the result set, if the time is known.
    expires_at: Mutex<Option<DateTime<Utc>>>,
}

impl ParsedDualResponse {
    pub(super) fn new(setup: Arc<Setup>, content: Content) -> Self {
        let target = locate(&setup, &content);
        let expires_at = Mutex::new(content.expires_at);
        Self { inner: Arc::new(Inner { setup, content, target, expires_at }) }
    }

    /// Returns the preview: the first rows of the result set.
    pub fn sample(&self) -> &[Row] {
        &self.inner.content.sample
    }

    /// Returns the number of rows in the result set, according to the dual response.
    pub fn total_count(&self) -> u64 {
        self.inner.content.total_count
    }

    /// Returns the display name of the result set.
    pub fn name(&self) -> Option<&str> {
        self.inner.content.name.as_deref()
    }

    /// Returns the URI of the result set, such as `resource://abc123`. Returns an empty text if the response has only
    /// a URL.
    pub fn resource_uri(&self) -> &str {
        self.inner.content.uri.as_deref().unwrap_or_default()
    }

    /// Returns the URL from which the client fetches the rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is unknown, or if the options of the client do not allow the URL.
    pub fn resource_url(&self) -> Result<&str> {
        Ok(self.inner.target()?.url.as_str())
    }

    /// Returns the columns of the result set.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.inner.content.columns
    }

    /// Returns the expiry time as last reported by the server, or `None` if the result set is pinned. The methods
    /// `pin`, `unpin`, `extend` and `metadata` update the expiry time.
    pub fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.inner.expires_at()
    }

    /// Returns the time at which the query ran, if the response contains this time.
    pub fn executed_at(&self) -> Option<DateTime<Utc>> {
        self.inner.content.executed_at
    }

    /// Returns whether the result set has expired, according to the local clock.
    pub fn is_expired(&self) -> bool {
        self.inner.is_expired()
    }

    /// Requests the metadata of the result set.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch).
    pub async fn metadata(&self) -> Result<ResourceMetadata> {
        let metadata: MetadataBody = read(&self.inner.ask(Method::GET, Bytes::new()).await?)?;
        self.inner.set_expires_at(metadata.expires_at);
        Ok(metadata)
    }

    /// Pins the result set, so that it does not expire. Returns `true` if the result set is now pinned, and `false` if
    /// the set no longer exists.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch). If the result set no longer exists, returns `false` instead of an
    /// error.
    pub async fn pin(&self) -> Result<bool> {
        let life = self.inner.live(Bytes::new()).await;
        found(life.map(|life| life.expires_at.is_none()))
    }

    /// Unpins the result set, so that it expires again. Returns `false` if the result set no longer exists.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`pin`](Self::pin).
    pub async fn unpin(&self) -> Result<bool> {
        let life = self.inner.live(body(&json!({"pinned": false}))).await;
        found(life.map(|life| life.expires_at.is_some()))
    }

    /// Sets the lifetime of the result set to `life`, counted from now, and returns its expiry time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch).
    pub async fn extend(&self, life: Duration) -> Result<Option<DateTime<Utc>>> {
        Ok(self.inner.live(body(&json!({"expires_in": life.as_secs()}))).await?.expires_at)
    }

    /// Deletes the result set, and returns whether the set existed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`pin`](Self::pin).
    pub async fn delete(&self) -> Result<bool> {
        found(self.inner.ask(Method::DELETE, Bytes::new()).await.map(|_| true))
    }
}

impl Inner {
    pub(super) fn target(&self) -> Result<&Target> {
        self.target.as_ref().map_err(|unreachable| match unreachable {
            Unreachable::Refused(why) => DualResponseClientError::UrlRefused(why.clone()),
            Unreachable::Unknown => DualResponseClientError::Config(
                "the tool result has no URL of its rows; use `with_base_url` or `with_fallback_base_url`"
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

/// Returns `false` instead of an error if the result set is missing.
fn found(outcome: Result<bool>) -> Result<bool> {
    match outcome {
        Err(DualResponseClientError::NotFound(_) | DualResponseClientError::Expired(_)) => Ok(false),
        outcome => outcome,
    }
}

pub(super) fn body(value: &Value) -> Bytes {
    value.to_string().into()
}

/// Parses the JSON body of a response.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        DualResponseClientError::broken("the response is not the expected JSON", error.into())
    })
}

/// The debug output omits the rows. The output also omits the query string of the URL, because a query string can
/// contain a credential.
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
