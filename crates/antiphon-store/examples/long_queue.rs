//! Measures what a long queue and many expired records cost on PostgreSQL.
//!
//! ```text
//! cargo run --release -p antiphon-store --features postgres --example long_queue -- postgres://localhost/scratch 2000000 1000000
//! ```
//!
//! The arguments are the database, the number of waiting jobs and the number of expired records. Everything is in
//! a schema of its own, which is dropped at the end. The program fails if a 99th percentile is above 50 milliseconds, or
//! if fewer than 5,000 records a second are removed.

#![expect(clippy::print_stdout, reason = "a program prints its results")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use antiphon_store::{
    NewJob, Queue, QueueConfig, Store,
    postgres::{Postgres, PostgresConfig},
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How many call at the same time, as so many replicas would.
const CALLERS: usize = 4;
/// How often each of them calls.
const CALLS: usize = 250;
/// What no 99th percentile may be above.
const LIMIT: Duration = Duration::from_millis(50);
/// How many records a second must be removed.
const RATE: f64 = 5_000.0;
const LANES: usize = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("say which database: postgres://…")?;
    let jobs: u64 = arguments.next().map_or(Ok(2_000_000), |jobs| jobs.parse())?;
    let expired: u64 = arguments.next().map_or(Ok(1_000_000), |expired| expired.parse())?;

    let schema = format!("long_queue_{}", std::process::id());
    let postgres = Postgres::connect(PostgresConfig::new(&url).with_schema(&schema)).await?;
    let mut connection = PgConnection::connect(&url).await?;
    connection.execute(AssertSqlSafe(format!("set search_path to {schema}"))).await?;
    let measured = measure(&postgres, &mut connection, jobs, expired).await;
    connection.execute(AssertSqlSafe(format!("drop schema {schema} cascade"))).await?;
    let slow = measured?;
    if slow.is_empty() { Ok(()) } else { Err(format!("too slow: {}", slow.join(", ")).into()) }
}

/// Returns what was too slow.
async fn measure(
    postgres: &Postgres,
    connection: &mut PgConnection,
    jobs: u64,
    expired: u64,
) -> Result<Vec<String>> {
    println!("{jobs} jobs in {LANES} queues");
    let fill = format!(
        "insert into jobs (space, queue, id, payload, due_at)
        select 'antiphon', 'lane-' || i % {LANES}, 'job-' || i, decode(repeat('ab', 150), 'hex'),
            now() + (i % 604800 - 86400) * interval '1 second'
        from generate_series(1, {jobs}) as i"
    );
    connection.execute(AssertSqlSafe(fill)).await?;
    connection.execute("analyze jobs").await?;
    plans(connection).await?;

    let mut slow = Vec::new();
    let queue = postgres.queue(QueueConfig::default());
    println!("{:?}", queue.depth("lane-0").await?);
    println!("| call | p50 | p99 | max |\n|---|---|---|---|");
    slow.extend(time("ping", async |_| Ok(queue.ping().await?)).await?);
    slow.extend(time("depth", async |call| Ok(queue.depth(&lane(call)).await.map(drop)?)).await?);
    slow.extend(
        time("push", async |call| {
            let job = NewJob::new(format!("new-{call}"), vec![0; 300]);
            Ok(queue.push(&lane(call), job).await.map(drop)?)
        })
        .await?,
    );
    slow.extend(
        time("lease and ack", async |call| {
            for job in queue.lease(&lane(call), 1, Duration::ZERO).await? {
                queue.ack(&job.lease).await?;
            }
            Ok(())
        })
        .await?,
    );
    slow.extend(remove(postgres, connection, expired).await?);
    Ok(slow)
}

fn lane(call: usize) -> String {
    format!("lane-{}", call % LANES)
}

/// Makes the call many times, prints how long it took, and says so if that was too long.
async fn time(name: &str, call: impl AsyncFn(usize) -> Result<()>) -> Result<Option<String>> {
    let callers = (0..CALLERS).map(async |caller| {
        let mut times = Vec::with_capacity(CALLS);
        for number in 0..CALLS {
            let began = Instant::now();
            call(caller * CALLS + number).await?;
            times.push(began.elapsed());
        }
        Result::Ok(times)
    });
    let mut times = futures_util::future::try_join_all(callers).await?.concat();
    times.sort_unstable();
    let (middle, high) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("| {name} | {middle:.1?} | {high:.1?} | {:.1?} |", times[times.len() - 1]);
    Ok((high > LIMIT).then(|| format!("{name} ({high:.1?})")))
}

async fn remove(postgres: &Postgres, connection: &mut PgConnection, expired: u64) -> Result<Option<String>> {
    let fill = format!(
        "insert into records (space, key, value, expires_at, claim_at)
        select 'antiphon', 'step/' || i, decode(repeat('ab', 100), 'hex'), now(), now()
        from generate_series(1, {expired}) as i"
    );
    connection.execute(AssertSqlSafe(fill)).await?;
    let store = postgres.store();
    let began = Instant::now();
    let mut removed = 0;
    loop {
        match store.remove_expired("step/", 1000).await? {
            0 => break,
            more => removed += more,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    let rate = removed as f64 / began.elapsed().as_secs_f64();
    println!("{removed} expired records were removed in {:.1?}: {rate:.0} a second", began.elapsed());
    Ok((rate < RATE).then(|| format!("removal ({rate:.0} a second)")))
}

/// Prints how the database finds what it counts.
async fn plans(connection: &mut PgConnection) -> Result<()> {
    connection.execute("set enable_seqscan = off; set enable_bitmapscan = off").await?;
    let of = "space = 'antiphon' and queue = 'lane-0'";
    let statements = [
        format!(
            "select count(*) from (select from jobs where {of} and not last order by due_at limit 4001) as counted"
        ),
        format!(
            "select count(token) from (select token from jobs where {of} and not last and due_at > now()
            and due_at <= now() + interval '30 s' order by due_at limit 4001) as counted"
        ),
        format!(
            "select count(*) from (select due_at from jobs where {of} and last order by id limit 4001) as counted"
        ),
        "select exists (select from jobs where space = 'antiphon' and queue = '' and id = '')".to_owned(),
    ];
    for statement in statements {
        let explain = format!("explain (analyze, costs off, buffers) {statement}");
        for row in connection.fetch_all(AssertSqlSafe(explain)).await? {
            println!("    {}", row.try_get::<String, _>(0)?);
        }
    }
    connection.execute("reset enable_seqscan; reset enable_bitmapscan").await?;
    Ok(())
}
