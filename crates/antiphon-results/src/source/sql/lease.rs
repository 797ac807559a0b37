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

/// A connection of the pool's, for one statement, for a time.
pub(super) struct Lease<DB: Dialect> {
    pub(super) connection: Held<DB>,
    pub(super) deadline: Instant,
    /// Whether it compares with a value or sorts by a column that somebody outside chose.
    pub(super) asked: bool,
    limit: Duration,
    doing: &'static str,
}

/// A connection that is closed when it is dropped, unless its statement has ended. In the pool it would make the next
/// one wait for the rest; and whoever asked may leave at any time.
pub(super) struct Held<DB: Dialect> {
    /// Is there until it is dropped.
    connection: Option<PoolConnection<DB>>,
    guard: Option<Guard>,
    ended: bool,
}

impl<DB: Dialect> Deref for Held<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.connection.as_ref().expect("it is there until it is dropped")
    }
}

impl<DB: Dialect> DerefMut for Held<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.connection.as_mut().expect("it is there until it is dropped")
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

/// What can go wrong with a statement.
pub(super) enum Failure {
    /// The database failed, or the connection to it.
    Database(sqlx::Error),
    /// We did.
    Sql(SqlError),
}

impl Failure {
    /// A row that is not what [`Rows`](crate::Rows) take.
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

    /// Gives the connection back, unless the statement was given up.
    pub(super) fn end<T>(mut self, ended: Result<Result<T, Failure>, Elapsed>) -> Result<T, SqlError> {
        let (limit, doing) = (self.limit, self.doing);
        self.connection.ended = ended.is_ok();
        match ended {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Sql(error))) => Err(error),
            Ok(Err(Failure::Database(error))) if gave_up::<DB>(&error) => Err(SqlError::Timeout { limit }),
            Ok(Err(Failure::Database(error))) if self.asked && refused::<DB>(&error) => {
                Err(SqlError::invalid("the database cannot compare with this value, or sort by this column"))
            }
            Ok(Err(Failure::Database(error))) => Err(SqlError::Database { doing, source: error.into() }),
            Err(_) => Err(SqlError::Timeout { limit }),
        }
    }
}

/// Whether the server itself found that the statement took too long.
fn gave_up<DB: Dialect>(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| DB::is_timeout(error))
}

/// Whether the server refused what was asked.
fn refused<DB: Dialect>(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| DB::is_refusal(error))
}
