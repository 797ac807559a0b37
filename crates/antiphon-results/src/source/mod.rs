//! Where rows come from.

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

/// Why a source gave no rows: whoever asked may be wrong, too.
pub(crate) fn failed(error: BoxError) -> DualResponseError {
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    match error.downcast_ref::<SqlError>() {
        Some(SqlError::Invalid(text)) => return DualResponseError::Invalid(text.clone()),
        Some(SqlError::Timeout { limit }) => return DualResponseError::Timeout { limit: *limit },
        _ => {}
    }
    DualResponseError::Query(error)
}

/// A query that every replica knows by name.
///
/// A result set that stands on one keeps the name and the parameters, so any replica can read a page of it
/// after the process that made it has gone.
///
/// # Contract
///
/// - [`page`](Self::page) gives up to `limit` rows, in an order that is the same each time while the data
///   are: by the sort asked for, then by the key, if one is declared.
/// - Where [`PageRequest::after`] is given, the page begins after the row with those values and `offset` is
///   only for information.
/// - Values in `parameters`, `sort` and `after` come from outside: bind them, never splice them. The sort's
///   field has been checked against [`columns`](Self::columns).
#[async_trait]
pub trait Query: fmt::Debug + Send + Sync + 'static {
    /// The columns of its rows.
    fn columns(&self) -> &[ColumnDefinition];

    /// The columns that together are different in each row, never null, and by which pages can go on where
    /// the last one ended. Empty: there are none, and pages are counted off.
    fn key(&self) -> &[String];

    /// Whether it can sort.
    fn sorts(&self) -> bool;

    /// How many rows there are.
    async fn count(&self, parameters: &Value) -> Result<u64, BoxError>;

    /// A page of them.
    async fn page(&self, parameters: &Value, page: &PageRequest) -> Result<Rows, BoxError>;
}

/// A handle on a query is one.
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

/// Which rows a source is asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageRequest {
    /// Where to begin, counted from 0.
    pub offset: u64,
    /// How many rows at most.
    pub limit: u64,
    /// By which column, and which way; without it, in the source's own order.
    pub sort: Option<Sort>,
    /// The values of the sort's column, if there is a sort, and of the key's columns in the last row of the
    /// page before: begin after it.
    pub after: Option<Vec<Value>>,
    /// When the rows have become more bytes than this, the source may stop, whatever `limit` says: the rest is asked
    /// for later. One that stops sooner has no more rows.
    pub max_bytes: usize,
}

impl PageRequest {
    /// `limit` rows from `offset` on.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { offset, limit, sort: None, after: None, max_bytes: usize::MAX }
    }

    /// Sorts them.
    #[must_use]
    pub fn with_sort(mut self, sort: Option<Sort>) -> Self {
        self.sort = sort;
        self
    }

    /// Says how many bytes are enough.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Begins after the row with these values.
    #[must_use]
    pub fn with_after(mut self, after: Option<Vec<Value>>) -> Self {
        self.after = after;
        self
    }
}

/// What a result set is made from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Source {
    /// Rows in hand: they are kept, and every page comes from them.
    Rows(Rows),
    /// A named query with its parameters: every page runs it.
    Query {
        /// The name it is registered under.
        name: String,
        /// Its parameters.
        parameters: Value,
    },
    /// Closures that only this process has. A store that others share refuses them.
    Closures(Arc<Closures>),
    /// Rows that are saved as they come, and come once: every page comes from what was saved.
    Snapshot(Arc<Mutex<Option<RowSource>>>),
}

impl Source {
    /// Rows in hand.
    pub fn rows(rows: Rows) -> Self {
        Self::Rows(rows)
    }

    /// Rows that are saved as they come.
    pub fn snapshot(row_source: impl Into<RowSource>) -> Self {
        Self::Snapshot(Arc::new(Mutex::new(Some(row_source.into()))))
    }

    /// A named query.
    pub fn query(name: impl Into<String>, parameters: Value) -> Self {
        Self::Query { name: name.into(), parameters }
    }
}
