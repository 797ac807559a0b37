//! The table that pages are read from.

use anyhow::Context as _;
use sqlx::{PgPool, postgres::PgPoolOptions};

/// How many rows it has.
pub const ROWS: i64 = 100_000;

/// What a page is of. Both sides run this, each in its own way.
pub const SQL: &str = "SELECT id, name, city, state, control, enrollment, tuition, open FROM bench_institutions WHERE state <> $1";

/// The value that is bound to it.
pub const STATE: &str = "none";

/// The argument after `flag`.
///
/// # Errors
///
/// When there is none.
pub fn argument(flag: &str) -> anyhow::Result<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != flag);
    arguments.nth(1).with_context(|| format!("{flag} is missing"))
}

/// Connects to the database after `--database`, and makes the table if it is not there.
///
/// # Errors
///
/// When the database is away.
pub async fn pool() -> anyhow::Result<PgPool> {
    let pool =
        PgPoolOptions::new().max_connections(8).min_connections(8).connect(&argument("--database")?).await?;
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(1)").execute(&mut *transaction).await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS bench_institutions AS
         SELECT n::bigint AS id, 'Institution ' || n AS name, 'City ' || n % 900 AS city,
                chr(65 + n % 26) || chr(65 + n / 26 % 26) AS state,
                CASE WHEN n % 3 = 0 THEN 'public' ELSE 'private' END AS control,
                n * 7919 % 60000 AS enrollment, (n::bigint * 104729 % 7000000) / 100.0::float8 AS tuition, n % 7 <> 0 AS open
         FROM generate_series(1, 100000) AS n",
    )
    .execute(&mut *transaction)
    .await?;
    sqlx::query("CREATE UNIQUE INDEX IF NOT EXISTS bench_institutions_id ON bench_institutions (id)")
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(pool)
}
