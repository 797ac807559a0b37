use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{
    AssertSqlSafe, Connection, PgConnection, Postgres,
    pool::PoolConnection,
    postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow},
    query::Query,
};
use tokio::time::{error::Elapsed, timeout};

use super::{BACKEND, PostgresConfig};
use crate::error::{Error, Result};

/// A statement with its parameters.
pub(super) type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// The idle time after which a connection is tested before use.
const LONG: Duration = Duration::from_secs(1);

/// The additional time that the client waits after the server's timeout. So the server cancels a slow statement before
/// the client gives up, and the statement has no effect.
const GRACE: Duration = Duration::from_millis(500);

/// The connection pool, and the mapping from database errors to [`Error`].
#[derive(Debug)]
pub(super) struct Pool {
    connections: PgPool,
    patience: Duration,
    suspicion: Arc<Suspicion>,
}

impl Pool {
    /// Creates a pool that connects when a connection is needed.
    pub(super) fn new(config: &PostgresConfig, options: PgConnectOptions) -> Self {
        let suspicion = Arc::new(Suspicion::new());
        let suspects = Arc::clone(&suspicion);
        let patience = config.connect_timeout / 4;
        let beginning = Arc::new(Beginning::new(config));
        let connections = PgPoolOptions::new()
            .max_connections(config.max_connections)
            .acquire_timeout(config.connect_timeout)
            // A test before each use would add a round trip to every operation. So only suspect connections are
            // tested.
            .test_before_acquire(false)
            .before_acquire(move |connection, metadata| {
                let tried = metadata.idle_for > LONG || suspects.falls_on(metadata.idle_for);
                Box::pin(async move {
                    if tried {
                        let late = |_: Elapsed| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
                        timeout(patience, connection.ping()).await.map_err(late)??;
                    }
                    Ok(true)
                })
            })
            .after_connect(move |connection, _| {
                let beginning = Arc::clone(&beginning);
                Box::pin(async move { beginning.run(connection).await })
            })
            .connect_lazy_with(options);
        Self { connections, patience: config.operation_timeout + GRACE, suspicion }
    }

    /// Records that the server was unavailable. After a call of `suspect`, all existing connections are tested before
    /// their next use.
    pub(super) fn suspect(&self) {
        self.suspicion.rise();
    }

    /// Returns all rows of a statement.
    pub(super) async fn rows(&self, statement: Statement<'_>) -> Result<Vec<PgRow>> {
        let mut connection = self.acquire().await?;
        let outcome = timeout(self.patience, statement.fetch_all(&mut *connection)).await;
        self.settle(connection, outcome)
    }

    /// Executes a statement and returns its row. Returns `None` if the statement returns no row.
    pub(super) async fn row(&self, statement: Statement<'_>) -> Result<Option<PgRow>> {
        let mut connection = self.acquire().await?;
        let outcome = timeout(self.patience, statement.fetch_optional(&mut *connection)).await;
        self.settle(connection, outcome)
    }

    /// Executes a statement and returns whether it changed any row.
    pub(super) async fn changed(&self, statement: Statement<'_>) -> Result<bool> {
        let mut connection = self.acquire().await?;
        let outcome = timeout(self.patience, statement.execute(&mut *connection)).await;
        Ok(self.settle(connection, outcome)?.rows_affected() > 0)
    }

    async fn acquire(&self) -> Result<PoolConnection<Postgres>> {
        self.connections.acquire().await.map_err(|error| Error::busy(BACKEND, error))
    }

    fn settle<T>(
        &self,
        mut connection: PoolConnection<Postgres>,
        outcome: Result<Result<T, sqlx::Error>, Elapsed>,
    ) -> Result<T> {
        let error = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(elapsed) => {
                // The response can still arrive later, so no other operation must use this connection.
                connection.close_on_drop();
                self.suspect();
                return Err(Error::backend(BACKEND, elapsed));
            }
        };
        match meaning(&error) {
            Meaning::Refused => Err(Error::busy(BACKEND, error)),
            Meaning::Standby => {
                connection.close_on_drop();
                Err(Error::busy(BACKEND, error))
            }
            Meaning::Lost => {
                connection.close_on_drop();
                self.suspect();
                Err(Error::backend(BACKEND, error))
            }
            Meaning::Uncertain => Err(Error::backend(BACKEND, error)),
        }
    }
}

/// The statements that run on every new connection.
#[derive(Debug)]
struct Beginning {
    advance: Arc<str>,
    /// The timeout settings of the server, with their values in milliseconds. The list is empty if the connection
    /// belongs to a pooler.
    limits: Vec<(&'static str, String)>,
}

impl Beginning {
    fn new(config: &PostgresConfig) -> Self {
        let operation = millis(config.operation_timeout).max(1);
        let mut limits = vec![
            ("statement_timeout", operation),
            ("lock_timeout", (operation / 2).max(1)),
            // The statements of this crate never leave a transaction open while the client waits.
            ("idle_in_transaction_session_timeout", operation.saturating_mul(2)),
            // With this setting, the server detects a client that disappeared without closing the connection.
            ("tcp_user_timeout", operation.saturating_mul(2)),
        ];
        if config.listen_url.is_some() {
            limits.clear();
        }
        // The server stores these values in 32 bits.
        let most = u64::from(i32::MAX.unsigned_abs());
        Self {
            advance: format!("select {}.advance_revisions()", config.schema).into(),
            limits: limits.into_iter().map(|(name, time)| (name, time.min(most).to_string())).collect(),
        }
    }

    async fn run(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        if !self.limits.is_empty() {
            let (names, values): (Vec<_>, Vec<_>) =
                self.limits.iter().map(|(name, value)| (*name, value.as_str())).unzip();
            // This statement does not change settings that the role, the database or the URL has set.
            let sql = "select set_config(name, wanted.value, false)
                from pg_settings join unnest($1::text[], $2::text[]) as wanted (name, value) using (name)
                where setting = '0'";
            sqlx::query(sql).bind(names).bind(values).fetch_all(&mut *connection).await?;
        }
        sqlx::query(AssertSqlSafe(Arc::clone(&self.advance))).execute(connection).await.map(drop)
    }
}

enum Meaning {
    /// The server rolled back the statement. A retry of the statement can succeed.
    Refused,
    /// The server cannot write, because the server is not the primary (any more).
    Standby,
    /// The connection is lost.
    Lost,
    /// The server returned any other error. The effect of the statement is unknown.
    Uncertain,
}

fn meaning(error: &sqlx::Error) -> Meaning {
    let sqlx::Error::Database(error) = error else {
        return Meaning::Lost;
    };
    match error.code().as_deref() {
        // These codes mean a serialization failure, a deadlock, a lock timeout or a statement timeout.
        Some("40001" | "40P01" | "55P03" | "57014") => Meaning::Refused,
        Some("25006") => Meaning::Standby,
        // These codes mean that an administrator shut down the server, that the server crashed, or that the server is
        // still starting.
        Some("57P01" | "57P02" | "57P03") => Meaning::Lost,
        _ => Meaning::Uncertain,
    }
}

/// The time at which the server was last unavailable. Connections that were last used before this time must be tested
/// before use.
#[derive(Debug)]
struct Suspicion {
    origin: Instant,
    /// The time at which the server was last unavailable, in milliseconds after `origin`.
    rose: AtomicU64,
}

impl Suspicion {
    fn new() -> Self {
        Self { origin: Instant::now(), rose: AtomicU64::new(0) }
    }

    fn rise(&self) {
        self.rose.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Returns whether a connection must be tested. `idle_for` is the time since the last use of the connection.
    fn falls_on(&self, idle_for: Duration) -> bool {
        let rose = self.rose.load(Ordering::Relaxed);
        rose > 0 && self.now().saturating_sub(millis(idle_for)) <= rose
    }

    fn now(&self) -> u64 {
        // The value is never zero, because zero means that the server was never suspected.
        millis(self.origin.elapsed()).saturating_add(1)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
