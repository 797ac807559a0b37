use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use sqlx::{Pool, pool::PoolConnection};
use tokio::time::{Instant, error::Elapsed, timeout_at};

use super::{
    SqlError,
    dialect::{Dialect, Guard},
};
use crate::error::BoxError;

/// A pooled connection for one statement, with a deadline.
pub(super) struct Lease<DB: Dialect> {
    pub(super) connection: Held<DB>,
    pub(super) deadline: Instant,
    /// Whether the statement compares with a value from the request, or sorts by a column from the request.
    pub(super) asked: bool,
    limit: Duration,
    doing: &'static str,
}

/// A connection that is closed on drop, unless its statement has ended. A caller can cancel its request at any time, so
/// a statement can remain unfinished. If a connection with an unfinished statement returned to the pool, the unfinished
/// statement would delay the next statement.
pub(super) struct Held<DB: Dialect> {
    /// The connection from the pool, which is `Some` until the `Held` value is dropped.
    connection: Option<PoolConnection<DB>>,
    guard: Option<Guard>,
    ended: bool,
}

impl<DB: Dialect> Deref for Held<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.connection.as_ref().expect("the connection exists until the drop")
    }
}

impl<DB: Dialect> DerefMut for Held<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.connection.as_mut().expect("the connection exists until the drop")
    }
}

impl<DB: Dialect> Drop for Held<DB> {
    fn drop(&mut self) {
        if let Some(guard) = &self.guard {
            if self.ended { guard.end() } else { guard.give_up() }
        }
        if !self.ended {
            drop(self.connection.take().map(PoolConnection::detach));
        }
    }
}

/// The reason why a statement failed.
pub(super) enum Failure {
    /// An error of the database or its connection.
    Database(sqlx::Error),
    /// An error of this crate.
    Sql(SqlError),
}

impl Failure {
    /// Creates the error for a row that [`Rows`](crate::Rows) rejects.
    pub(super) fn row(source: impl Into<BoxError>) -> Self {
        Self::Sql(SqlError::value("*", source))
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl<DB: Dialect> Lease<DB> {
    pub(super) async fn new(pool: &Pool<DB>, limit: Duration, doing: &'static str) -> Result<Self, SqlError> {
        let deadline = Instant::now() + limit;
        let open = async {
            let connection = Some(pool.acquire().await?);
            let mut held = Held { connection, guard: None, ended: false };
            held.guard = DB::guard(&mut held, limit).await?;
            Ok(held)
        };
        match timeout_at(deadline, open).await {
            Ok(Ok(connection)) => Ok(Self { connection, deadline, asked: false, limit, doing }),
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => Err(SqlError::Timeout { limit }),
            Ok(Err(error)) => Err(SqlError::Database { doing: "be reached", source: error.into() }),
        }
    }

    /// Ends the lease and returns the result of the statement. A failure becomes a [`SqlError`]. Returns the connection
    /// to the pool, unless the statement timed out.
    pub(super) fn end<T>(mut self, ended: Result<Result<T, Failure>, Elapsed>) -> Result<T, SqlError> {
        let (limit, doing) = (self.limit, self.doing);
        self.connection.ended = ended.is_ok();
        match ended {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Sql(error))) => Err(error),
            Ok(Err(Failure::Database(error))) if gave_up::<DB>(&error) => Err(SqlError::Timeout { limit }),
            Ok(Err(Failure::Database(error))) if self.asked && refused::<DB>(&error) => {
                Err(SqlError::invalid("the database rejected the cursor value or the sort column"))
            }
            Ok(Err(Failure::Database(error))) => Err(SqlError::Database { doing, source: error.into() }),
            Err(_) => Err(SqlError::Timeout { limit }),
        }
    }
}

/// Returns whether the server itself stopped the statement because of a timeout.
fn gave_up<DB: Dialect>(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| DB::is_timeout(error))
}

/// Returns `true` if the server rejected a value or a sort that came from the request.
fn refused<DB: Dialect>(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| DB::is_refusal(error))
}
