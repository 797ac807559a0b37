//! PostgreSQL 13 or later.
//!
//! ```no_run
//! use antiphon_store::{QueueConfig, postgres::{Postgres, PostgresConfig}};
//!
//! # async fn example() -> antiphon_store::Result<()> {
//! let postgres = Postgres::connect(PostgresConfig::new("postgres://antiphon@localhost/app")).await?;
//! let backend = postgres.backend(QueueConfig::default());
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! All tables, and the list of applied migrations, are in one [schema](PostgresConfig::with_schema). This crate does
//! not change other data in the database. Every row contains its [space](PostgresConfig::with_space). Names are
//! compared byte by byte, independently of the locale of the database.
//! - **Records** are rows of `records`. Revisions come from one sequence, so no revision is used twice. A claim
//!   checks whether a record has expired only after the time in the column `claim_at`. An update that extends the
//!   lifetime of a record does not change `claim_at`.
//! - **Logs** are rows of two tables: `logs` contains the length of each log, and `entries` contains the entries. An
//!   append locks the row of the log, and is one call of the function `append`.
//! - **Jobs** are rows of `jobs`. Workers lease jobs with `for update skip locked`, starting with the job that has been
//!   due for the longest time. A lease sets the due time of the job to the end of the lease. A lease also stores a
//!   token, which comes from the sequence of revisions. Expired leases do not need a cleanup.
//! - **Events** are notifications (`NOTIFY`). Each topic has a channel, whose name is a digest of the topic. A
//!   notification contains the topic in plain text, and the event in base64. An event of 4096 bytes with the longest
//!   names takes about 6050 of the 8000 bytes that a notification can have.
//!
//! One additional connection, which is opened when it is first needed, listens for notifications. The connection for
//! notifications listens to the subscribed topics, and to one channel on which replicas announce queues with new jobs.
//! A replica announces a queue after the push of a job has returned, and combines many announcements in one
//! notification. If each push sent its own notification, all pushes in the database would wait for each other's write
//! to disk. If a replica stops before the announcement of a job, waiting workers find the job within
//! [`PostgresConfig::with_poll`].
//!
//! All times come from the clock of the PostgreSQL server, `now()`.
//!
//! # Durability and failover
//!
//! PostgreSQL has committed a write before the store acknowledges the write. Do not turn off the PostgreSQL settings
//! `synchronous_commit` and `fsync` (both are on by default), because otherwise a crash of PostgreSQL or of its machine
//! can lose committed writes. With a standby, acknowledged writes survive a failover only with
//! `synchronous_standby_names`. Without `synchronous_standby_names`, a failover can lose the last writes. The revisions
//! of lost writes are not used again: every new connection sets the sequence of revisions to at least PostgreSQL's time
//! in microseconds. With a pooler, the sequence is not set, because the pooler opens the connections. So with a pooler,
//! the revision of a lost write can be used again.
//!
//! While PostgreSQL is unavailable, operations fail at the latest when their timeouts are over. An operation returns
//! [`Error::Busy`] if no connection was available. If PostgreSQL became unavailable during an operation, the operation
//! returns [`Error::Backend`]. When PostgreSQL is available again, existing handles work again. Each handle then
//! listens to its topics again, and each subscription receives an [`Event::Gap`]. If a PostgreSQL server has become
//! read-only, operations return [`Error::Busy`]. After an error of a read-only PostgreSQL server, the connection is
//! closed, so that the next connection can reach the new primary.
//!
//! # Operation
//!
//! - The PostgreSQL user needs the permission to create the schema once (`grant create on database … to …`), or must
//!   own an existing schema. Superuser permissions are not needed. If your MCP servers must not have the permission to
//!   create the schema, call [`Postgres::migrate`] in the deployment and set [`PostgresConfig::with_migrate`] to false.
//! - Each handle uses up to [`PostgresConfig::with_max_connections`] connections, and one more connection that listens
//!   for notifications.
//! - **A pooler in transaction mode** (`PgBouncer`) does not support `LISTEN`. Set [`PostgresConfig::with_listen_url`]
//!   to a URL that bypasses the pooler. `PgBouncer` must have version 1.21 or later, and `max_prepared_statements` must
//!   be set. With a pooler but without `with_listen_url`, no event arrives, and workers find jobs only by polling.
//! - A transaction that stays open for hours, in any application, prevents vacuum from removing the rows of finished
//!   jobs, so leasing becomes slower.
//! - TLS needs the feature `tls` of this crate. Enable TLS in the URL: `?sslmode=verify-full`. A URL to another machine
//!   without `sslmode` is rejected, because the default `sslmode` would silently continue without TLS. Certificates are
//!   checked against the public certificate authorities. If `sslrootcert` is set, certificates are also checked against
//!   the authorities in that file.
//! - PostgreSQL cancels statements that take longer than [`PostgresConfig::with_operation_timeout`].
//! - Most updates of records are HOT (heap-only tuple) updates, which change no index if the table page has room. Keep
//!   the `fillfactor` and the autovacuum settings of the tables, or make autovacuum more aggressive.
//!
//! # Limits
//!
//! - A page of a listing and one read of a log end after 1000 rows, or with the row that reaches 4 MiB. One claim
//!   returns up to 128 records, one bulk removal deletes up to 2000 records, and one lease returns up to 1000 jobs.
//! - [`Queue::depth`](crate::Queue::depth) counts up to 4,000 jobs of each kind by index. For larger numbers, `depth`
//!   returns the planner's estimate, which is as old as the last `ANALYZE`. Autovacuum runs `ANALYZE` when a tenth of
//!   the jobs has changed.
//! - [`Store::claim_expired`](crate::Store::claim_expired) with a prefix of more than one segment reads all expired
//!   records under the first segment of the prefix.
//! - [`Store::delete_log`](crate::Store::delete_log) deletes the entries of a log row by row.
//! - A handle can be used only in the tokio runtime in which it was connected.
//!
//! [`Error::Busy`]: crate::Error::Busy
//! [`Error::Backend`]: crate::Error::Backend
//! [`Event::Gap`]: crate::Event::Gap

mod bus;
mod channel;
mod config;
mod decode;
mod listener;
mod migrate;
mod pool;
mod queue;
mod store;
mod wakes;

use std::{fmt, sync::Arc};

use sqlx::AssertSqlSafe;

pub use self::{bus::PostgresBus, config::PostgresConfig, queue::PostgresQueue, store::PostgresStore};
use self::{
    channel::Channels,
    listener::Listener,
    pool::{Pool, Statement},
    wakes::Wakes,
};
use crate::{backend::Backend, error::Result, queue::QueueConfig};

const BACKEND: &str = "PostgreSQL";

/// A connection pool to a PostgreSQL database with the tables of this crate. Clones of a `Postgres` share the
/// connections.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

impl Postgres {
    /// Connects to the database, and migrates the schema unless [`PostgresConfig::with_migrate`] is false.
    pub async fn connect(config: PostgresConfig) -> Result<Self> {
        let config = config.with_parameters()?;
        config.check()?;
        let listen_options = config.listen_options()?;
        migrate::prepare(&config, config.migrate).await?;

        let channels = Channels::new(&config.schema, &config.space);
        let pool = Arc::new(Pool::new(&config, config.options()?));
        let wakes = Wakes::start(Arc::clone(&pool), channels.wakes());
        let listener = Listener::start(listen_options, config.connect_timeout, Arc::clone(&pool));
        let store = store::Sql::new(&config.schema);
        let queue = queue::Sql::new(&config.schema);
        Ok(Self { inner: Arc::new(Inner { config, pool, channels, wakes, listener, store, queue }) })
    }

    /// Creates or updates the schema of this crate in the database. Any number of processes can call `migrate` at the
    /// same time.
    pub async fn migrate(config: &PostgresConfig) -> Result<()> {
        let config = config.clone().with_parameters()?;
        config.check()?;
        migrate::prepare(&config, true).await
    }

    /// Returns the store for records and logs.
    pub fn store(&self) -> PostgresStore {
        PostgresStore::new(Arc::clone(&self.inner))
    }

    /// Returns the queue for jobs.
    pub fn queue(&self, config: QueueConfig) -> PostgresQueue {
        PostgresQueue::new(Arc::clone(&self.inner), config)
    }

    /// Returns the bus for events.
    pub fn bus(&self) -> PostgresBus {
        PostgresBus::new(Arc::clone(&self.inner))
    }

    /// Returns the store, the queue and the bus as a [`Backend`].
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

/// The state that all clones of a [`Postgres`] share.
struct Inner {
    config: PostgresConfig,
    pool: Arc<Pool>,
    channels: Channels,
    wakes: Arc<Wakes>,
    listener: Listener,
    store: store::Sql,
    queue: queue::Sql,
}

impl Inner {
    /// Returns a statement with the application's namespace (space) as its first parameter. Each connection prepares a
    /// statement only once.
    fn statement<'q>(&'q self, sql: &Arc<str>) -> Statement<'q> {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).bind(&*self.config.space)
    }
}
