//! What is the shared store's alone: what it leaves behind, what it takes, what a crash does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use antiphon_results::{
    DualResponseError, Rows,
    store::{Removal, Resource, ResourceStore as _, ResourceUpdate, SharedStore, Tombstone},
};
use antiphon_store::{
    Backend, Memory, QueueConfig, Store as _,
    flaky::{Flaky, FlakyConfig},
};
use chrono::{TimeDelta, Utc};
use serde_json::json;
use tokio::{task::JoinSet, time::advance};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn open(memory: &Memory) -> SharedStore {
    SharedStore::new(memory.backend(QueueConfig::default()))
}

fn rows(count: usize) -> Rows {
    let mut rows = Rows::new();
    for number in 0..count {
        rows.push(&json!({"n": number})).unwrap();
    }
    rows
}

fn set(id: &str, life: Duration) -> Resource {
    Resource::new(id, "Colleges", Utc::now(), life)
}

/// Whether anything is left under `results/`: records that live or have expired, and rows of these ids.
async fn is_empty(memory: &Memory, ids: &[&str]) -> bool {
    let store = memory.store();
    let live = store.list("results/", None, 100).await.unwrap().items;
    let expired = store.claim_expired("results/", Duration::from_millis(1), 100).await.unwrap();
    let mut rows = 0;
    for id in ids {
        rows += store.read(&format!("results/rows/{id}"), 0, 10).await.unwrap().len();
    }
    live.is_empty() && expired.is_empty() && rows == 0
}

#[tokio::test(start_paused = true)]
async fn newest_set_is_seen_by_all_replicas_and_leaves_nothing() {
    let memory = Memory::default();
    let (one, other) = (open(&memory), open(&memory));
    assert_eq!(other.newest("ada").await.unwrap(), None);
    one.set_newest("ada", "rs_1").await.unwrap();
    one.set_newest("ada", "rs_2").await.unwrap();
    assert_eq!(other.newest("ada").await.unwrap().as_deref(), Some("rs_2"));
    assert_eq!(other.newest("eve").await.unwrap(), None);
    advance(HOUR).await;
    assert_eq!(other.newest("ada").await.unwrap(), None);
    assert!(other.find_expired(Utc::now()).await.unwrap().is_empty());
    assert!(is_empty(&memory, &[]).await);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_when_the_tombstone_is_forgotten() {
    let memory = Memory::default();
    let store = open(&memory).with_tombstones(HOUR);
    for id in ["deleted", "over"] {
        store.put_rows(id, rows(100)).await.unwrap();
        store.save(set(id, 2 * HOUR)).await.unwrap();
    }
    assert!(store.delete("deleted", Removal::Deleted).await.unwrap());
    advance(3 * HOUR).await;
    let later = Utc::now() + TimeDelta::hours(3);
    assert_eq!(store.tombstone("deleted").await.unwrap(), None);
    assert_eq!(store.find_expired(later).await.unwrap(), ["over"]);
    assert!(store.delete("over", Removal::Expired { at: later }).await.unwrap());
    assert_eq!(store.tombstone("over").await.unwrap().map(|gone| gone.tombstone), Some(Tombstone::Expired));
    advance(2 * HOUR).await;
    assert_eq!(store.tombstone("over").await.unwrap(), None);
    assert!(store.find_expired(later).await.unwrap().is_empty());
    assert!(is_empty(&memory, &["deleted", "over"]).await);
}

#[tokio::test(start_paused = true)]
async fn rows_that_were_never_saved_are_removed() {
    let memory = Memory::default();
    let store = open(&memory);
    store.put_rows("orphan", rows(100)).await.unwrap();
    advance(2 * HOUR).await;
    assert!(store.find_expired(Utc::now()).await.unwrap().is_empty());
    assert!(is_empty(&memory, &["orphan"]).await);
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_set_that_was_removed_in_a_crash_are_removed_later() {
    let memory = Memory::default();
    let (dying, living) = (open(&memory), open(&memory));
    for (id, life) in [("ending", Some(HOUR)), ("pinned", None)] {
        dying.put_rows(id, rows(100)).await.unwrap();
        let mut set = set(id, HOUR);
        set.expires_at = set.expires_at.filter(|_| life.is_some());
        dying.save(set).await.unwrap();
    }
    // The process dies between the tombstone and the rows: only this write is made.
    for id in ["ending", "pinned"] {
        let other = open(&memory);
        let log = format!("results/rows/{id}");
        let kept = memory.store().read(&log, 0, 100).await.unwrap();
        assert!(other.delete(id, Removal::Deleted).await.unwrap());
        memory.store().append(&log, 0, kept).await.unwrap();
    }
    advance(25 * HOUR).await;
    assert!(living.find_expired(Utc::now() + TimeDelta::hours(25)).await.unwrap().is_empty());
    assert!(is_empty(&memory, &["ending", "pinned"]).await);
}

#[tokio::test(start_paused = true)]
async fn set_whose_alarm_was_lost_is_removed_after_a_week() {
    let memory = Memory::default();
    let store = open(&memory);
    store.put_rows("set", rows(10)).await.unwrap();
    store.save(set("set", HOUR)).await.unwrap();
    let alarm = memory.store().get("results/ends/set").await.unwrap().unwrap();
    memory.store().delete(&alarm.key, alarm.revision).await.unwrap();
    advance(24 * 6 * HOUR).await;
    let later = Utc::now() + TimeDelta::days(6);
    assert!(store.find_expired(later).await.unwrap().is_empty());
    assert!(store.get("set").await.unwrap().is_some());
    advance(24 * 2 * HOUR).await;
    assert!(store.find_expired(later).await.unwrap().is_empty());
    assert!(is_empty(&memory, &["set"]).await);
}

#[tokio::test(start_paused = true)]
async fn found_set_that_nobody_removes_is_found_again_after_a_minute() {
    let memory = Memory::default();
    let (dying, living) = (open(&memory), open(&memory));
    dying.save(set("set", HOUR)).await.unwrap();
    advance(2 * HOUR).await;
    let later = Utc::now() + TimeDelta::hours(2);
    assert_eq!(dying.find_expired(later).await.unwrap(), ["set"]);
    advance(Duration::from_secs(59)).await;
    assert!(living.find_expired(later).await.unwrap().is_empty());
    advance(Duration::from_secs(2)).await;
    assert_eq!(living.find_expired(later).await.unwrap(), ["set"]);
}

#[tokio::test(start_paused = true)]
async fn clocks_that_disagree_end_no_set_early() {
    let memory = Memory::default();
    let store = open(&memory);
    store.save(set("set", HOUR)).await.unwrap();
    // The backend's clock runs ahead of whoever cleans up.
    advance(2 * HOUR).await;
    assert!(store.find_expired(Utc::now()).await.unwrap().is_empty());
    assert!(store.find_expired(Utc::now()).await.unwrap().is_empty());
    advance(HOUR).await;
    assert_eq!(store.find_expired(Utc::now() + TimeDelta::hours(1)).await.unwrap(), ["set"]);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_advice() {
    let memory = Memory::default();
    let store = open(&memory);
    let mut large = set("large", HOUR);
    large.metadata.insert("text".to_owned(), "x".repeat(600_000).into());
    let error = store.save(large.clone()).await.unwrap_err();
    assert!(matches!(&error, DualResponseError::TooLarge(why) if why.contains("metadata")), "{error:?}");

    store.save(set("set", HOUR)).await.unwrap();
    let update = ResourceUpdate::at(Utc::now());
    let (refused, made) = tokio::join!(
        store.update("set", update.clone().with_metadata(large.metadata)),
        store.update("set", update.with_accesses(1)),
    );
    assert!(matches!(refused, Err(DualResponseError::TooLarge(_))), "{refused:?}");
    assert_eq!(made.unwrap().unwrap().access_count, 1);

    let mut rows = rows(3);
    rows.push(&json!({"text": "x".repeat(600_000)})).unwrap();
    let error = store.put_rows("rows", rows).await.unwrap_err();
    assert!(matches!(&error, DualResponseError::TooLarge(why) if why.contains("row 3")), "{error:?}");
    assert!(store.rows("rows", 0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn largest_resource_and_row_can_be_kept_and_counted() {
    let memory = Memory::default();
    let store = open(&memory);
    let mut large = set("large", HOUR);
    let mut size = 523_264;
    // The largest that is taken.
    while {
        large.metadata.insert("text".to_owned(), "x".repeat(size).into());
        store.save(large.clone()).await.is_err()
    } {
        size -= 100;
    }
    for _ in 0..100 {
        // As many replicas as leave marks, and more.
        let update = ResourceUpdate::at(Utc::now()).with_accesses(u64::MAX / 200);
        assert!(open(&memory).update("large", update).await.unwrap().is_some());
    }
    let mut row = Rows::new();
    row.push_json(&format!("{{\"t\":\"{}\"}}", "x".repeat(523_264 - 8))).unwrap();
    store.put_rows("large", row.clone()).await.unwrap();
    assert!(store.rows("large", 0, 10).await.unwrap() == row);
}

#[tokio::test]
async fn bad_id_is_not_saved() {
    let store = open(&Memory::default());
    for id in ["", "a/b", "..", "ä", &"x".repeat(65)] {
        assert!(matches!(store.save(set(id, HOUR)).await, Err(DualResponseError::Invalid(_))), "{id:?}");
        assert!(matches!(store.put_rows(id, rows(1)).await, Err(DualResponseError::Invalid(_))), "{id:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_access_is_counted_once_over_connections_that_lie() {
    for seed in 0..40 {
        let memory = Memory::default();
        let open = |seed| {
            let flaky = Flaky::new(Arc::new(memory.store()), FlakyConfig::seeded(seed));
            SharedStore::new(Backend::new(flaky, memory.queue(QueueConfig::default()), memory.bus()))
        };
        let stores = [open(seed), open(seed + 1000), open(seed + 2000)];
        stores[0].save(set("set", HOUR)).await.unwrap();
        let mut readers = JoinSet::new();
        for number in 0..150_u64 {
            let store = stores[usize::try_from(number % 3).unwrap()].clone();
            readers.spawn(async move {
                tokio::time::sleep(Duration::from_millis(number * 7 % 400)).await;
                let update = ResourceUpdate::at(Utc::now()).with_accesses(1);
                store.update("set", update).await.unwrap().unwrap();
            });
        }
        readers.join_all().await;
        let count = stores[1].get("set").await.unwrap().unwrap().access_count;
        assert_eq!(count, 150, "with seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn set_is_removed_by_one_over_connections_that_lie() {
    for seed in 0..40 {
        let memory = Memory::default();
        let mut racers = JoinSet::new();
        open(&memory).save(set("set", HOUR)).await.unwrap();
        for number in 0..12 {
            let flaky = Flaky::new(Arc::new(memory.store()), FlakyConfig::seeded(seed * 100 + number));
            let backend = Backend::new(flaky, memory.queue(QueueConfig::default()), memory.bus());
            let store = SharedStore::new(backend);
            racers.spawn(async move { store.delete("set", Removal::Deleted).await.unwrap() });
        }
        let winners = racers.join_all().await.into_iter().filter(|deleted| *deleted).count();
        assert_eq!(winners, 1, "with seed {seed}");
    }
}

#[test]
fn updates_go_on_after_a_runtime_that_ended_in_the_middle() {
    let memory = Memory::default();
    let store = open(&memory);
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    first.block_on(async { store.save(set("set", HOUR)).await.unwrap() });
    let update = || ResourceUpdate::at(Utc::now()).with_accesses(1);
    // The update is begun on a runtime that ends before it is written.
    first.block_on(async {
        let begun = tokio::time::timeout(Duration::ZERO, store.update("set", update()));
        let _ = begun.await;
    });
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let made = second.block_on(async { store.update("set", update()).await.unwrap().unwrap().access_count });
    assert!((1..=2).contains(&made));
}
