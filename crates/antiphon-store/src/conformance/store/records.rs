//! Contract tests for records: conditional writes, and the visibility of writes.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{LONG, Stores, all, bytes, until_expired, value, whole_log};
use crate::{
    error::Error,
    store::{Record, Revision},
};

/// Tests that `get` returns `None` and no error for a key without a record.
pub async fn absent_key_reads_as_nothing(stores: &Stores) {
    assert_eq!(value(&*stores.open().await, "absent").await, None);
}

/// Tests that a created record is read back with its key and its revision.
pub async fn created_record_is_read_back(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("a/b", bytes("one"), None).await.unwrap();
    assert_eq!(store.get("a/b").await.unwrap(), Some(Record::new("a/b", bytes("one"), revision)));
}

/// Tests that `create` fails with a conflict if the key already has a record.
pub async fn second_creation_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    store.create("key", bytes("first"), None).await.unwrap();
    stores.assert_conflict(store.create("key", bytes("second"), None).await);
    assert_eq!(value(&*store, "key").await, Some(bytes("first")));
}

/// Tests that an update replaces the value and returns a new revision.
pub async fn update_at_its_revision_replaces_the_value(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), None).await.unwrap();
    let second = store.update("key", bytes("second"), None, first).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(store.get("key").await.unwrap(), Some(Record::new("key", bytes("second"), second)));
}

/// Tests that the second of two updates at the same revision fails with a conflict.
pub async fn stale_update_is_a_conflict_and_changes_nothing(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), None).await.unwrap();
    let second = store.update("key", bytes("second"), None, first).await.unwrap();
    stores.assert_conflict(store.update("key", bytes("third"), None, first).await);
    assert_eq!(store.get("key").await.unwrap(), Some(Record::new("key", bytes("second"), second)));
}

/// Tests that an update of a record that does not exist fails with a conflict.
pub async fn update_of_an_absent_record_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    stores.assert_conflict(store.update("key", bytes("value"), None, Revision(1)).await);
    assert_eq!(value(&*store, "key").await, None);
}

/// Tests that `get` and `list` do not return a deleted record.
pub async fn delete_at_its_revision_removes_the_record(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("key", bytes("value"), None).await.unwrap();
    store.delete("key", revision).await.unwrap();
    assert_eq!(value(&*store, "key").await, None);
    assert!(all(&*store, "", 10).await.is_empty());
}

/// Tests that a deletion at an old revision fails with a conflict.
pub async fn stale_delete_is_a_conflict_and_removes_nothing(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), None).await.unwrap();
    store.update("key", bytes("second"), None, first).await.unwrap();
    stores.assert_conflict(store.delete("key", first).await);
    assert_eq!(value(&*store, "key").await, Some(bytes("second")));
}

/// Tests that the deletion of an absent record fails with a conflict, because another writer has deleted the record.
pub async fn delete_of_an_absent_record_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("key", bytes("value"), None).await.unwrap();
    store.delete("key", revision).await.unwrap();
    let again = store.delete("key", revision).await;
    if stores.is_exact() {
        stores.assert_conflict(again);
    }
}

/// Tests that a writer with an old revision cannot overwrite a record that was deleted and created again.
pub async fn revision_is_never_used_twice(stores: &Stores) {
    let store = stores.open().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let mut revision = store.create("key", bytes("value"), None).await.unwrap();
        assert!(!seen.contains(&revision), "{revision:?} was used before");
        seen.push(revision);
        revision = store.update("key", bytes("value"), None, revision).await.unwrap();
        assert!(!seen.contains(&revision), "{revision:?} was used before");
        seen.push(revision);
        store.delete("key", revision).await.unwrap();
    }
    store.create("key", bytes("last"), None).await.unwrap();
    for revision in seen {
        stores.assert_conflict(store.update("key", bytes("stale"), None, revision).await);
    }
    assert_eq!(value(&*store, "key").await, Some(bytes("last")));
}

/// Tests that every handle can read a write after the write has returned.
pub async fn write_is_seen_by_another_opening(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    for round in 0..50 {
        let key = format!("round/{round}");
        let revision = one.create(&key, bytes("one"), None).await.unwrap();
        assert_eq!(two.get(&key).await.unwrap().map(|record| record.revision), Some(revision));
        let revision = two.update(&key, bytes("two"), None, revision).await.unwrap();
        assert_eq!(one.get(&key).await.unwrap().map(|record| record.revision), Some(revision));
        two.delete(&key, revision).await.unwrap();
        assert_eq!(value(&*one, &key).await, None);
    }
}

/// Tests that two applications with different spaces can share a server without access to each other's records.
pub async fn spaces_do_not_see_each_other(stores: &Stores) {
    let (store, other) = (stores.open().await, stores.open_other().await);
    store.create("key", bytes("mine"), Some(stores.short())).await.unwrap();
    store.append("log", 0, vec![bytes("mine")]).await.unwrap();
    assert_eq!(value(&*other, "key").await, None);
    assert!(all(&*other, "", 10).await.is_empty());
    assert!(whole_log(&*other, "log").await.is_empty());
    until_expired(&*store, "key").await;
    assert!(other.claim_expired("", LONG, 10).await.unwrap().is_empty());
    other.create("key", bytes("other"), None).await.unwrap();
}

/// Tests that a value can contain any bytes: no bytes, all byte values, and text that looks like protocol data.
pub async fn any_bytes_are_kept(stores: &Stores) {
    let store = stores.open().await;
    let every = Bytes::from((0..=255).collect::<Vec<u8>>());
    for (at, value) in
        [Bytes::new(), every, bytes("\0"), bytes("\r\n$-1\r\n"), bytes("nil")].into_iter().enumerate()
    {
        let key = format!("value/{at}");
        store.create(&key, value.clone(), None).await.unwrap();
        assert_eq!(self::value(&*store, &key).await, Some(value));
    }
}

/// Tests that a store accepts the largest allowed value.
pub async fn largest_value_is_kept(stores: &Stores) {
    let store = stores.open().await;
    let large = Bytes::from(vec![0xA5; stores.max_value()]);
    let revision = store.create("large", large.clone(), None).await.unwrap();
    assert!(value(&*store, "large").await == Some(large.clone()), "the value came back different");
    store.update("large", large, Some(LONG), revision).await.unwrap();
}

/// Tests that every store returns the same error for a value that is too large.
pub async fn too_large_value_is_refused(stores: &Stores) {
    let store = stores.open().await;
    let large = Bytes::from(vec![0; stores.max_value() + 1]);
    let refused = store.create("large", large.clone(), None).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let revision = store.create("large", Bytes::new(), None).await.unwrap();
    let refused = store.update("large", large, None, revision).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

/// Tests that every store returns the same error for invalid names.
pub async fn bad_names_are_refused(stores: &Stores) {
    let store = stores.open().await;
    let long = "x".repeat(257);
    for name in [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "a b",
        "a.b",
        "a*",
        "a>",
        "ä",
        "a\n",
        "{a}",
        &long,
        "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17",
    ] {
        let refused = [
            store.get(name).await.err(),
            store.create(name, Bytes::new(), None).await.err(),
            store.update(name, Bytes::new(), None, Revision(1)).await.err(),
            store.delete(name, Revision(1)).await.err(),
            store.append(name, 0, vec![Bytes::new()]).await.err(),
            store.read(name, 0, 1).await.err(),
            store.delete_log(name).await.err(),
        ];
        for error in refused {
            let expected = matches!(error, Some(Error::BadName { .. }));
            assert!(expected, "`{name}` should have been refused, not {error:?}");
        }
    }
    for prefix in ["a", "/", "a//", "a b/"] {
        let refused = store.list(prefix, None, 1).await;
        assert!(matches!(refused, Err(Error::BadName { .. })), "`{prefix}`: {refused:?}");
    }
}

/// Tests that two different valid names never refer to the same record, even if the names look alike.
pub async fn names_that_look_alike_are_different(stores: &Stores) {
    let store = stores.open().await;
    let longest = "k".repeat(256);
    let names = [
        "a",
        "A",
        "a/b",
        "a-b",
        "a:b",
        "a_b",
        "a=b",
        "a~b",
        "ab",
        "a/b/c",
        "0",
        "00",
        "-",
        "~",
        ":",
        &longest,
        "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16",
    ];
    for name in names {
        store.create(name, bytes(name), None).await.unwrap();
        store.append(name, 0, vec![bytes(name)]).await.unwrap();
    }
    for name in names {
        assert_eq!(value(&*store, name).await, Some(bytes(name)));
        assert_eq!(whole_log(&*store, name).await, [bytes(name)]);
    }
    assert_eq!(all(&*store, "", 5).await.len(), names.len());
}

/// Tests that exactly one of several concurrent calls of `create` for the same key succeeds.
pub async fn racing_creators_have_one_winner(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    for round in 0..20 {
        let key = format!("race/{round}");
        let mut racers = JoinSet::new();
        for racer in 0..8 {
            let store = Arc::clone(if racer % 2 == 0 { &one } else { &two });
            let key = key.clone();
            racers.spawn(async move { (racer, store.create(&key, bytes(format!("{racer}")), None).await) });
        }
        let mut winners = Vec::new();
        for (racer, ended) in racers.join_all().await {
            match ended {
                Ok(_) => winners.push(racer),
                lost => stores.assert_conflict(lost),
            }
        }
        let kept = value(&*one, &key).await.expect("one of them has created it");
        assert_eq!(winners.iter().map(|winner| bytes(format!("{winner}"))).collect::<Vec<_>>(), [kept]);
    }
}

/// Tests that exactly one of several concurrent updates at the same revision succeeds, so that no update is lost.
pub async fn racing_updaters_lose_no_update(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.create("counter", bytes("0"), None).await.unwrap();
    let mut racers = JoinSet::new();
    for racer in 0..6 {
        let store = Arc::clone(if racer % 2 == 0 { &one } else { &two });
        racers.spawn(async move {
            let (mut sure, mut unsure) = (0_u32, 0_u32);
            while sure + unsure < 20 {
                let record = store.get("counter").await.unwrap().unwrap();
                let count: u32 = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
                match store.update("counter", bytes(format!("{}", count + 1)), None, record.revision).await {
                    Ok(_) => sure += 1,
                    Err(Error::Conflict { .. }) => {}
                    Err(_) => unsure += 1,
                }
            }
            (sure, unsure)
        });
    }
    let ended = racers.join_all().await;
    let sure: u32 = ended.iter().map(|(sure, _)| sure).sum();
    let unsure: u32 = ended.iter().map(|(_, unsure)| unsure).sum();
    let kept: u32 = std::str::from_utf8(&value(&*one, "counter").await.unwrap()).unwrap().parse().unwrap();
    assert!(
        (sure..=sure + unsure).contains(&kept),
        "{kept} updates are there, of {sure} and perhaps {unsure}"
    );
    assert!(unsure == 0 || !stores.is_exact(), "{unsure} updates failed");
}
