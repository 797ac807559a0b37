//! Accesses from many readers on three replicas are counted exactly, and cost few writes.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it found"
)]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use antiphon_results::store::{Resource, ResourceStore as _, ResourceUpdate, SharedStore};
use antiphon_store::{Backend, Memory, QueueConfig};
use chrono::Utc;
use tokio::task::JoinSet;

use super::connect;
use crate::support::{Counted, Counts};

/// So many writes are few for 10,000 accesses.
const FEW: u64 = 1_000;

/// Reads one set 10,000 times at once over all backends, which are openings of one.
async fn read_often(name: &str, backends: Vec<Backend>, most: u64) {
    const READS: usize = 10_000;
    let counts = Arc::new(Counts::default());
    let stores: Vec<_> =
        backends.into_iter().map(|backend| SharedStore::new(Counted::backend(backend, &counts))).collect();
    let set = Resource::new("set", "Colleges", Utc::now(), Duration::from_secs(900));
    stores[0].save(set).await.unwrap();
    let begun = Instant::now();
    let mut readers = JoinSet::new();
    for number in 0..READS {
        let store = stores[number % stores.len()].clone();
        readers.spawn(async move {
            // Readers do not all come in the same moment.
            tokio::time::sleep(Duration::from_micros(u64::try_from(number).unwrap() * 37 % 300_000)).await;
            let update = ResourceUpdate::at(Utc::now()).with_accesses(1);
            assert!(store.update("set", update).await.unwrap().is_some());
        });
    }
    readers.join_all().await;
    let took = begun.elapsed();
    for store in &stores {
        assert_eq!(store.get("set").await.unwrap().unwrap().access_count, READS as u64);
    }
    let (made, lost) = (counts.made.load(Ordering::Relaxed), counts.lost.load(Ordering::Relaxed));
    println!(
        "{name}: {READS} accesses in {took:?}, {made} writes, {lost} attempts that lost against another"
    );
    assert!(made <= most, "{made} writes are not few");
}

async fn three(variable: &str) -> Option<Vec<Backend>> {
    let space = format!("counted-{:x}", Utc::now().timestamp_nanos_opt().unwrap());
    let mut backends = Vec::new();
    for _ in 0..3 {
        backends.push(connect(variable, &space).await?);
    }
    Some(backends)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_accesses_on_postgres_are_counted_exactly() {
    if let Some(backends) = three("ANTIPHON_TEST_POSTGRES_URL").await {
        read_often("PostgreSQL", backends, FEW).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_accesses_on_redis_are_counted_exactly() {
    if let Some(backends) = three("ANTIPHON_TEST_REDIS_URL").await {
        read_often("Redis", backends, FEW).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_accesses_on_nats_are_counted_exactly() {
    if let Some(backends) = three("ANTIPHON_TEST_NATS_URL").await {
        read_often("NATS", backends, FEW).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_accesses_in_memory_are_counted_exactly() {
    // Where a write takes no time, few wait for one.
    let memory = Memory::default();
    read_often("memory", (0..3).map(|_| memory.backend(QueueConfig::default())).collect(), 10_000).await;
}
