use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    error::{DualResponseClientError, Result},
    fetch::FetchResponse,
    guard::Target,
    parsed::{Inner, ParsedDualResponse, read},
};
use crate::{
    rows::Row,
    snapshot::{Aggregate, ColumnStats, DerivedBody, SetManifest, StatsBody},
};

/// An SQL query over result sets, and the options of the new result set that contains the rows of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[must_use]
pub struct QueryRequest {
    /// SQL query that creates the new result set. The result set on which `query` is called is the table `result`.
    pub sql: String,
    /// Display name of the new result set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Other result sets of the same owner that the query reads. The key is the table name in the query, and the value
    /// is the ID of the result set.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub tables: std::collections::BTreeMap<String, String>,
    /// Number of rows in the preview of the new result set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u64>,
}

impl QueryRequest {
    /// Creates a request with this SQL query over one result set.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), ..Self::default() }
    }

    /// Sets the display name of the new result set. Default: a name that the server chooses.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds another result set, which the query reads as the table `name`.
    pub fn with_table(mut self, name: impl Into<String>, id: impl Into<String>) -> Self {
        self.tables.insert(name.into(), id.into());
        self
    }

    /// Sets the number of rows in the preview of the new result set. Default: the server's default.
    pub fn with_sample(mut self, rows: u64) -> Self {
        self.sample = Some(rows);
        self
    }
}

impl ParsedDualResponse {
    /// Requests the manifest of the result set: its metadata, its state and its chunks. You can also request the
    /// manifest while rows are being written, and after the write has failed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch).
    pub async fn manifest(&self) -> Result<SetManifest> {
        read(&self.inner.ask_below(Method::GET, &["manifest"], Bytes::new()).await?)
    }

    /// Requests statistics of each column.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch). Also returns an error if the result set is not a snapshot.
    pub async fn stats(&self) -> Result<Vec<ColumnStats>> {
        let stats: StatsBody = read(&self.inner.ask_below(Method::GET, &["stats"], Bytes::new()).await?)?;
        Ok(stats.columns)
    }

    /// Requests aggregates of the rows, such as counts and sums, for each group.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`stats`](Self::stats).
    pub async fn aggregate(&self, aggregate: &Aggregate) -> Result<Vec<Row>> {
        #[derive(Deserialize)]
        struct Groups {
            data: Vec<Row>,
        }
        let body = written(aggregate)?;
        let groups: Groups = read(&self.inner.ask_below(Method::POST, &["aggregate"], body).await?)?;
        Ok(groups.data)
    }

    /// Creates a new result set on the server, with an SQL query over this result set. To fetch the new result set,
    /// call [`derived`](Self::derived).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`stats`](Self::stats). If the server rejects the query, the error contains the server's
    /// code and message.
    pub async fn query(&self, request: &QueryRequest) -> Result<DerivedBody> {
        read(&self.inner.ask_below(Method::POST, &["query"], written(request)?).await?)
    }

    /// Sends a request to a path below the result set's URL, and returns the JSON of the response. If the result set
    /// is not ready, the client retries. An empty `path` is the URL of the result set.
    ///
    /// Use this method for operations for which this crate has no method, and for servers whose JSON differs slightly.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch).
    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes> {
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let body = body.map_or_else(Bytes::new, super::parsed::body);
        self.inner.ask_below(method, &path, body).await
    }

    /// Sends a `GET` request with these query parameters to a path below the result set's URL. The response can have
    /// any media type, and its body is not read yet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch).
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<FetchResponse> {
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut target = self.inner.below(&path)?;
        if !query.is_empty() {
            target.url.query_pairs_mut().extend_pairs(query);
        }
        self.inner.within(self.inner.send_to(&target, Method::GET, "*/*", Bytes::new())).await
    }

    /// Creates a handle to the new result set that [`query`](Self::query) returned, so that you can fetch its rows.
    #[must_use]
    pub fn derived(&self, derived: &DerivedBody) -> Self {
        Self::new(std::sync::Arc::clone(&self.inner.setup), derived.into())
    }
}

impl Inner {
    /// Sends a request to a path below the result set's URL, and waits while the set is not ready.
    async fn ask_below(&self, method: Method, path: &[&str], body: Bytes) -> Result<Bytes> {
        self.ask_at(&self.below(path)?, method, body).await
    }

    /// Returns the URL of a path below the result set's URL. The URL keeps its query string, which can contain a
    /// signed link.
    pub(super) fn below(&self, path: &[&str]) -> Result<Target> {
        let mut target = self.target()?.clone();
        match target.url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
            Err(()) => {
                return Err(DualResponseClientError::Config(
                    "the URL of the result set cannot have a path; use an `https://` URL".to_owned(),
                ));
            }
        }
        Ok(target)
    }
}

fn written<T: Serialize>(body: &T) -> Result<Bytes> {
    let body = serde_json::to_vec(body);
    Ok(body.map_err(|error| DualResponseClientError::Config(error.to_string()))?.into())
}
