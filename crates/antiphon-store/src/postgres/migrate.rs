use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};
use tokio::time::timeout;

use super::{BACKEND, PostgresConfig};
use crate::error::{Error, Result};

/// Each file once, in order. A file is never changed after its release: databases remember its digest.
///
/// A replica of the release before runs on while a new one migrates, and after it. So a file adds, or replaces
/// the body of a function, and takes no lock that writers wait for.
const FILES: [(i64, &str, &str); 2] = [
    (1, "records, logs, jobs", include_str!("../../migrations/0001_records_logs_jobs.sql")),
    (2, "depth, lazy claims, bulk removal", include_str!("../../migrations/0002_depth_claims_removal.sql")),
];

/// Brings the schema up to date, or finds out whether it is.
pub(super) async fn prepare(config: &PostgresConfig, migrate: bool) -> Result<()> {
    let mut connection = connect(config).await?;
    if migrate {
        run(&mut connection, &config.schema).await.map_err(failed)?;
    } else {
        verify(&mut connection, config).await?;
    }
    // Whatever it says, the work is done.
    connection.close().await.ok();
    Ok(())
}

/// A standby cannot be migrated. Soon the same address may lead to the primary.
fn failed(error: MigrateError) -> Error {
    let cause = match &error {
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => Some(cause),
        _ => None,
    };
    if cause.is_some_and(is_read_only) { Error::busy(BACKEND, error) } else { Error::backend(BACKEND, error) }
}

fn is_read_only(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(error) if error.code().as_deref() == Some("25006"))
}

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
    // Neither a wrong password nor a missing database gets better by waiting.
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

/// All in one transaction, under a lock that ends with it: of ten replicas that start at once, one does the
/// work and nine find it done. A pooler in transaction mode is no obstacle.
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
    // A replica of an older release still starts while a newer one has migrated already.
    migrator.set_locking(false).set_ignore_missing(true);
    migrator.dangerous_set_table_name(format!("{schema}.migrations"));

    let mut transaction = connection.begin().await?;
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('antiphon migrations ' || $1, 0))")
        .bind(schema)
        .execute(&mut *transaction)
        .await?;
    // `create schema if not exists` asks for the right to create one even where it exists.
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
        // No such table, or no such schema.
        Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("42P01" | "3F000")) => 0,
        Err(error) => return Err(Error::backend(BACKEND, error)),
    };
    if found < newest {
        return Err(Error::Config {
            problem: format!(
                "schema `{schema}` is at version {found}, not {newest}: run `Postgres::migrate`"
            ),
        });
    }
    Ok(())
}
