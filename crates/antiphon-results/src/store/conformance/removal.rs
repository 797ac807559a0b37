//! Contract tests for removal and tombstones.

use std::sync::Arc;

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::{
    super::{Removal, ResourceUpdate, Tombstone},
    fixture::{MINUTE, Stores, clean_up, live, over},
};
use crate::owner::Owner;

/// Tests that an expired result set stays in the store until it is deleted. A reader of the store must check the
/// expiry time of a result set.
pub async fn expired_resource_is_seen_until_it_is_deleted(stores: &Stores) {
    let store = stores.open().await;
    let set = over(stores, "over");
    store.save(set.clone()).await.unwrap();
    assert_eq!(store.get("over").await.unwrap(), Some(set));
    assert_eq!(store.tombstone("over").await.unwrap(), None);
    clean_up(stores, &*store, &["over"]).await;
    assert_eq!(store.get("over").await.unwrap(), None);
}

/// Tests that a deleted result set is gone, and that all replicas find a tombstone with the reason `Deleted`.
pub async fn deleted_resource_is_gone_and_remembered(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.save(live(stores, "set")).await.unwrap();
    one.save(live(stores, "other")).await.unwrap();
    assert!(one.delete("set", Removal::Deleted).await.unwrap());
    for store in [one, two] {
        assert_eq!(store.get("set").await.unwrap(), None);
        assert_eq!(
            store.tombstone("set").await.unwrap().map(|gone| gone.tombstone),
            Some(Tombstone::Deleted)
        );
        assert!(!store.delete("set", Removal::Deleted).await.unwrap());
        assert!(!store.delete("set", Removal::Expired { at: stores.now() }).await.unwrap());
        assert_eq!(
            store.tombstone("set").await.unwrap().map(|gone| gone.tombstone),
            Some(Tombstone::Deleted)
        );
        assert_eq!(store.tombstone("other").await.unwrap(), None);
    }
}

/// Tests that an expired result set is gone. Also tests that all replicas find a tombstone with the reason `Expired`
/// and the owner of the set.
pub async fn expired_resource_is_gone_and_remembered(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let mut set = live(stores, "set");
    set.owner = Owner::principal("ada").with_tenant("acme");
    let end = set.expires_at.expect("it ends");
    one.save(set).await.unwrap();
    assert!(!one.delete("set", Removal::Expired { at: end - TimeDelta::milliseconds(1) }).await.unwrap());
    assert_eq!(one.tombstone("set").await.unwrap(), None);
    assert!(one.delete("set", Removal::Expired { at: end }).await.unwrap());
    for store in [one, two] {
        assert_eq!(store.get("set").await.unwrap(), None);
        let owner = store.tombstone("set").await.unwrap().map(|gone| gone.owner);
        assert_eq!(owner, Some(Owner::principal("ada").with_tenant("acme")), "nobody else is to be told");
        assert_eq!(
            store.tombstone("set").await.unwrap().map(|gone| gone.tombstone),
            Some(Tombstone::Expired)
        );
        assert!(!store.delete("set", Removal::Deleted).await.unwrap());
        assert_eq!(
            store.tombstone("set").await.unwrap().map(|gone| gone.tombstone),
            Some(Tombstone::Expired)
        );
    }
}

/// Tests that exactly one of many concurrent deletions succeeds, and that the tombstone has the reason of this
/// deletion.
pub async fn racing_deleters_have_one_winner(stores: &Stores) {
    const DELETERS: usize = 32;
    let (one, two) = (stores.open().await, stores.open().await);
    one.save(over(stores, "set")).await.unwrap();
    let mut racers = JoinSet::new();
    for number in 0..DELETERS {
        let store = Arc::clone(if number % 2 == 0 { &one } else { &two });
        let removal = if number % 3 == 0 { Removal::Deleted } else { Removal::Expired { at: stores.now() } };
        racers.spawn(async move {
            let deleted = store.delete("set", removal).await.unwrap();
            deleted.then(|| Tombstone::from(removal))
        });
    }
    let winners: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(two.tombstone("set").await.unwrap().map(|gone| gone.tombstone), Some(winners[0]));
}

/// Tests that a late update does not restore a deleted result set.
pub async fn deleted_resource_is_not_brought_back_by_an_update(stores: &Stores) {
    for round in 0..8 {
        let (one, two) = (stores.open().await, stores.open().await);
        let id = format!("set-{round}");
        one.save(live(stores, &id)).await.unwrap();
        let mut racers = JoinSet::new();
        for number in 0..8 {
            let (store, id) = (Arc::clone(if number % 2 == 0 { &one } else { &two }), id.clone());
            let access = ResourceUpdate::at(stores.now()).with_accesses(1);
            let update = if number < 2 { access.with_expires_at(None) } else { access };
            racers.spawn(async move {
                store.update(&id, update).await.unwrap();
            });
        }
        // At this point, some of the updates have started.
        tokio::task::yield_now().await;
        assert!(two.delete(&id, Removal::Deleted).await.unwrap());
        racers.join_all().await;
        for store in [one, two] {
            assert_eq!(store.get(&id).await.unwrap(), None);
            assert_eq!(
                store.tombstone(&id).await.unwrap().map(|gone| gone.tombstone),
                Some(Tombstone::Deleted)
            );
            let late = ResourceUpdate::at(stores.now()).with_expires_at(None);
            assert_eq!(store.update(&id, late).await.unwrap(), None);
        }
    }
}

/// Tests that a clean-up does not remove a result set that was pinned or extended after the clean-up found it.
pub async fn expiry_spares_what_was_pinned_or_extended(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    for (id, end) in [("pinned", None), ("extended", Some(stores.now() + MINUTE))] {
        let set = over(stores, id);
        // By the clock of the caller, the set had not expired at this time.
        let at = set.expires_at.expect("it ends") - MINUTE;
        one.save(set).await.unwrap();
        two.update(id, ResourceUpdate::at(at).with_expires_at(end)).await.unwrap().expect("it is there");
        assert!(!one.delete(id, Removal::Expired { at: stores.now() }).await.unwrap(), "{id}");
        assert!(one.get(id).await.unwrap().is_some(), "{id}");
        assert_eq!(one.tombstone(id).await.unwrap(), None, "{id}");
    }
}

/// Tests that a pinned result set can be deleted. Pinning a result set prevents only the expiry of the set.
pub async fn deletion_takes_even_what_is_pinned(stores: &Stores) {
    let store = stores.open().await;
    store.save(live(stores, "set")).await.unwrap();
    let pin = ResourceUpdate::at(stores.now()).with_expires_at(None);
    store.update("set", pin).await.unwrap().expect("it is there");
    assert!(store.delete("set", Removal::Deleted).await.unwrap());
    assert_eq!(store.get("set").await.unwrap(), None);
    assert_eq!(store.tombstone("set").await.unwrap().map(|gone| gone.tombstone), Some(Tombstone::Deleted));
}
