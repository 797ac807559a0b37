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
//! Everything is in one schema ([`PostgresConfig::schema`]), together with the list of its migrations, apart
//! from whatever else is in the database. Every row names its [space](PostgresConfig::space). Names are
//! compared byte by byte, whatever the database's locale.
//! - **Records** are rows of `records`. Revisions come from one sequence, so none is used twice. `claim_at` is when to
//!   look whether a record has expired; updates that let it live longer leave that as it is.
//! - **Logs**: `logs` has the length of each, `entries` what is in it. An append locks the log's row, and is
//!   one call of the function `append`.
//! - **Jobs** are rows of `jobs`, leased with `for update skip locked`, oldest due first. A lease is a due
//!   time in the future and a token from the same sequence; nobody has to sweep leases that ran out.
//! - **Events** are notifications (`NOTIFY`) on a channel per topic, named by a digest. Events are written in
//!   base64 and carry their topic: 4096 bytes and the longest names make about 6050, of 8000 that fit.
//!
//! One more connection listens, when there is something to listen for: to the topics that are subscribed to,
//! and to one channel on which replicas tell each other which queues got jobs. Those wake-ups are sent after
//! the push has returned, many in one: a notification inside the push would make all pushes of the database
//! wait for each other's write to disk. If a replica dies in between, waiting workers find the job
//! within [`PostgresConfig::poll`].
//!
//! All time is the server's, `now()`.
//!
//! # When a node dies
//!
//! What was acknowledged was committed, and a commit is as durable as the server makes it: keep
//! `synchronous_commit` and `fsync` on (both are, by default). With a standby, only
//! `synchronous_standby_names` keeps acknowledged writes over a failover; without it the last ones may be
//! lost. Their revisions are not given again: every new connection moves revisions on to the time of the server, in
//! microseconds. (Behind a pooler connections are made by others, and a revision that was lost may come again.)
//!
//! While the server is away, operations fail in bounded time: with [`Error::Busy`] if they never got a
//! connection, else with [`Error::Backend`]. When it is back, the same handle works again, the topics are
//! listened to again, and each subscription gets an [`Event::Gap`]. A server that has become read-only is
//! [`Error::Busy`], and its connection is not used again, so that the next one may lead to the new primary.
//!
//! # What an operator must know
//!
//! - The user needs the right to create the schema, once (`grant create on database … to …`), or owns an
//!   existing one; none of a superuser's. To keep even that from the servers, let a deployment call
//!   [`Postgres::migrate`] and set [`PostgresConfig::migrate`] to false.
//! - Each handle uses up to [`PostgresConfig::max_connections`] connections, and one that listens.
//! - **A pooler in transaction mode** (`PgBouncer`) does not pass on `LISTEN`: give [`PostgresConfig::listen_url`] a way
//!   past it. It also needs version 1.21 and `max_prepared_statements`. Without the other way, no event
//!   arrives, and workers find jobs only by polling.
//! - A transaction held open for hours, by whomever, keeps vacuum from the rows of finished jobs, and leasing
//!   gets slower.
//! - TLS needs the crate's feature `tls`, and is set in the URL: `?sslmode=verify-full`. A URL to another machine
//!   without `sslmode` is refused: the protocol's default would go on in clear without a word.
//!   Certificates are checked against the public authorities, and that of `sslrootcert` if it is given.
//! - The server ends statements of ours that take longer than [`PostgresConfig::operation_timeout`].
//! - Updates of records are mostly HOT: they touch no index, if the page has room. Keep `fillfactor` and the
//!   autovacuum settings of the tables, or make them stronger.
//!
//! # Limits
//!
//! - A page of a listing and one reading of a log end after 1000 rows or with the row that brings them to
//!   4 MiB; one claim has up to 128 records, one bulk removal up to 2000, one lease up to 1000 jobs.
//! - [`Queue::depth`](crate::Queue::depth) counts up to 4,000 jobs of each kind by index. Beyond that it returns
//!   the planner's estimate, which is as old as the last `ANALYZE` (autovacuum runs one when a tenth of the jobs
//!   has changed).
//! - [`Store::claim_expired`](crate::Store::claim_expired) with a prefix of more than one segment passes over
//!   what has expired, and was not deleted, elsewhere under the first segment.
//! - [`Store::delete_log`](crate::Store::delete_log) deletes row by row.
//! - Handles belong to the tokio runtime they were connected in.
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

/// A database, with the tables of this crate in it. Clones share its connections.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

impl Postgres {
    /// Connects, and brings the schema up to date unless [told not to](PostgresConfig::migrate).
    pub async fn connect(config: PostgresConfig) -> Result<Self> {
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

    /// Brings the schema up to date. Safe to call from any number of places at once.
    pub async fn migrate(config: &PostgresConfig) -> Result<()> {
        config.check()?;
        migrate::prepare(config, true).await
    }

    /// Its records and logs.
    pub fn store(&self) -> PostgresStore {
        PostgresStore::new(Arc::clone(&self.inner))
    }

    /// Its queues.
    pub fn queue(&self, config: QueueConfig) -> PostgresQueue {
        PostgresQueue::new(Arc::clone(&self.inner), config)
    }

    /// Its topics.
    pub fn bus(&self) -> PostgresBus {
        PostgresBus::new(Arc::clone(&self.inner))
    }

    /// All three.
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

/// What clones share.
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
    /// A statement whose first parameter is the space, prepared once a connection.
    fn statement<'q>(&'q self, sql: &Arc<str>) -> Statement<'q> {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).bind(&*self.config.space)
    }
}
