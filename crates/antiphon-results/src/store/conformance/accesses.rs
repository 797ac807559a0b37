//! What is counted.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::{
    super::{Removal, ResourceUpdate},
    fixture::{MINUTE, Stores, live, over},
};

/// However many read at once, from wherever, each is counted once.
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

/// Accesses come late and out of order.
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
    // What is no access is no reason to think that somebody has read.
    let later = ResourceUpdate::at(now + MINUTE).with_name("New");
    let set = store.update("set", later).await.unwrap().unwrap();
    assert_eq!((set.access_count, set.last_accessed_at), (8, Some(now)));
}

/// Readers who hang up do not take the accesses of others along, nor hold them up.
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
            // Some leave before they have begun, some while they are being written.
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

/// What is over is not read any more, even if nobody has removed it.
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
    // The moment before, it is there.
    let last = store.update("set", access(end - TimeDelta::nanoseconds(1))).await.unwrap();
    assert_eq!(last.expect("it is there").access_count, 1);
    assert!(store.delete("over", Removal::Deleted).await.unwrap());
}
