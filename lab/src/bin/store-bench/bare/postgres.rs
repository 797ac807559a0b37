//! `sqlx`, with the statements that ours was seen to send.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antiphon_store::{Backend, NewJob};
use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use sqlx::{
    AssertSqlSafe, PgPool, Row,
    postgres::{PgArguments, PgListener, PgPoolOptions, types::PgInterval},
    query::Query,
};

use super::{Bare, Tool};
use crate::{
    LEASE, SPACE,
    side::{FULL, HUNDRED, Operation, Side, VALUE},
};

/// As many bytes as ours asks for at most.
const MAX_BYTES: i64 = 4 * 1024 * 1024;
const ATTEMPTS: i32 = 16;
const LIMIT: i64 = 100;
/// What ours makes of an event of 256 bytes: base64, behind the name of the topic.
const EVENT: usize = 256 * 4 / 3 + 32;

pub(super) struct Postgres {
    pool: PgPool,
    url: String,
    sql: Sql,
    listener: PgListener,
    created: u64,
    revision: i64,
    length: i64,
    pushed: u64,
}

/// What ours sends.
struct Sql {
    get: Arc<str>,
    create: Arc<str>,
    update: Arc<str>,
    append: Arc<str>,
    read: Arc<str>,
    list: Arc<str>,
    push: Arc<str>,
    lease: Arc<str>,
    ack: Arc<str>,
}

impl Sql {
    async fn learn(pool: &PgPool, Backend { store, queue, .. }: &Backend) -> Result<Self> {
        let value = Bytes::from_static(VALUE);
        let revision = store.create("learnt", value.clone(), None).await?;
        let create = last_statement(pool).await?;
        store.update("learnt", value.clone(), None, revision).await?;
        let update = last_statement(pool).await?;
        store.get("learnt").await?;
        let get = last_statement(pool).await?;
        store.append("learnt", 0, vec![value.clone()]).await?;
        let append = last_statement(pool).await?;
        store.read("learnt", 0, FULL).await?;
        let read = last_statement(pool).await?;
        store.list("learnt/", None, FULL).await?;
        let list = last_statement(pool).await?;
        queue.push("learnt", NewJob::new("learnt", value)).await?;
        let push = last_statement(pool).await?;
        let jobs = queue.lease("learnt", 1, Duration::ZERO).await?;
        let lease = last_statement(pool).await?;
        queue.ack(&jobs.first().context("no job was leased")?.lease).await?;
        let ack = last_statement(pool).await?;
        Ok(Self { get, create, update, append, read, list, push, lease, ack })
    }
}

/// The statement that the server finished last, of those that are not notifications.
async fn last_statement(pool: &PgPool) -> Result<Arc<str>> {
    let sql: String = sqlx::query_scalar(
        "select query from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()
            and query !~* '^\\s*(listen|notify|select pg_notify)' and query <> ''
        order by query_start desc limit 1",
    )
    .fetch_one(pool)
    .await?;
    Ok(sql.into())
}

impl Postgres {
    pub(super) async fn connect(url: &str, ours: &Backend) -> Result<Self> {
        // One connection: with more, each would show its own last statement.
        let observer = PgPoolOptions::new().max_connections(1).connect(url).await?;
        let sql = Sql::learn(&observer, ours).await?;
        observer.close().await;
        // As ours does it: a connection is not tried before it is used.
        let pool = PgPoolOptions::new().max_connections(16).test_before_acquire(false).connect(url).await?;
        let mut listener = PgListener::connect(url).await?;
        listener.listen("bare").await?;
        let mut bare =
            Self { pool, url: url.to_owned(), sql, listener, created: 0, revision: 0, length: 0, pushed: 0 };
        bare.revision = bare.create("bare/updated").await?;
        Ok(bare)
    }

    async fn create(&self, key: &str) -> Result<i64> {
        let statement = query(&self.sql.create).bind(key).bind(VALUE).bind(None::<PgInterval>);
        Ok(statement.fetch_one(&self.pool).await?.try_get(0)?)
    }

    async fn push(&mut self, queue: &str) -> Result<()> {
        self.pushed += 1;
        let id = format!("bare-{}", self.pushed);
        let statement = query(&self.sql.push).bind(queue).bind(id).bind(VALUE).bind(interval(Duration::ZERO));
        ensure!(statement.execute(&self.pool).await?.rows_affected() == 1, "nothing was pushed");
        Ok(())
    }
}

/// A statement whose first parameter is the space.
fn query(sql: &Arc<str>) -> Query<'static, sqlx::Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(sql))).bind(SPACE)
}

fn interval(duration: Duration) -> PgInterval {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}

async fn lease(pool: &PgPool, sql: &Arc<str>, queue: &str) -> Result<(String, i64)> {
    let statement = query(sql).bind(queue).bind(1_i64).bind(interval(LEASE)).bind(ATTEMPTS);
    let rows = statement.fetch_all(pool).await?;
    let row = rows.first().context("no job was leased")?;
    // All that ours reads too.
    let (_payload, _attempts): (Vec<u8>, i32) = (row.try_get(1)?, row.try_get(2)?);
    Ok((row.try_get(0)?, row.try_get(3)?))
}

#[async_trait]
impl Side for Postgres {
    async fn run(&mut self, operation: Operation) -> Result<Duration> {
        let start;
        match operation {
            Operation::Get => {
                start = Instant::now();
                let row = query(&self.sql.get).bind("hundred/0").fetch_one(&self.pool).await?;
                let (_value, _revision): (Vec<u8>, i64) = (row.try_get(0)?, row.try_get(1)?);
            }
            Operation::Create => {
                self.created += 1;
                let key = format!("bare/created/{}", self.created);
                start = Instant::now();
                self.create(&key).await?;
            }
            Operation::Update => {
                start = Instant::now();
                let statement = query(&self.sql.update).bind("bare/updated").bind(VALUE);
                let statement = statement.bind(None::<PgInterval>).bind(self.revision);
                self.revision = statement.fetch_one(&self.pool).await?.try_get(0)?;
            }
            Operation::Append => {
                start = Instant::now();
                let statement = query(&self.sql.append).bind("bare").bind(self.length).bind(vec![VALUE]);
                let row = statement.fetch_one(&self.pool).await?;
                ensure!(row.try_get::<bool, _>(0)?, "another has appended");
                self.length = row.try_get(1)?;
            }
            Operation::Read => {
                start = Instant::now();
                let statement = query(&self.sql.read).bind(HUNDRED).bind(0_i64).bind(LIMIT).bind(MAX_BYTES);
                let rows = statement.fetch_all(&self.pool).await?;
                let entries = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Vec<u8>>, _>>()?;
                ensure!(entries.len() == FULL, "only {} entries were read", entries.len());
            }
            Operation::List => {
                start = Instant::now();
                let statement = query(&self.sql.list).bind("hundred/").bind("hundred0");
                let statement = statement.bind(LIMIT).bind(MAX_BYTES);
                let rows = statement.fetch_all(&self.pool).await?;
                let records = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
                let records = records.collect::<Result<Vec<(String, Vec<u8>, i64)>>>()?;
                ensure!(records.len() == FULL, "only {} records were listed", records.len());
            }
            Operation::Push => {
                start = Instant::now();
                self.push("bare-pushed").await?;
            }
            Operation::LeaseAndAck => {
                self.push("bare").await?;
                start = Instant::now();
                let (id, token) = lease(&self.pool, &self.sql.lease, "bare").await?;
                let acked =
                    query(&self.sql.ack).bind("bare").bind(id).bind(token).execute(&self.pool).await?;
                ensure!(acked.rows_affected() == 1, "nothing was acknowledged");
            }
            Operation::Publish => {
                let event = "x".repeat(EVENT);
                start = Instant::now();
                let statement = sqlx::query("select pg_notify($1, $2)").bind("bare").bind(event);
                statement.execute(&self.pool).await?;
                self.listener.recv().await?;
            }
        }
        Ok(start.elapsed())
    }
}

#[async_trait]
impl Bare for Postgres {
    async fn lease(&mut self, queue: &str, count: usize, hands: usize) -> Result<()> {
        let work = (0..hands).map(|_| async {
            for _ in 0..count / hands {
                lease(&self.pool, &self.sql.lease, queue).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(work).await?;
        Ok(())
    }

    fn tool(&self, queue: &str, count: usize, hands: usize) -> Result<Option<Tool>> {
        let parameters = [
            ("1", format!("'{SPACE}'")),
            ("2", format!("'{queue}'")),
            ("3", "1".into()),
            ("4", format!("interval '{} s'", LEASE.as_secs())),
            ("5", ATTEMPTS.to_string()),
        ];
        let mut script = self.sql.lease.to_string();
        for (number, value) in parameters {
            script = script.replace(&format!("${number}"), &value);
        }
        let file = std::env::temp_dir().join(format!("antiphon-lease-{}.sql", std::process::id()));
        // A script is one line a statement, but for lines that end in a backslash.
        std::fs::write(&file, script.replace('\n', " ") + ";\n")?;
        let options = format!(
            "--no-vacuum --protocol=prepared --client={hands} --jobs=2 --transactions={}",
            count / hands
        );
        let mut arguments: Vec<String> = options.split(' ').map(String::from).collect();
        arguments.push(format!("--file={}", file.display()));
        arguments.push(self.url.clone());
        let read = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("tps ="))?;
            line.split_whitespace().nth(2)?.parse().ok()
        };
        Ok(Some(Tool { arguments, read }))
    }
}
