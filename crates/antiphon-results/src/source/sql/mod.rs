//! Queries on PostgreSQL, MariaDB, MySQL and SQLite.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod decimal;
mod dialect;
mod error;
mod lease;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod moment;
#[cfg(feature = "mysql")]
mod mysql;
mod parameters;
#[cfg(feature = "postgres")]
mod postgres;
mod run;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement;
mod write;

use std::{
    fmt,
    sync::{Arc, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::Value;
use sqlx::{ColumnIndex, Executor, IntoArguments, Pool};

/// What one database does differently from the others. It is public for the crate that saves rows as a snapshot.
#[doc(hidden)]
pub use self::dialect::Dialect;
pub use self::error::SqlError;
use self::run::Plan;
use super::{PageRequest, Query};
use crate::{column::ColumnDefinition, error::BoxError, rows::Rows};

/// How long a statement may take if nobody says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A [`Query`] that is SQL, on a pool of `sqlx`.
///
/// The SQL is the author's, is fixed when the program starts, and is trusted. All else is bound: parameters,
/// places to go on from, numbers of rows. Names of columns come only from the declared ones, and are quoted.
///
#[doc = include_str!("docs.md")]
pub struct SqlQuery<DB: Dialect> {
    pool: Pool<DB>,
    sql: String,
    count: Option<String>,
    parameters: Vec<String>,
    columns: Vec<ColumnDefinition>,
    key: Vec<String>,
    timeout: Duration,
    /// What the database says of the statement, once it was asked.
    plan: RwLock<Option<Arc<Plan<DB>>>>,
}

impl<DB: Dialect> SqlQuery<DB> {
    fn new(pool: Pool<DB>, sql: impl Into<String>) -> Self {
        Self {
            pool,
            sql: trimmed(sql.into()),
            count: None,
            parameters: Vec::new(),
            columns: Vec::new(),
            key: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            plan: RwLock::default(),
        }
    }

    /// Names the parameters: the members of the JSON parameters that are bound, in this order. Default: none.
    #[must_use]
    pub fn with_parameters<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.parameters = names.into_iter().map(Into::into).collect();
        self
    }

    /// Declares the columns: which are sent, in which order, and by which rows can be sorted.
    /// Default: all that the SQL gives are sent, and none can be sorted by.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = ColumnDefinition>) -> Self {
        self.columns = columns.into_iter().collect();
        self
    }

    /// Says which columns together are different in each row, and never null. They must be declared.
    /// Default: none, and pages are counted off.
    #[must_use]
    pub fn with_key<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.key = names.into_iter().map(Into::into).collect();
        self
    }

    /// Counts with this SQL, which has the same parameters and gives one whole number.
    /// Default: `count(*)` over the query.
    #[must_use]
    pub fn with_count(mut self, sql: impl Into<String>) -> Self {
        self.count = Some(trimmed(sql.into()));
        self
    }

    /// Gives a statement up after this time, the wait for a connection included. Default: 30 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<DB> SqlQuery<DB>
where
    DB: Dialect,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    /// Asks the database to prepare the query, so that a mistake is found when the program starts. Without
    /// this it is asked at the first page.
    ///
    /// # Errors
    ///
    /// When the database refuses it, or when columns, key or parameters are not those of the SQL.
    pub async fn check(&self) -> Result<(), SqlError> {
        self.prepare().await.map(drop)
    }
}

#[async_trait]
impl<DB> Query for SqlQuery<DB>
where
    DB: Dialect,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    fn key(&self) -> &[String] {
        &self.key
    }

    fn sorts(&self) -> bool {
        !self.columns.is_empty()
    }

    async fn count(&self, parameters: &Value) -> Result<u64, BoxError> {
        Ok(self.read_count(parameters).await?)
    }

    async fn page(&self, parameters: &Value, page: &PageRequest) -> Result<Rows, BoxError> {
        Ok(self.read_page(parameters, page).await?)
    }
}

/// Without the SQL: it is long, and it is the author's.
impl<DB: Dialect> fmt::Debug for SqlQuery<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlQuery")
            .field("parameters", &self.parameters)
            .field("columns", &self.columns)
            .field("key", &self.key)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Without the semicolon that ends a statement: it will be part of another.
fn trimmed(sql: String) -> String {
    let end = sql.trim_end_matches(|character: char| character == ';' || character.is_whitespace()).len();
    let mut sql = sql;
    sql.truncate(end);
    sql
}
