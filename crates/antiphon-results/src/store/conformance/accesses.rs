//! Contract tests that check how a store counts accesses.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::{
    super::{Removal, ResourceUpdate},
    fixture::{MINUTE, Stores, live, over},
};

/// Tests that concurrent accesses through several handles are each counted once.
pub async fn racing_accesses_are_counted_exactly(stores: &Stores) {
    const READERS: u64 = 40;
    const READS: u64 = 10;
    let (one, two) = (stores.open().await, stores.open().await);
    one.save(live(stores, "set")).await.unwrap();
    let at = stores.now();
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let store = Arc::clone(if number % 2 == 0 { &one } else { &two });
        readers.spawn(async move {
            let mut seen = 0;
            for _ in 0..READS {
                let update = ResourceUpdate::at(at).with_accesses(1);
                let count = store.update("set", update).await.unwrap().expect("it is there").access_count;
                assert!(count > seen, "an access that was counted is counted no more");
                seen = count;
            }
        });
    }
    readers.join_all().await;
    for store in [one, two] {
        assert_eq!(store.get("set").await.unwrap().unwrap().access_count, READERS * READS);
    }
}

/// Tests that the store counts accesses that arrive late and out of order, and keeps the latest access time.
pub async fn accesses_add_up_and_the_latest_is_kept(stores: &Stores) {
    let store = stores.open().await;
    store.save(live(stores, "set")).await.unwrap();
    let now = stores.now();
    let mut count = 0;
    for (accesses, at, latest) in
        [(1, now - MINUTE, now - MINUTE), (5, now, now), (2, now - TimeDelta::seconds(9), now)]
    {
        count += accesses;
        let set = store.update("set", ResourceUpdate::at(at).with_accesses(accesses)).await.unwrap().unwrap();
        assert_eq!((set.access_count, set.last_accessed_at), (count, Some(latest)));
    }
    // A change without accesses does not update the time of the last access.
    let later = ResourceUpdate::at(now + MINUTE).with_name("New");
    let set = store.update("set", later).await.unwrap().unwrap();
    assert_eq!((set.access_count, set.last_accessed_at), (8, Some(now)));
}

/// Tests that cancelled updates neither cancel nor block the accesses of other callers.
pub async fn abandoned_update_takes_nobody_along(stores: &Stores) {
    const STAYING: u64 = 20;
    let store = stores.open().await;
    store.save(live(stores, "set")).await.unwrap();
    let at = stores.now();
    let mut staying = JoinSet::new();
    let mut leaving = JoinSet::new();
    for number in 0..STAYING {
        let update = ResourceUpdate::at(at).with_accesses(1);
        let (one, two, change) = (Arc::clone(&store), Arc::clone(&store), update.clone());
        leaving.spawn(async move {
            // Some callers are cancelled before the write starts, and some during the write.
            let patience = Duration::from_micros(number * 50);
            let _ = tokio::time::timeout(patience, one.update("set", change)).await;
        });
        staying.spawn(async move { two.update("set", update).await.unwrap().expect("it is there") });
        tokio::task::yield_now().await;
    }
    leaving.join_all().await;
    staying.join_all().await;
    let count = store.get("set").await.unwrap().unwrap().access_count;
    assert!((STAYING..=2 * STAYING).contains(&count), "{count} accesses were counted");
}

/// Tests that an expired result set rejects accesses, even if it has not been removed.
pub async fn access_to_what_has_expired_is_refused(stores: &Stores) {
    let store = stores.open().await;
    let set = live(stores, "set");
    let end = set.expires_at.expect("it ends");
    store.save(set.clone()).await.unwrap();
    store.save(over(stores, "over")).await.unwrap();

    let access = |at| ResourceUpdate::at(at).with_accesses(1);
    assert_eq!(store.update("over", access(stores.now())).await.unwrap(), None);
    assert_eq!(store.update("set", access(end)).await.unwrap(), None);
    assert_eq!(store.update("set", access(end).with_expires_at(None)).await.unwrap(), None);
    assert_eq!(store.update("set", access(end + MINUTE).with_name("New")).await.unwrap(), None);
    assert_eq!(store.get("set").await.unwrap(), Some(set));
    // One nanosecond before its expiry time, the result set still accepts an access.
    let last = store.update("set", access(end - TimeDelta::nanoseconds(1))).await.unwrap();
    assert_eq!(last.expect("it is there").access_count, 1);
    assert!(store.delete("over", Removal::Deleted).await.unwrap());
}
