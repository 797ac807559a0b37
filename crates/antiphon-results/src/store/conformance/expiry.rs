//! Contract tests for expiry and clean-up.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use chrono::TimeDelta;
use tokio::{task::JoinSet, time::sleep};

use super::{
    super::{Removal, Resource, ResourceStore, ResourceUpdate, Tombstone},
    fixture::{HOUR, MINUTE, POLL_INTERVAL, Stores, clean_up, find, live, over},
};

/// Changes the expiry time of a result set. The time of the update is before the old expiry time, so that the store
/// accepts the update.
async fn end_at(stores: &Stores, store: &dyn ResourceStore, id: &str, end: Option<TimeDelta>) {
    let at = stores.now() - TimeDelta::minutes(90);
    let end = end.map(|left| stores.now() + left);
    let updated = store.update(id, ResourceUpdate::at(at).with_expires_at(end)).await.unwrap();
    assert_eq!(updated.expect("it is there").expires_at, end);
}

/// Tests that `find_expired` returns exactly the expired result sets, through every handle.
pub async fn expired_are_found_and_no_others(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    for id in ["over-1", "over-2", "over-3"] {
        one.save(over(stores, id)).await.unwrap();
    }
    one.save(live(stores, "live")).await.unwrap();
    one.save(Resource { expires_at: None, ..over(stores, "ever") }).await.unwrap();
    one.save(over(stores, "deleted")).await.unwrap();
    assert!(one.delete("deleted", Removal::Deleted).await.unwrap());

    clean_up(stores, &*two, &["over-1", "over-2", "over-3"]).await;
    assert_eq!(find(stores, &*two).await, [""; 0]);
    assert_eq!(find(stores, &*one).await, [""; 0]);
    for id in ["live", "ever"] {
        assert!(one.get(id).await.unwrap().is_some(), "{id} is still there");
    }
    for id in ["over-1", "over-2", "over-3"] {
        assert_eq!(one.tombstone(id).await.unwrap().map(|gone| gone.tombstone), Some(Tombstone::Expired));
    }
}

/// Tests that `find_expired` does not return the same ID again immediately. The contract requires that `find_expired`
/// does not return an ID again for one minute.
pub async fn found_is_not_given_again_at_once(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.save(over(stores, "set")).await.unwrap();
    let mut found = Vec::new();
    while found.is_empty() {
        sleep(POLL_INTERVAL).await;
        found = find(stores, &*one).await;
    }
    assert_eq!(found, ["set"]);
    for store in [&one, &two] {
        assert_eq!(find(stores, &**store).await, [""; 0]);
    }
    // The set still exists, because `find_expired` does not remove it.
    assert!(two.get("set").await.unwrap().is_some());
}

/// Tests that concurrent clean-ups on all replicas remove every expired result set exactly once.
pub async fn racing_cleaners_share_what_has_expired(stores: &Stores) {
    const SETS: usize = 60;
    let (one, two) = (stores.open().await, stores.open().await);
    for number in 0..SETS {
        one.save(over(stores, &format!("set-{number}"))).await.unwrap();
    }
    let mut cleaners = JoinSet::new();
    let removed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for store in [&one, &two, &one, &two] {
        let (store, removed, at) = (Arc::clone(store), Arc::clone(&removed), stores.now());
        cleaners.spawn(async move {
            let mut found = Vec::new();
            while removed.load(std::sync::atomic::Ordering::SeqCst) < SETS {
                for id in store.find_expired(at).await.unwrap() {
                    assert!(store.delete(&id, Removal::Expired { at }).await.unwrap(), "{id} is not ours");
                    removed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    found.push(id);
                }
                sleep(POLL_INTERVAL).await;
            }
            found
        });
    }
    let found: Vec<_> = cleaners.join_all().await.concat();
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), SETS);
    assert_eq!(found.len(), SETS, "one was found twice");
}

/// Tests that a pinned result set does not expire at its original expiry time.
pub async fn pinned_resource_is_never_found(stores: &Stores) {
    let store = stores.open().await;
    for id in ["pinned", "over"] {
        store.save(over(stores, id)).await.unwrap();
    }
    end_at(stores, &*store, "pinned", None).await;
    clean_up(stores, &*store, &["over"]).await;
    assert_eq!(find(stores, &*store).await, [""; 0]);
    assert_eq!(store.get("pinned").await.unwrap().unwrap().expires_at, None);
}

/// Tests that an unpinned result set expires at its new expiry time.
pub async fn unpinned_resource_ends_again(stores: &Stores) {
    let store = stores.open().await;
    store.save(over(stores, "set")).await.unwrap();
    store.save(over(stores, "over")).await.unwrap();
    end_at(stores, &*store, "set", None).await;
    // A clean-up runs while the set is pinned.
    clean_up(stores, &*store, &["over"]).await;
    end_at(stores, &*store, "set", Some(-MINUTE)).await;
    clean_up(stores, &*store, &["set"]).await;
    assert_eq!(store.tombstone("set").await.unwrap().map(|gone| gone.tombstone), Some(Tombstone::Expired));
}

/// Tests that an extended result set expires at its new expiry time, and not before.
pub async fn extended_resource_ends_at_its_new_end(stores: &Stores) {
    let store = stores.open().await;
    store.save(over(stores, "set")).await.unwrap();
    store.save(over(stores, "over")).await.unwrap();
    let end = stores.now() + TimeDelta::seconds(2);
    let extension = ResourceUpdate::at(stores.now() - TimeDelta::minutes(90)).with_expires_at(Some(end));
    store.update("set", extension).await.unwrap().expect("it is there");
    let mut left = BTreeSet::from(["set".to_owned(), "over".to_owned()]);
    while !left.is_empty() {
        let at = stores.now();
        for id in store.find_expired(at).await.unwrap() {
            assert!(id == "over" || at >= end, "{id} was found before its end");
            assert!(store.delete(&id, Removal::Expired { at }).await.unwrap());
            assert!(left.remove(&id), "{id} was found twice");
        }
        sleep(POLL_INTERVAL).await;
    }
    assert_eq!(store.tombstone("set").await.unwrap().map(|gone| gone.tombstone), Some(Tombstone::Expired));
}

/// Tests that a result set with a shortened lifetime expires at its new expiry time.
pub async fn shortened_resource_ends_at_its_new_end(stores: &Stores) {
    let store = stores.open().await;
    store.save(live(stores, "set")).await.unwrap();
    let short =
        ResourceUpdate::at(stores.now()).with_expires_at(Some(stores.now() + TimeDelta::milliseconds(300)));
    store.update("set", short).await.unwrap().expect("it is there");
    clean_up(stores, &*store, &["set"]).await;
}

/// Tests that a result set expires without any further write.
pub async fn life_ends_by_itself(stores: &Stores) {
    let store = stores.open().await;
    let begun = stores.now();
    let set = Resource::new("set", "Short", begun, Duration::from_millis(500));
    store.save(set).await.unwrap();
    store.save(Resource::new("long", "Long", begun, HOUR)).await.unwrap();
    clean_up(stores, &*store, &["set"]).await;
    assert!(stores.now() - begun >= TimeDelta::milliseconds(500), "it was removed before its end");
    assert!(store.get("long").await.unwrap().is_some());
}
