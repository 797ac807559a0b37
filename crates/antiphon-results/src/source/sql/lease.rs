use std::time::Duration;

use sqlx::{Pool, pool::PoolConnection};
use tokio::time::{Instant, error::Elapsed, timeout_at};

use super::{
    SqlError,
    dialect::{Dialect, Guard},
};
use crate::error::BoxError;

/// A connection of the pool's, for one statement, for a time.
pub(super) struct Lease<DB: Dialect> {
    pub(super) connection: PoolConnection<DB>,
    pub(super) deadline: Instant,
    limit: Duration,
    doing: &'static str,
    _guard: Option<Guard>,
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
            let mut connection = pool.acquire().await?;
            let guard = DB::guard(&mut connection, limit).await?;
            Ok((connection, guard))
        };
        match timeout_at(deadline, open).await {
            Ok(Ok((connection, guard))) => Ok(Self { connection, deadline, limit, doing, _guard: guard }),
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => Err(SqlError::Timeout { limit }),
            Ok(Err(error)) => Err(SqlError::Database { doing: "be reached", source: error.into() }),
        }
    }

    /// Gives the connection back. One whose statement was given up is closed instead: in the pool, it would
    /// make the next one wait for the rest.
    pub(super) fn end<T>(self, ended: Result<Result<T, Failure>, Elapsed>) -> Result<T, SqlError> {
        let Self { limit, doing, .. } = self;
        match ended {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Sql(error))) => Err(error),
            Ok(Err(Failure::Database(error))) if gave_up::<DB>(&error) => Err(SqlError::Timeout { limit }),
            Ok(Err(Failure::Database(error))) => Err(SqlError::Database { doing, source: error.into() }),
            Err(_) => {
                drop(self.connection.detach());
                Err(SqlError::Timeout { limit })
            }
        }
    }
}

/// Whether the server itself found that the statement took too long.
fn gave_up<DB: Dialect>(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| DB::is_timeout(error))
}
