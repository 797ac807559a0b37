use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Break, Client, Field};
use crate::field::fleet::probe;

/// The slowest that readiness, metrics and task creation may be, at the percentile that counts.
const SLOWEST: Duration = Duration::from_millis(50);

/// Jobs wait in PostgreSQL: 2 million, in a short run 200,000. All are due in a month, as those of sleeping runs are.
///
/// Pass: `/readyz`, `/metrics` and the creation of a task take at most 50 ms at the 99th percentile, on one replica beside
/// another, and no statement that ran on a timer reads the whole table. A short run measures each only 100 times, where
/// two pauses of a shared disk decide the 99th percentile. It holds the 90th to the limit.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let jobs: u64 = field.pick(200_000, 2_000_000);
    let mut fleet = field.fleet(2, &[("LEASE", "30"), ("BACKLOG", "10000000")])?;
    fleet.start_all()?;
    let client = Client::new(fleet.address(0));
    client.start("sleeper", &json!([{ "sleep": 86_400_000 }, { "effect": "never" }]))?;
    std::thread::sleep(Duration::from_secs(1));
    let store = field.store();
    // Copies of a job that a server wrote, on each of the lanes.
    let fill = format!(
        "insert into antiphon.jobs (space, queue, id, payload, due_at) \
         select j.space, regexp_replace(j.queue, '[0-9]+$', (n % 4)::text), 'copy-' || n || '~1', j.payload, \
             now() + interval '30 days' \
         from (select * from antiphon.jobs limit 1) j, generate_series(1, {jobs}) n"
    );
    store.sql(&fill).context("the jobs could not be written")?;
    store.sql("analyze antiphon.jobs")?;
    // What the test itself wrote is on the disk before anything is measured.
    store.sql("checkpoint")?;
    store.sql("select pg_stat_reset()")?;
    let began = Instant::now();
    let times = field.pick(100, 300);
    let percentile = field.pick(90, 99);
    let limit = if field.is_broken(Break::Time) { Duration::ZERO } else { SLOWEST };
    let mut measured = Vec::new();
    let health = fleet.replicas[0].health;
    let mut measure = |name: &str, mut act: Box<dyn FnMut(usize) -> Result<()> + '_>| {
        let mut taken = Vec::new();
        for number in 0..times {
            let start = Instant::now();
            act(number)?;
            taken.push(start.elapsed());
            std::thread::sleep(Duration::from_millis(40));
        }
        taken.sort();
        let at = |percentile: usize| taken[times * percentile / 100];
        measured.push((name.to_owned(), at(50), at(99), at(percentile)));
        anyhow::Ok(())
    };
    let get = |path: &'static str| {
        Box::new(move |_| {
            let (status, said) = probe(health, path)?;
            ensure!(status == 200, "{path} was answered with {status}: {said}");
            Ok(())
        })
    };
    measure("readiness", get("/readyz"))?;
    measure("metrics", get("/metrics"))?;
    measure(
        "creation",
        Box::new(|number| {
            client.start(&format!("created-{number}"), &json!([{ "sleep": 86_400_000 }])).map(drop)
        }),
    )?;
    let scans: u64 = store
        .sql("select coalesce(seq_scan, 0) from pg_stat_user_tables where schemaname = 'antiphon' and relname = 'jobs'")?
        .trim()
        .parse()?;
    let shown: Vec<String> = measured
        .iter()
        .map(|(name, p50, p99, _)| format!("{name} p50 {:.1} ms p99 {:.1} ms", millis(*p50), millis(*p99)))
        .collect();
    let shown = format!(
        "{jobs} jobs: {}; {scans} full scans in {:.0} s",
        shown.join(", "),
        began.elapsed().as_secs_f64()
    );
    eprintln!("{}", plans(&store)?);
    for (name, _, _, judged) in &measured {
        ensure!(
            *judged <= limit,
            "{name} took {:.1} ms at percentile {percentile}; {shown}",
            millis(*judged)
        );
    }
    ensure!(scans == 0, "the table of jobs was read from end to end {scans} times; {shown}");
    Ok(shown)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The plans of what servers ask of a full queue.
fn plans(store: &crate::field::Store) -> Result<String> {
    let bounded = "select count(*) from (select 1 from antiphon.jobs where space = 'onboarding' and queue = \
        (select queue from antiphon.jobs limit 1) and not last and due_at <= now() limit 10000) due";
    let soonest = "select due_at from antiphon.jobs where space = 'onboarding' and queue = \
        (select queue from antiphon.jobs limit 1) and not last order by due_at limit 1";
    let mut text = String::new();
    for query in [bounded, soonest] {
        let plan = store.sql(&format!("explain (analyze, buffers) {query}"))?;
        text.extend([query, "\n", &plan]);
    }
    Ok(text)
}
