//! Reads the rows of a database query as JSON, with the column types of the database.
//!
//! The database dialects of `antiphon-results` choose the types of columns and write the values. So a live query and a
//! snapshot return equal values for the same SQL.

use std::{fmt, future::Future};

use antiphon_results::{BoxError, Rows, snapshot::RowSource, source::Dialect};
use futures_util::{
    FutureExt as _, TryStreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt as _},
};
#[cfg(feature = "mysql")]
use sqlx::MySql;
#[cfg(feature = "postgres")]
use sqlx::Postgres;
#[cfg(feature = "sqlite")]
use sqlx::Sqlite;
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, ColumnIndex, Database, Encode, Executor, IntoArguments, Pool,
    SqlSafeStr as _, Statement as _, Type, pool::PoolConnection,
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::json::JsonRows;
use crate::error::{Error, Result};

/// A future that describes the columns of the query and starts to read the rows.
pub(super) type Opening = BoxFuture<'static, Result<JsonRows>>;

/// The size in bytes at which the collected rows are sent to the writer.
const PART_BYTES: usize = 256 * 1024;

/// The number of collected rows at which the rows are sent to the writer.
const PART_ROWS: usize = 1024;

/// A database query as the source of a snapshot's rows. Create a `DatabaseQuery` with `from_postgres`, `from_mysql` or
/// `from_sqlite`.
///
/// The query is one statement, so its rows come from one point in time. Changes to the database during the query are
/// not visible in the rows.
///
/// The query uses one connection until the last row is read. If a `DatabaseQuery` is dropped before the last row is
/// read, its connection is closed, and the query ends.
#[must_use = "a query does nothing until it is taken in"]
pub struct DatabaseQuery<DB: Database> {
    pool: Pool<DB>,
    sql: String,
    arguments: Result<DB::Arguments, BoxError>,
}

/// Creates the source of a snapshot from a PostgreSQL query.
///
/// The SQL is sent to the database unchanged. Pass values with [`bind`](DatabaseQuery::bind), and never insert values
/// into the SQL. The pool must be a connection pool of `sqlx` 0.9.
///
/// Values from PostgreSQL keep their types and all their digits: `numeric` becomes a decimal, `timestamptz` a timestamp
/// in UTC, and `bytea` bytes. Arrays and other composite values become JSON. If a snapshot does not support a
/// PostgreSQL type, values of this type become text in PostgreSQL's output format.
///
/// ```no_run
/// use antiphon_results::Source;
/// use antiphon_snapshot::from_postgres;
///
/// # fn source(pool: sqlx::PgPool) -> Source {
/// Source::snapshot(from_postgres(pool, "SELECT * FROM colleges WHERE state = $1 ORDER BY id").bind("CA"))
/// # }
/// ```
#[cfg(feature = "postgres")]
pub fn from_postgres(pool: sqlx::PgPool, sql: impl Into<String>) -> DatabaseQuery<Postgres> {
    DatabaseQuery::new(pool, sql)
}

/// Creates the source of a snapshot from a MariaDB or MySQL query.
///
/// The SQL is sent to the database unchanged. Pass values with [`bind`](DatabaseQuery::bind), and never insert values
/// into the SQL. The pool must be a connection pool of `sqlx` 0.9.
///
/// Values of these types keep their types and all their digits: unsigned numbers, `DECIMAL`, `DATETIME` (without a
/// zone), `TIMESTAMP` (in UTC), `BLOB`. `TINYINT(1)` becomes a number and not a boolean, because its value can be 2.
/// Text with a binary collation stays text. Values of the MariaDB type `JSON` also stay text. A column with a zero
/// date (`0000-00-00`) becomes text, because no date type can represent a zero date.
///
/// ```no_run
/// use antiphon_results::Source;
/// use antiphon_snapshot::from_mysql;
///
/// # fn source(pool: sqlx::MySqlPool) -> Source {
/// Source::snapshot(from_mysql(pool, "SELECT * FROM colleges WHERE state = ? ORDER BY id").bind("CA"))
/// # }
/// ```
#[cfg(feature = "mysql")]
pub fn from_mysql(pool: sqlx::MySqlPool, sql: impl Into<String>) -> DatabaseQuery<MySql> {
    DatabaseQuery::new(pool, sql)
}

/// Creates the source of a snapshot from a SQLite query.
///
/// The SQL is sent to the database unchanged. Pass values with [`bind`](DatabaseQuery::bind), and never insert values
/// into the SQL. The pool must be a connection pool of `sqlx` 0.9.
///
/// In SQLite, each value has its own type, and the declared type of a column is only a preference. The column of the
/// snapshot gets the type of its values, or JSON if the values have several types. Bytes in a column that was not
/// declared for bytes become text: `\x` and hexadecimal digits.
///
/// ```no_run
/// use antiphon_results::Source;
/// use antiphon_snapshot::from_sqlite;
///
/// # fn source(pool: sqlx::SqlitePool) -> Source {
/// Source::snapshot(from_sqlite(pool, "SELECT * FROM colleges WHERE state = ? ORDER BY id").bind("CA"))
/// # }
/// ```
#[cfg(feature = "sqlite")]
pub fn from_sqlite(pool: sqlx::SqlitePool, sql: impl Into<String>) -> DatabaseQuery<Sqlite> {
    DatabaseQuery::new(pool, sql)
}

impl<DB: Database> DatabaseQuery<DB> {
    fn new(pool: Pool<DB>, sql: impl Into<String>) -> Self {
        Self { pool, sql: sql.into(), arguments: Ok(DB::Arguments::default()) }
    }

    /// Binds a value to the next parameter of the SQL: `$1`, `$2` and so on for PostgreSQL, otherwise the next `?`.
    /// If the value cannot be encoded, the query returns an error when it runs.
    pub fn bind<'t, T: Encode<'t, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.arguments = self.arguments.and_then(|mut arguments| {
            arguments.add(value)?;
            Ok(arguments)
        });
        self
    }
}

/// The debug output omits the SQL and its values.
impl<DB: Database> fmt::Debug for DatabaseQuery<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseQuery").field("database", &DB::NAME).finish_non_exhaustive()
    }
}

impl<DB> DatabaseQuery<DB>
where
    DB: Dialect,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    async fn open(self) -> Result<JsonRows> {
        let arguments = self.arguments.map_err(failed)?;
        let mut lease = Lease::new(self.pool.acquire().await.map_err(failed)?);
        let sql = statement(&self.sql);
        let described =
            lease.connection().map_err(failed)?.prepare(AssertSqlSafe(sql.to_owned()).into_sql_str());
        let described = described.await.map_err(failed)?;
        let columns = described.columns();
        let names = columns.iter().map(|column| serde_json::to_string(column.name()));
        let names: Vec<String> =
            names.collect::<Result<_, _>>().map_err(|error| Error::Broken(error.into()))?;
        let columns = columns.iter().map(|column| DB::stored(column.name(), column.type_info())).collect();
        let sql = DB::stored_rows(sql);
        let parts = rows(|mut sink| async move {
            {
                let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(false);
                let mut rows = query.fetch(lease.connection()?);
                let mut json = Vec::new();
                while let Some(row) = rows.try_next().await? {
                    json.clear();
                    DB::write_stored_row(&row, &names, &mut json)?;
                    sink.push(std::str::from_utf8(&json)?).await?;
                }
            }
            lease.end();
            sink.flush().await
        });
        Ok(JsonRows { columns, parts })
    }
}

impl<DB> From<DatabaseQuery<DB>> for RowSource
where
    DB: Dialect,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    fn from(query: DatabaseQuery<DB>) -> Self {
        let opening: Opening = query.open().boxed();
        Self::Own(Box::new(opening))
    }
}

fn failed(error: impl Into<BoxError>) -> Error {
    Error::Source(error.into())
}

/// Returns the SQL statement without trailing semicolons.
fn statement(sql: &str) -> &str {
    sql.trim().trim_end_matches(|end: char| end == ';' || end.is_whitespace())
}

/// Runs a reader in a separate task, and returns the rows from the reader as a stream. If the stream is dropped, the
/// reader is also dropped.
fn rows<F>(read: impl FnOnce(Sink) -> F) -> BoxStream<'static, Result<Rows, BoxError>>
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(2);
    let reading = read(Sink { sender: sender.clone(), rows: Rows::new() });
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        let ended = tokio::select! {
            ended = reading => ended,
            () = sender.closed() => return,
        };
        if let Err(error) = ended {
            let _ = sender.send(Err(error)).await;
        }
    }));
    stream::unfold((receiver, Some(task)), |(mut receiver, task)| async move {
        if let Some(part) = receiver.recv().await {
            return Some((part, (receiver, task)));
        }
        // If the reader panicked, it sent no error, and the rows are incomplete.
        let broken = task?.await.err()?;
        Some((Err(BoxError::from(broken)), (receiver, None)))
    })
    .boxed()
}

/// Collects the rows of a query, and sends the rows to the writer in parts.
#[derive(Debug)]
struct Sink {
    sender: mpsc::Sender<Result<Rows, BoxError>>,
    rows: Rows,
}

impl Sink {
    /// Adds the JSON text of a row. Waits while the channel to the writer is full.
    async fn push(&mut self, row: &str) -> Result<(), BoxError> {
        self.rows.push_json(row)?;
        // The first rows are sent immediately, because the caller waits for these rows.
        if self.rows.len() >= PART_ROWS || self.rows.bytes() >= PART_BYTES || self.sender.capacity() == 2 {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), BoxError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        Ok(self
            .sender
            .send(Ok(std::mem::take(&mut self.rows)))
            .await
            .map_err(|_| "the writer has stopped")?)
    }
}

/// A connection from a pool. If the result of the query was read completely, the connection returns to the pool. If
/// the result was not read completely, the connection is closed, so that neither client nor server continues the
/// query.
struct Lease<D: Database>(Option<PoolConnection<D>>);

impl<D: Database> Lease<D> {
    fn new(connection: PoolConnection<D>) -> Self {
        Self(Some(connection))
    }

    fn connection(&mut self) -> Result<&mut D::Connection, BoxError> {
        Ok(&mut **self.0.as_mut().ok_or("the database connection is closed")?)
    }

    fn end(mut self) {
        drop(self.0.take());
    }
}

impl<D: Database> Drop for Lease<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

#[cfg(test)]
mod tests {
    use antiphon_results::Rows;
    use futures_util::StreamExt as _;

    use super::rows;

    #[tokio::test]
    async fn a_reader_that_panics_is_an_error_and_not_the_end() {
        let mut parts = rows(|mut sink| async move {
            sink.push("{\"a\":1}").await?;
            sink.flush().await?;
            panic!("the reader is broken");
        });
        assert_eq!(parts.next().await.unwrap().unwrap().len(), 1);
        assert!(parts.next().await.unwrap().is_err());
        assert!(parts.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_ends_is_the_end() {
        let parts = rows(|mut sink| async move {
            sink.push("{\"a\":1}").await?;
            sink.flush().await
        });
        let parts: Vec<Rows> = parts.map(Result::unwrap).collect().await;
        assert_eq!(parts.iter().map(Rows::len).sum::<usize>(), 1);
    }
}
