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

/// A statement and what it is given.
pub(super) type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// A connection that has rested so long is tried before it is used.
const LONG: Duration = Duration::from_secs(1);

/// How much later than the server we give up, so that it is the server that says so: then nothing was done.
const GRACE: Duration = Duration::from_millis(500);

/// The connections, and the rule of what an error means.
#[derive(Debug)]
pub(super) struct Pool {
    connections: PgPool,
    patience: Duration,
    suspicion: Arc<Suspicion>,
}

impl Pool {
    /// Connects when it must.
    pub(super) fn new(config: &PostgresConfig, options: PgConnectOptions) -> Self {
        let suspicion = Arc::new(Suspicion::new());
        let suspects = Arc::clone(&suspicion);
        let patience = config.connect_timeout / 4;
        let beginning = Arc::new(Beginning::new(config));
        let connections = PgPoolOptions::new()
            .max_connections(config.max_connections)
            .acquire_timeout(config.connect_timeout)
            // It would cost every operation a round trip. Only those are tried that have reason to be.
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

    /// Notes that the server went away: all connections made before are tried before they are used.
    pub(super) fn suspect(&self) {
        self.suspicion.rise();
    }

    /// All rows of a statement.
    pub(super) async fn rows(&self, statement: Statement<'_>) -> Result<Vec<PgRow>> {
        let mut connection = self.acquire().await?;
        let outcome = timeout(self.patience, statement.fetch_all(&mut *connection)).await;
        self.settle(connection, outcome)
    }

    /// The only row of a statement, if it has one.
    pub(super) async fn row(&self, statement: Statement<'_>) -> Result<Option<PgRow>> {
        let mut connection = self.acquire().await?;
        let outcome = timeout(self.patience, statement.fetch_optional(&mut *connection)).await;
        self.settle(connection, outcome)
    }

    /// Whether a statement changed anything.
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
                // An answer may still come: nobody else must read it.
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

/// What is said on every new connection.
#[derive(Debug)]
struct Beginning {
    advance: Arc<str>,
    /// What the server ends by itself, and after how many milliseconds. Empty if the connection is a pooler's.
    limits: Vec<(&'static str, String)>,
}

impl Beginning {
    fn new(config: &PostgresConfig) -> Self {
        let operation = millis(config.operation_timeout).max(1);
        let mut limits = vec![
            ("statement_timeout", operation),
            ("lock_timeout", (operation / 2).max(1)),
            // No transaction of ours waits for us.
            ("idle_in_transaction_session_timeout", operation.saturating_mul(2)),
            // A client that has gone without a word.
            ("tcp_user_timeout", operation.saturating_mul(2)),
        ];
        if config.listen_url.is_some() {
            limits.clear();
        }
        // The server counts in 32 bits.
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
            // What the role, the database or the URL has set stays.
            let sql = "select set_config(name, wanted.value, false)
                from pg_settings join unnest($1::text[], $2::text[]) as wanted (name, value) using (name)
                where setting = '0'";
            sqlx::query(sql).bind(names).bind(values).fetch_all(&mut *connection).await?;
        }
        sqlx::query(AssertSqlSafe(Arc::clone(&self.advance))).execute(connection).await.map(drop)
    }
}

enum Meaning {
    /// The server undid the statement, and it may well succeed later.
    Refused,
    /// The server cannot write: it is not, or not any more, the primary.
    Standby,
    /// The connection is gone.
    Lost,
    /// All else.
    Uncertain,
}

fn meaning(error: &sqlx::Error) -> Meaning {
    let sqlx::Error::Database(error) = error else {
        return Meaning::Lost;
    };
    match error.code().as_deref() {
        // Serialization failure, deadlock, lock timeout, statement timeout.
        Some("40001" | "40P01" | "55P03" | "57014") => Meaning::Refused,
        Some("25006") => Meaning::Standby,
        // Shut down by an administrator, by a crash, or not yet up.
        Some("57P01" | "57P02" | "57P03") => Meaning::Lost,
        _ => Meaning::Uncertain,
    }
}

/// Since when connections are not to be trusted.
#[derive(Debug)]
struct Suspicion {
    origin: Instant,
    /// Milliseconds after `origin`.
    rose: AtomicU64,
}

impl Suspicion {
    fn new() -> Self {
        Self { origin: Instant::now(), rose: AtomicU64::new(0) }
    }

    fn rise(&self) {
        self.rose.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Whether a connection that has rested so long rested before it last rose.
    fn falls_on(&self, idle_for: Duration) -> bool {
        let rose = self.rose.load(Ordering::Relaxed);
        rose > 0 && self.now().saturating_sub(millis(idle_for)) <= rose
    }

    fn now(&self) -> u64 {
        // Never zero, which stands for no suspicion.
        millis(self.origin.elapsed()).saturating_add(1)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
