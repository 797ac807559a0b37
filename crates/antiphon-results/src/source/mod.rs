//! The sources of the rows of a result set.

mod closure;
mod registry;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::Value;

pub use self::closure::Closures;
pub(crate) use self::registry::Queries;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[doc(hidden)]
pub use self::sql::Dialect;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use self::sql::{SqlError, SqlQuery};
use crate::{
    column::ColumnDefinition,
    error::{BoxError, DualResponseError},
    page::Sort,
    rows::Rows,
    snapshot::RowSource,
};

/// Converts the error of a source to a [`DualResponseError`]. Errors for invalid requests and for timeouts become
/// separate variants.
pub(crate) fn failed(error: BoxError) -> DualResponseError {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    match error.downcast_ref::<SqlError>() {
        Some(SqlError::Invalid(text)) => return DualResponseError::Invalid(text.clone()),
        Some(SqlError::Timeout { limit }) => return DualResponseError::Timeout { limit: *limit },
        _ => {}
    }
    DualResponseError::Query(error)
}

/// A query that every replica registers under the same name.
///
/// A result set of a named query stores only the name and the parameters of the query. So any replica can read the
/// pages of the result set, even after the process that created the set has stopped.
///
/// # Contract
///
/// - [`page`](Self::page) returns up to `limit` rows. The rows of a page are ordered by the requested sort, and then
///   by the key if the query has a key. The order of the rows is stable while the data does not change.
/// - If [`PageRequest::after`] is set, the page starts after the row with the values in `after`, and the query ignores
///   `offset`.
/// - The values in `parameters`, `sort` and `after` come from clients. Bind values from clients as parameters, and
///   never insert these values into SQL text. The server has already checked that the sort column is one of
///   [`columns`](Self::columns).
#[async_trait]
pub trait Query: fmt::Debug + Send + Sync + 'static {
    /// Returns the columns of the rows.
    fn columns(&self) -> &[ColumnDefinition];

    /// Returns the key: the columns that together identify a row. The values of the key columns must be unique
    /// together, and never null. With a key, each page starts after the last row of the previous page. If the list of
    /// key columns is empty, each page starts at an offset.
    fn key(&self) -> &[String];

    /// Returns whether the query can sort its rows.
    fn sorts(&self) -> bool;

    /// Returns the number of rows of the query with these parameters.
    async fn count(&self, parameters: &Value) -> Result<u64, BoxError>;

    /// Returns a page of rows of the query with these parameters.
    async fn page(&self, parameters: &Value, page: &PageRequest) -> Result<Rows, BoxError>;
}

/// An `Arc` of a query is also a query.
#[async_trait]
impl<Q: Query + ?Sized> Query for Arc<Q> {
    fn columns(&self) -> &[ColumnDefinition] {
        (**self).columns()
    }

    fn key(&self) -> &[String] {
        (**self).key()
    }

    fn sorts(&self) -> bool {
        (**self).sorts()
    }

    async fn count(&self, parameters: &Value) -> Result<u64, BoxError> {
        (**self).count(parameters).await
    }

    async fn page(&self, parameters: &Value, page: &PageRequest) -> Result<Rows, BoxError> {
        (**self).page(parameters, page).await
    }
}

/// A request for a page of rows, which the server passes to a source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageRequest {
    /// Position of the first row, counted from 0.
    pub offset: u64,
    /// Maximum number of rows.
    pub limit: u64,
    /// Sort column and direction. Without a sort, the source uses its default order.
    pub sort: Option<Sort>,
    /// Values from the last row of the previous page: the value in the sort column, and the values in the key columns.
    /// If `after` is set, the page starts after the row with these values. Without a sort, `after` contains only the
    /// values in the key columns.
    pub after: Option<Vec<Value>>,
    /// Size in bytes after which the source can end the page before the page has `limit` rows. The server requests the
    /// remaining rows later. If a page has fewer than `limit` rows and fewer than `max_bytes` bytes, the source has no
    /// more rows.
    pub max_bytes: usize,
}

impl PageRequest {
    /// Creates a request for `limit` rows, starting at `offset`.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { offset, limit, sort: None, after: None, max_bytes: usize::MAX }
    }

    /// Sets the sort column and direction. Default: none.
    #[must_use]
    pub fn with_sort(mut self, sort: Option<Sort>) -> Self {
        self.sort = sort;
        self
    }

    /// Sets the size in bytes after which the source can end the page before the page has `limit` rows. Default:
    /// `usize::MAX`.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the values of the row after which the page starts. Default: none.
    #[must_use]
    pub fn with_after(mut self, after: Option<Vec<Value>>) -> Self {
        self.after = after;
        self
    }
}

/// The source of a result set's rows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Source {
    /// In-memory rows. The server saves the rows in its store of result sets, and reads every page from the store.
    Rows(Rows),
    /// A named query with its parameters (a live query). The server runs the query again for every page.
    Query {
        /// Registered name of the query.
        name: String,
        /// Parameters of the query.
        parameters: Value,
    },
    /// Closures of this process. The server rejects closures if its store is shared with other processes.
    Closures(Arc<Closures>),
    /// Rows that the server saves as a snapshot. The rows are read from their source once, and every page is read from
    /// the snapshot.
    Snapshot(Arc<Mutex<Option<RowSource>>>),
}

impl Source {
    /// Creates a source of in-memory rows.
    pub fn rows(rows: Rows) -> Self {
        Self::Rows(rows)
    }

    /// Creates a source whose rows the server saves as a snapshot.
    pub fn snapshot(row_source: impl Into<RowSource>) -> Self {
        Self::Snapshot(Arc::new(Mutex::new(Some(row_source.into()))))
    }

    /// Creates a source from a named query and its parameters.
    pub fn query(name: impl Into<String>, parameters: Value) -> Self {
        Self::Query { name: name.into(), parameters }
    }
}
