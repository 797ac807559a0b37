//! The rows of a query, as a database gives them: as JSON, with what the database says of the columns.
//!
//! The dialects of `antiphon-results` decide the types and write the values, so that a set has the same values, whether
//! it is a query or a snapshot.

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

/// Asks the database what the columns are, and begins to read.
pub(super) type Opening = BoxFuture<'static, Result<JsonRows>>;

/// How many bytes of rows are handed over at once.
const PART_BYTES: usize = 256 * 1024;

/// How many rows.
const PART_ROWS: usize = 1024;

/// The rows of a query on their way into a snapshot. `from_postgres`, `from_mysql` and `from_sqlite` make one.
///
/// One statement is one instant: what changes while it is read does not show.
///
/// It holds one connection until the last row is read. Dropped before that, the connection is closed and the query ends.
#[must_use = "a query does nothing until it is taken in"]
pub struct DatabaseQuery<DB: Database> {
    pool: Pool<DB>,
    sql: String,
    arguments: Result<DB::Arguments, BoxError>,
}

/// The rows of a query of PostgreSQL. It is sent as it is given: put values in with [`bind`](DatabaseQuery::bind), and
/// never into its text. The pool is one of `sqlx` 0.9.
///
/// Values keep their types and all their digits: `numeric` is a decimal, `timestamptz` a moment in UTC, `bytea` bytes;
/// arrays and what else is made of parts are JSON; what has no type here is the text that PostgreSQL shows.
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

/// The rows of a query of MariaDB or MySQL. It is sent as it is given: put values in with
/// [`bind`](DatabaseQuery::bind), and never into its text. The pool is one of `sqlx` 0.9.
///
/// Values keep their types and all their digits: unsigned numbers, `DECIMAL`, `DATETIME` (without a zone), `TIMESTAMP`
/// (in UTC), `BLOB`. `TINYINT(1)` is a number, since it may be 2. Text with a binary collation is text, and so is `JSON`
/// of MariaDB. A column with a date of zeros (`0000-00-00`) is text, since no type of dates has it.
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

/// The rows of a query of SQLite. It is sent as it is given: put values in with [`bind`](DatabaseQuery::bind), and never
/// into its text. The pool is one of `sqlx` 0.9.
///
/// SQLite says of each value what it is, and of a column only what it was meant for. So a column is what its values
/// are, and JSON where they are of several kinds. Bytes in a column that was not meant for them are text: `\x` and
/// hexadecimal.
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

    /// Gives the next parameter: `$1`, `$2` and so on for PostgreSQL, else the next `?`. One that cannot be sent is an
    /// error when the query is.
    pub fn bind<'t, T: Encode<'t, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.arguments = self.arguments.and_then(|mut arguments| {
            arguments.add(value)?;
            Ok(arguments)
        });
        self
    }
}

/// Without the SQL and its values.
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

/// The statement without what would end it too soon.
fn statement(sql: &str) -> &str {
    sql.trim().trim_end_matches(|end: char| end == ';' || end.is_whitespace())
}

/// Rows from whoever reads the database. When nobody takes them any more, the reader is dropped.
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
        // A reader that panicked has not said so, and what it gave is not the whole.
        let broken = task?.await.err()?;
        Some((Err(BoxError::from(broken)), (receiver, None)))
    })
    .boxed()
}

/// Where rows go.
#[derive(Debug)]
struct Sink {
    sender: mpsc::Sender<Result<Rows, BoxError>>,
    rows: Rows,
}

impl Sink {
    /// Takes the text of a row. Waits while nobody takes what there is.
    async fn push(&mut self, row: &str) -> Result<(), BoxError> {
        self.rows.push_json(row)?;
        // The first rows go at once: somebody waits for them.
        if self.rows.len() >= PART_ROWS || self.rows.bytes() >= PART_BYTES || self.sender.capacity() == 2 {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), BoxError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        Ok(self.sender.send(Ok(std::mem::take(&mut self.rows))).await.map_err(|_| "nobody takes the rows")?)
    }
}

/// A connection that goes back to its pool only when its answer was read to the end. Else it is closed, so that
/// neither side goes on with what nobody wants.
struct Lease<D: Database>(Option<PoolConnection<D>>);

impl<D: Database> Lease<D> {
    fn new(connection: PoolConnection<D>) -> Self {
        Self(Some(connection))
    }

    fn connection(&mut self) -> Result<&mut D::Connection, BoxError> {
        Ok(&mut **self.0.as_mut().ok_or("the connection is gone")?)
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
