use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};
use tokio::time::timeout;

use super::{BACKEND, PostgresConfig};
use crate::error::{Error, Result};

/// The migrations of the schema, in order. A released migration file must never be changed, because databases store the
/// digest of the file.
///
/// Replicas of the previous release continue to run during and after a migration. So a migration can only add objects
/// or replace the body of a function. A migration must not take a lock that writers wait for.
const FILES: [(i64, &str, &str); 2] = [
    (1, "records, logs, jobs", include_str!("../../migrations/0001_records_logs_jobs.sql")),
    (2, "depth, lazy claims, bulk removal", include_str!("../../migrations/0002_depth_claims_removal.sql")),
];

/// Migrates the schema, or checks that the schema is up to date.
pub(super) async fn prepare(config: &PostgresConfig, migrate: bool) -> Result<()> {
    let mut connection = connect(config).await?;
    if migrate {
        run(&mut connection, &config.schema).await.map_err(failed)?;
    } else {
        verify(&mut connection, config).await?;
    }
    // The migration is complete, so this code ignores an error when the connection is closed.
    connection.close().await.ok();
    Ok(())
}

/// Converts a migration error. If the server is a standby, the error is temporary, because the same address can soon
/// lead to the primary.
fn failed(error: MigrateError) -> Error {
    let cause = match &error {
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => cause.as_database_error(),
        _ => None,
    };
    let code = cause.and_then(sqlx::error::DatabaseError::code);
    if code.as_deref() == Some(READ_ONLY) {
        return Error::busy(BACKEND, error);
    }
    let is_refused = code.as_deref().is_some_and(|code| REFUSALS.iter().any(|class| code.starts_with(class)));
    let is_other_schema = matches!(error, MigrateError::VersionMismatch(_) | MigrateError::Dirty(_));
    if is_refused || is_other_schema {
        return Error::Config {
            problem: format!(
                "the tables in PostgreSQL cannot be created: {error}; grant the permission to create a schema \
                 and tables, or call `Postgres::migrate` as another user"
            ),
        };
    }
    Error::backend(BACKEND, error)
}

/// The code of PostgreSQL for a write in a read-only transaction.
const READ_ONLY: &str = "25006";
/// The codes of PostgreSQL after which a retry also fails: missing permissions, and features that this version of
/// PostgreSQL does not have.
const REFUSALS: [&str; 2] = ["42", "0A"];

async fn connect(config: &PostgresConfig) -> Result<PgConnection> {
    let error = match timeout(config.connect_timeout, config.options()?.connect()).await {
        Err(elapsed) => return Err(Error::busy(BACKEND, elapsed)),
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) => error,
    };
    #[cfg(feature = "tls")]
    if let Some(problem) = crate::tls::refusal(&error) {
        return Err(Error::Config {
            problem: format!(
                "TLS with PostgreSQL failed: {problem}; check `sslmode`, `sslrootcert` and the certificates"
            ),
        });
    }
    // If the password is wrong or the database is missing, a retry also fails.
    let hopeless = match &error {
        sqlx::Error::Configuration(_) | sqlx::Error::Tls(_) => true,
        sqlx::Error::Database(error) => {
            error.code().is_some_and(|code| code.starts_with("28") || code == "3D000")
        }
        _ => false,
    };
    Err(if hopeless {
        Error::Config { problem: format!("PostgreSQL refuses the connection: {error}") }
    } else {
        Error::busy(BACKEND, error)
    })
}

/// Runs the migrations in one transaction, under a lock that ends with the transaction.
///
/// If ten replicas start at once, one replica migrates the schema, and the other nine replicas find the schema up to
/// date. The lock also works with a pooler in transaction mode.
async fn run(connection: &mut PgConnection, schema: &str) -> Result<(), MigrateError> {
    let mut migrator = Migrator::with_migrations(
        FILES
            .iter()
            .map(|(version, description, sql)| {
                let kind = MigrationType::Simple;
                Migration::new(*version, (*description).into(), kind, (*sql).into_sql_str(), false)
            })
            .collect(),
    );
    // A replica of an older release must still start after a newer release has migrated the schema.
    migrator.set_locking(false).set_ignore_missing(true);
    migrator.dangerous_set_table_name(format!("{schema}.migrations"));

    let mut transaction = connection.begin().await?;
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('antiphon migrations ' || $1, 0))")
        .bind(schema)
        .execute(&mut *transaction)
        .await?;
    // `create schema if not exists` needs the permission to create a schema even if it exists.
    let exists: bool = sqlx::query_scalar("select to_regnamespace($1) is not null")
        .bind(schema)
        .fetch_one(&mut *transaction)
        .await?;
    if !exists {
        transaction.execute(AssertSqlSafe(format!("create schema {schema}"))).await?;
    }
    transaction.execute(AssertSqlSafe(format!("set local search_path to {schema}, pg_temp"))).await?;
    migrator.run_direct(None, &mut *transaction, false).await?;
    transaction.commit().await?;
    Ok(())
}

async fn verify(connection: &mut PgConnection, config: &PostgresConfig) -> Result<()> {
    let schema = &config.schema;
    let newest = FILES.iter().map(|(version, ..)| *version).max().unwrap_or_default();
    let sql = format!("select coalesce(max(version), 0) from {schema}.migrations where success");
    let found: i64 = match sqlx::query(AssertSqlSafe(sql)).fetch_one(connection).await {
        Ok(row) => row.try_get(0).map_err(|error| Error::backend(BACKEND, error))?,
        // The table or the schema does not exist.
        Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("42P01" | "3F000")) => 0,
        Err(error) => return Err(Error::backend(BACKEND, error)),
    };
    if found < newest {
        return Err(Error::Config {
            problem: format!(
                "schema `{schema}` is at version {found}, and {newest} is required; run `Postgres::migrate`"
            ),
        });
    }
    Ok(())
}
