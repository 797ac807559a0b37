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

/// A query over result sets, and what its answer is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[must_use]
pub struct QueryRequest {
    /// The query. The set itself is the table `result`.
    pub sql: String,
    /// What people call the new set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Other sets of the same owner, by the name each has in the query.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub tables: std::collections::BTreeMap<String, String>,
    /// How many rows the preview has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u64>,
}

impl QueryRequest {
    /// This query over one set.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), ..Self::default() }
    }

    /// Names the new set.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Makes another set known to the query as `name`.
    pub fn with_table(mut self, name: impl Into<String>, id: impl Into<String>) -> Self {
        self.tables.insert(name.into(), id.into());
        self
    }

    /// Sets how many rows the preview has.
    pub fn with_sample(mut self, rows: u64) -> Self {
        self.sample = Some(rows);
        self
    }
}

impl ParsedDualResponse {
    /// Asks the server what it knows of the set, whatever state it is in, and where its parts are.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn manifest(&self) -> Result<SetManifest> {
        read(&self.inner.ask_below(Method::GET, &["manifest"], Bytes::new()).await?)
    }

    /// Asks the server what is in each column.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), and when the set's rows are not saved.
    pub async fn stats(&self) -> Result<Vec<ColumnStats>> {
        let stats: StatsBody = read(&self.inner.ask_below(Method::GET, &["stats"], Bytes::new()).await?)?;
        Ok(stats.columns)
    }

    /// Has the server group and measure the rows.
    ///
    /// # Errors
    ///
    /// As for [`stats`](Self::stats).
    pub async fn aggregate(&self, aggregate: &Aggregate) -> Result<Vec<Row>> {
        #[derive(Deserialize)]
        struct Groups {
            data: Vec<Row>,
        }
        let body = written(aggregate)?;
        let groups: Groups = read(&self.inner.ask_below(Method::POST, &["aggregate"], body).await?)?;
        Ok(groups.data)
    }

    /// Has the server make a new set by a query over this one, and says what it is. The new set is fetched like any
    /// other: by [`derived`](Self::derived).
    ///
    /// # Errors
    ///
    /// As for [`stats`](Self::stats), and when the query is refused: the error has the server's code, and its words.
    pub async fn query(&self, request: &QueryRequest) -> Result<DerivedBody> {
        read(&self.inner.ask_below(Method::POST, &["query"], written(request)?).await?)
    }

    /// Sends a request to a path below the set's address, waits while the set is not ready, and returns the JSON of the
    /// answer. An empty `path` is the set itself.
    ///
    /// For what this client has no method for, and for servers whose JSON is not exactly ours.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes> {
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let body = body.map_or_else(Bytes::new, super::parsed::body);
        self.inner.ask_below(method, &path, body).await
    }

    /// Requests a path below the set's address with more in its query, and returns the head of the answer, whatever its
    /// media type.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch).
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<FetchResponse> {
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut target = self.inner.below(&path)?;
        if !query.is_empty() {
            target.url.query_pairs_mut().extend_pairs(query);
        }
        self.inner.within(self.inner.send_to(&target, Method::GET, "*/*", Bytes::new())).await
    }

    /// A set that a query over this one has made, to be fetched.
    #[must_use]
    pub fn derived(&self, derived: &DerivedBody) -> Self {
        Self::new(std::sync::Arc::clone(&self.inner.setup), derived.into())
    }
}

impl Inner {
    /// Asks for what is below the set's address, and waits while it is not ready.
    async fn ask_below(&self, method: Method, path: &[&str], body: Bytes) -> Result<Bytes> {
        self.ask_at(&self.below(path)?, method, body).await
    }

    /// What is below the set's address, with the query that it has: a link may be in it.
    pub(super) fn below(&self, path: &[&str]) -> Result<Target> {
        let mut target = self.target()?.clone();
        match target.url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
            Err(()) => return Err(DualResponseClientError::Config("the set's URL has no path".to_owned())),
        }
        Ok(target)
    }
}

fn written<T: Serialize>(body: &T) -> Result<Bytes> {
    let body = serde_json::to_vec(body);
    Ok(body.map_err(|error| DualResponseClientError::Config(error.to_string()))?.into())
}
