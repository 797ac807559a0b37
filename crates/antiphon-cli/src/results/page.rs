//! Parses the responses of servers: manifests and pages of rows.

use antiphon_results::{ColumnDefinition, client::DualResponseClientError};
use anyhow::{Context as _, Result};
use axum::http::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{set::Remote, view::View};

/// The text of the spinner while a set is being written.
pub(crate) const WRITING: &str = "still being written…";

/// The manifest of a result set.
///
/// Antiphon servers send a `SetManifest` of `antiphon_results`. The CLI also supports servers of other vendors, so
/// `Manifest` is more tolerant than `SetManifest`. Missing fields have defaults, and an unknown status or format is
/// kept as text and causes no error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Manifest {
    pub(crate) status: String,
    pub(crate) rows: Option<u64>,
    /// Whether the number `rows` is final.
    pub(crate) exact: bool,
    pub(crate) bytes: Option<u64>,
    pub(crate) digest: Option<String>,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) formats: Vec<String>,
    pub(crate) truncated: Option<String>,
    pub(crate) failure: Option<String>,
    pub(crate) lineage: Option<Lineage>,
}

/// The source sets and the query from which a set was created.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lineage {
    pub(crate) sources: Vec<(String, String)>,
    pub(crate) query: String,
}

/// A page of rows. The counts and offsets of the rows are next to `data` or in `pagination`.
#[derive(Deserialize)]
struct WirePage {
    data: Vec<Box<RawValue>>,
    #[serde(default)]
    total_count: Option<u64>,
    #[serde(default)]
    next_offset: Option<u64>,
    #[serde(default)]
    has_next: Option<bool>,
    #[serde(default)]
    pagination: Option<Box<Numbers>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Numbers {
    #[serde(alias = "total")]
    total_count: Option<u64>,
    next_offset: Option<u64>,
    #[serde(alias = "has_more")]
    has_next: Option<bool>,
}

/// The rows, as the JSON text that the server has sent.
pub(crate) struct Page {
    pub(crate) rows: Vec<Box<RawValue>>,
    pub(crate) total: u64,
    pub(crate) next: Option<u64>,
}

impl Remote {
    /// Sends a request and returns the JSON text. `waiting` is the text of the spinner while the set is not ready.
    pub(crate) async fn text(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        waiting: &'static str,
    ) -> Result<String> {
        self.waiting.says(waiting);
        let bytes = self.set.request(method, path, body).await?;
        String::from_utf8(bytes.into()).context("the response is not text")
    }

    /// Sends a request and parses the JSON.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        waiting: &'static str,
    ) -> Result<T> {
        let text = self.text(method, path, body, waiting).await?;
        serde_json::from_str(&text).context("the response is not the expected JSON")
    }

    /// Returns the manifest of the set, or `None` if the server does not support manifests.
    pub(crate) async fn manifest(&self) -> Result<Option<(Manifest, Value)>> {
        match self.json::<Value>(Method::GET, "manifest", None, WRITING).await {
            Ok(value) => Ok(Some((Manifest::deserialize(&value)?, value))),
            Err(error) => match error
                .downcast_ref::<DualResponseClientError>()
                .and_then(DualResponseClientError::status)
            {
                // Either the set or the route does not exist. If the set does not exist, the next request returns an
                // error.
                Some(404 | 405 | 501) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Returns `limit` rows of a view, starting at `offset`.
    pub(crate) async fn page(
        &self,
        view: &View,
        columns: &[ColumnDefinition],
        offset: u64,
        limit: u64,
    ) -> Result<Page> {
        let mut body = view.body(columns)?;
        body["offset"] = json!(offset);
        body["limit"] = json!(limit);
        let page: WirePage = self.json(Method::POST, "", Some(&body), view.waiting()).await?;
        let nested = page.pagination.unwrap_or_default();
        let end = offset.saturating_add(page.data.len() as u64);
        let total = page.total_count.or(nested.total_count).unwrap_or(end);
        let more = page.has_next.or(nested.has_next).unwrap_or(!page.data.is_empty() && end < total);
        let next = page.next_offset.or(nested.next_offset).or(Some(end)).filter(|_| more);
        Ok(Page { rows: page.data, total, next })
    }
}
