//! Legs a second, beside the bare queue leasing and acknowledging jobs of the same payload with as many hands.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon::{Ctx, Result as ToolResult, Tool};
use antiphon_store::{Backend, NewJob};
use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use lab::programs::figures::{median, rate};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{HANDS, client::Client, server};

const ROUNDS: usize = 5;
const QUEUE: &str = "bare";

/// How many legs were taken.
#[derive(Default)]
struct Taken {
    count: AtomicUsize,
    enough: AtomicUsize,
    done: Notify,
}

static TAKEN: std::sync::LazyLock<Taken> = std::sync::LazyLock::new(Taken::default);

/// The least a leg can be: it begins and ends.
async fn nothing(_: &Ctx, _: ()) -> ToolResult<String> {
    if TAKEN.count.fetch_add(1, Ordering::SeqCst) + 1 >= TAKEN.enough.load(Ordering::SeqCst) {
        TAKEN.done.notify_one();
    }
    Ok("done".into())
}

pub(crate) async fn measure(backend: &Backend, count: usize) -> Result<Value> {
    let (mut ours, mut bare, mut created) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        create(backend, count).await?;
        created.push(rate(count, start.elapsed()));
        ours.push(legs(backend, count).await?);
        bare.push(leases(backend, round, count).await?);
    }
    let ratios = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect();
    Ok(json!({
        "hands": HANDS, "legs": ROUNDS * count, "ours": median(ours), "bare": median(bare),
        "ratio": median(ratios), "created": median(created),
    }))
}

fn tool() -> Tool {
    Tool::new("nothing", "Does nothing", nothing)
}

/// Makes tasks that nobody works on yet.
async fn create(backend: &Backend, count: usize) -> Result<()> {
    let front = server(backend, tool(), 0)?;
    let clients = (0..HANDS).map(|_| async {
        let mut client = Client::connect(&front);
        for _ in 0..count / HANDS {
            client.begin("nothing", json!({})).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(clients).await?;
    front.shut_down();
    Ok(())
}

/// Works on all of them.
async fn legs(backend: &Backend, count: usize) -> Result<f64> {
    TAKEN.count.store(0, Ordering::SeqCst);
    TAKEN.enough.store(count / HANDS * HANDS, Ordering::SeqCst);
    let worker = server(backend, tool(), HANDS)?;
    let start = Instant::now();
    // Ends when the last leg is written down and acknowledged, not only begun.
    worker.run_workers(TAKEN.done.notified()).await;
    Ok(rate(count / HANDS * HANDS, start.elapsed()))
}

/// The same jobs without runs.
async fn leases(backend: &Backend, round: usize, count: usize) -> Result<f64> {
    let payload = format!("1 tasks/anyone/{round:032x} nothing");
    let pushes = (0..HANDS).map(|hand| {
        let payload = &payload;
        async move {
            for number in 0..count / HANDS {
                let job = NewJob::new(format!("{round}-{hand}-{number}"), payload.clone());
                backend.queue.push(QUEUE, job).await?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(pushes).await?;
    let left = Arc::new(AtomicUsize::new(count / HANDS * HANDS));
    let start = Instant::now();
    let hands = (0..HANDS).map(|_| {
        let left = Arc::clone(&left);
        async move {
            let mut in_vain = 0;
            while left.load(Ordering::SeqCst) > 0 {
                let jobs = backend.queue.lease(QUEUE, 1, Duration::ZERO).await?;
                in_vain += usize::from(jobs.is_empty());
                ensure!(in_vain <= count, "no job was leased");
                for job in jobs {
                    backend.queue.ack(&job.lease).await?;
                    left.fetch_sub(1, Ordering::SeqCst);
                }
            }
            Ok(())
        }
    });
    try_join_all(hands).await?;
    Ok(rate(count / HANDS * HANDS, start.elapsed()))
}
