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

/// The SQL syntax, the types and the protocol features of one database. The trait `Dialect` is public because the
/// crate `antiphon-snapshot` needs it.
#[doc(hidden)]
pub use self::dialect::Dialect;
pub use self::error::SqlError;
use self::run::Plan;
use super::{PageRequest, Query};
use crate::{column::ColumnDefinition, error::BoxError, rows::Rows};

/// The default timeout of a statement.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A [`Query`] in SQL that runs on a connection pool of `sqlx`.
///
/// The SQL is trusted, because the author of the program writes the SQL. All input from clients is bound as
/// parameters: query parameters, cursors and numbers of rows. Column names in generated SQL come only from the
/// declared columns, and are quoted.
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
    /// Description of the statement, as the database returned it. The value is `None` until the first use of the
    /// statement.
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

    /// Sets the names of the query's parameters, in the order in which they are bound. Each parameter name is a member
    /// of the JSON parameters. Default: none.
    #[must_use]
    pub fn with_parameters<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.parameters = names.into_iter().map(Into::into).collect();
        self
    }

    /// Declares the columns. The server sends only the declared columns, in the declared order. Clients can sort rows
    /// only by declared columns. Default: all columns of the SQL are sent, and rows cannot be sorted.
    #[must_use]
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = ColumnDefinition>) -> Self {
        self.columns = columns.into_iter().collect();
        self
    }

    /// Sets the key: the columns that together identify a row. The key columns must be unique together, never null,
    /// and declared with [`with_columns`](Self::with_columns). Default: no key, and each page starts at an offset.
    #[must_use]
    pub fn with_key<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.key = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the SQL that counts the rows. The SQL for the count must have the same parameters as the query, and return
    /// one integer. Default: `count(*)` over the query.
    #[must_use]
    pub fn with_count(mut self, sql: impl Into<String>) -> Self {
        self.count = Some(trimmed(sql.into()));
        self
    }

    /// Sets the timeout of a statement, including the wait for a connection. Default: 30 s.
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
    /// Prepares the query on the database. Call this method when the program starts, to find errors early. If you do
    /// not call `check`, the first read prepares the query.
    ///
    /// # Errors
    ///
    /// Returns [`SqlError`] if the database rejects the query, or if columns, key or parameters do not match the SQL.
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

/// The debug output omits the SQL, because the SQL can be long and is private to the author of the program.
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

/// Removes the semicolon at the end of the SQL, because the SQL becomes part of another statement.
fn trimmed(sql: String) -> String {
    let end = sql.trim_end_matches(|character: char| character == ';' || character.is_whitespace()).len();
    let mut sql = sql;
    sql.truncate(end);
    sql
}
