use antiphon_results::{BoxError, ColumnDefinition, ColumnType, snapshot::Intake};
use futures_util::{FutureExt as _, TryStreamExt as _};
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, Encode, Executor as _, PgPool, Postgres, Row as _,
    SqlSafeStr as _, Statement as _, Type, TypeInfo as _, postgres::PgArguments,
};

use super::{JsonRows, Lease, failed, intake, rows, statement};
use crate::{error::Result, ingest::json::Hint};

/// The rows of a query of PostgreSQL on their way into a snapshot.
///
/// One statement is one instant: what changes while it is read does not show. Values keep their types and all their
/// digits: `numeric` is a decimal, `timestamptz` a moment in UTC, `bytea` bytes; arrays and what else is made of
/// parts are JSON; what has no type here is the text that PostgreSQL shows.
///
/// It holds one connection until the last row is read. Dropped before that, the connection is closed and the query ends.
#[derive(Debug)]
#[must_use = "a query does nothing until it is taken in"]
pub struct PostgresQuery {
    pool: PgPool,
    sql: String,
    arguments: Result<PgArguments, BoxError>,
}

/// The rows of a query. It is sent as it is given: put values in with [`bind`](PostgresQuery::bind), and never into
/// its text. The pool is one of `sqlx` 0.9.
///
/// ```no_run
/// use antiphon_results::Source;
/// use antiphon_snapshot::from_postgres;
///
/// # fn source(pool: sqlx::PgPool) -> Source {
/// Source::snapshot(from_postgres(pool, "SELECT * FROM colleges WHERE state = $1 ORDER BY id").bind("CA"))
/// # }
/// ```
pub fn from_postgres(pool: PgPool, sql: impl Into<String>) -> PostgresQuery {
    PostgresQuery { pool, sql: sql.into(), arguments: Ok(PgArguments::default()) }
}

impl PostgresQuery {
    /// Gives the next of `$1`, `$2` and so on. One that cannot be sent is an error when the query is.
    pub fn bind<'t, T: Encode<'t, Postgres> + Type<Postgres>>(mut self, value: T) -> Self {
        self.arguments = self.arguments.and_then(|mut arguments| {
            arguments.add(value)?;
            Ok(arguments)
        });
        self
    }

    async fn open(self) -> Result<JsonRows> {
        let arguments = self.arguments.map_err(failed)?;
        let mut lease = Lease::new(self.pool.acquire().await.map_err(failed)?);
        let sql = statement(&self.sql);
        let described =
            lease.connection().map_err(failed)?.prepare(AssertSqlSafe(sql.to_owned()).into_sql_str());
        let described = described.await.map_err(failed)?;
        let columns =
            described.columns().iter().map(|column| describe(column.name(), column.type_info().name()));
        let columns = columns.collect();
        // PostgreSQL writes every value it has as JSON, and no digit less. A comment may end the statement.
        let sql =
            format!("SELECT pg_catalog.row_to_json(antiphon_row)::text FROM (\n{sql}\n) AS antiphon_row");
        let parts = rows(|mut sink| async move {
            {
                let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(false);
                let mut rows = query.fetch(lease.connection()?);
                while let Some(row) = rows.try_next().await? {
                    sink.push(row.try_get(0)?).await?;
                }
            }
            lease.end();
            sink.flush().await
        });
        Ok(JsonRows { columns, parts })
    }
}

impl From<PostgresQuery> for Intake {
    fn from(query: PostgresQuery) -> Self {
        intake(query.open().boxed())
    }
}

/// What PostgreSQL says of a column.
fn describe(name: &str, kind: &str) -> (ColumnDefinition, Hint) {
    let (kind, hint, format) = match kind {
        "BOOL" => (ColumnType::Boolean, Hint::Boolean, None),
        "INT2" | "INT4" | "INT8" | "OID" => (ColumnType::Integer, Hint::Integer, None),
        "FLOAT4" | "FLOAT8" => (ColumnType::Number, Hint::Float, None),
        "NUMERIC" => (ColumnType::Number, Hint::Number, None),
        "DATE" => (ColumnType::Date, Hint::Date, None),
        "TIMESTAMP" | "TIMESTAMPTZ" => (ColumnType::Timestamp, Hint::Timestamp, None),
        "JSON" | "JSONB" | "RECORD" => (ColumnType::Json, Hint::Json, None),
        "BYTEA" => (ColumnType::String, Hint::Hex, Some("base64")),
        "UUID" => (ColumnType::String, Hint::None, Some("uuid")),
        kind if kind.ends_with("[]") => (ColumnType::Json, Hint::Json, None),
        _ => (ColumnType::String, Hint::None, None),
    };
    let mut column = ColumnDefinition::new(name, kind);
    column.format = format.map(Into::into);
    (column, hint)
}
