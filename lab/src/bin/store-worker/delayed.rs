//! Jobs with a long delay: how late each of them comes, and whether each of them comes once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon_store::{Error, NewJob, Queue};
use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lab::programs::figures;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{Plan, complain, pause};

/// How many jobs are pushed at the same time.
const ABREAST: usize = 64;
const WORKERS: usize = 4;
const BATCH: usize = 100;

/// The jobs, by their numbers.
struct Jobs {
    /// The first job is due then.
    first: Instant,
    /// The others are due one after the other in this time.
    window: Duration,
    /// How late each job came, in milliseconds and one more. Zero if it has not come yet.
    late: Vec<AtomicU64>,
    /// Jobs that came before they were due.
    early: AtomicU32,
    /// Jobs that came more than once.
    again: AtomicU32,
    left: AtomicU64,
}

impl Jobs {
    fn due(&self, number: usize) -> Instant {
        let share = u32::try_from(number).unwrap_or(u32::MAX);
        self.first + self.window * share / u32::try_from(self.late.len()).unwrap_or(u32::MAX)
    }

    /// Notes that a job has come.
    fn note(&self, id: &str) -> Result<()> {
        let (number, now) = (id.parse()?, Instant::now());
        let due = self.due(number);
        if now < due {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        let late = u64::try_from(now.duration_since(due).as_millis())? + 1;
        match self.late[number].compare_exchange(0, late, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.left.fetch_sub(1, Ordering::Relaxed),
            Err(_) => u64::from(self.again.fetch_add(1, Ordering::Relaxed)),
        };
        Ok(())
    }
}

pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let queue = plan.open().await.queue;
    let (count, start) = (usize::try_from(plan.jobs)?, Instant::now());
    let jobs = Arc::new(Jobs {
        first: start + Duration::from_secs(plan.delay),
        window: Duration::from_secs(plan.window),
        late: (0..count).map(|_| AtomicU64::new(0)).collect(),
        early: AtomicU32::new(0),
        again: AtomicU32::new(0),
        left: AtomicU64::new(plan.jobs),
    });
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(Arc::clone(&queue), Arc::clone(&jobs)));
    }
    let pushes = (0..count).map(|number| {
        let (queue, due) = (Arc::clone(&queue), jobs.due(number));
        async move {
            let delay = due.duration_since(Instant::now());
            ensure!(!delay.is_zero(), "job {number} was due before it was pushed; choose a longer delay");
            let id = number.to_string();
            queue.push(Plan::QUEUE, NewJob::new(&id, id.clone().into_bytes()).with_delay(delay)).await?;
            Ok(())
        }
    });
    stream::iter(pushes).buffer_unordered(ABREAST).try_collect::<()>().await?;
    println!("{}", json!({ "pushed": count, "seconds": start.elapsed().as_secs_f64() }));
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    let depth = queue.depth(Plan::QUEUE).await.context("the depth of the queue")?;
    let mut late: Vec<_> =
        jobs.late.iter().map(|late| Duration::from_millis(late.load(Ordering::Relaxed) - 1)).collect();
    println!(
        "{}",
        json!({
            "p50": figures::percentile(&mut late, 50)?, "p99": figures::percentile(&mut late, 99)?,
            "max": figures::percentile(&mut late, 100)?, "early": jobs.early, "again": jobs.again,
            "left": depth.waiting + depth.leased + depth.dead,
        })
    );
    Ok(())
}

/// Takes jobs until all have come.
async fn work(queue: Arc<dyn Queue>, jobs: Arc<Jobs>) -> Result<()> {
    while jobs.left.load(Ordering::Relaxed) > 0 {
        let leased = match queue.lease(Plan::QUEUE, BATCH, Duration::from_millis(500)).await {
            Ok(leased) => leased,
            Err(error) if error.is_transient() => {
                complain(&error);
                pause().await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for job in &leased {
            jobs.note(job.id())?;
        }
        stream::iter(leased)
            .map(|job| finish(&*queue, job.lease))
            .buffer_unordered(BATCH)
            .try_collect::<()>()
            .await?;
    }
    Ok(())
}

/// Acknowledges a job, however long it takes.
async fn finish(queue: &dyn Queue, lease: antiphon_store::Lease) -> Result<()> {
    loop {
        match queue.ack(&lease).await {
            // An earlier attempt may have succeeded.
            Ok(()) | Err(Error::LeaseLost { .. }) => return Ok(()),
            Err(error) if error.is_transient() => {
                complain(&error);
                sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
