//! Contract tests for logs: appending and reading.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{Stores, all, bytes, value, whole_log};
use crate::{
    error::Error,
    store::{ENTRY_COST, MAX_VALUE},
};

/// Tests that a read of an absent log returns no entries and no error.
pub async fn absent_log_is_empty(stores: &Stores) {
    let store = stores.open().await;
    assert!(store.read("log", 0, 10).await.unwrap().is_empty());
    store.delete_log("log").await.unwrap();
}

/// Tests that entries are read in the order in which they were appended.
pub async fn entries_are_read_in_the_order_of_appending(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    assert_eq!(one.append("log", 0, vec![bytes("a"), bytes("b")]).await.unwrap(), 2);
    assert_eq!(two.append("log", 2, vec![bytes("c")]).await.unwrap(), 3);
    assert_eq!(one.append("log", 3, vec![bytes("d"), bytes("e"), bytes("f")]).await.unwrap(), 6);
    let entries = ["a", "b", "c", "d", "e", "f"].map(bytes);
    assert_eq!(whole_log(&*one, "log").await, entries);
    assert_eq!(whole_log(&*two, "log").await, entries);
}

/// Tests that the second of two appends at the same position fails, and that its error contains the actual length of
/// the log.
pub async fn stale_append_is_a_conflict_that_says_the_length(stores: &Stores) {
    let store = stores.open().await;
    store.append("log", 0, vec![bytes("a"), bytes("b")]).await.unwrap();
    for at in [0, 1] {
        let ended = store.append("log", at, vec![bytes("x")]).await;
        let Err(Error::LogConflict { expected, found, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!((expected, found), (at, 2));
    }
    assert_eq!(whole_log(&*store, "log").await, [bytes("a"), bytes("b")]);
}

/// Tests that an append beyond the end of a log fails, so that a log has no gaps.
pub async fn append_beyond_the_end_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    let ended = store.append("log", 1, vec![bytes("x")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { expected: 1, found: 0, .. })), "{ended:?}");
    store.append("log", 0, vec![bytes("a")]).await.unwrap();
    let ended = store.append("log", 5, vec![bytes("x")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { expected: 5, found: 1, .. })), "{ended:?}");
}

/// Tests that exactly one of several concurrent appends at the same position succeeds.
pub async fn racing_appenders_have_one_winner_a_place(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let mut racers = JoinSet::new();
    for racer in 0..6 {
        let store = Arc::clone(if racer % 2 == 0 { &one } else { &two });
        racers.spawn(async move {
            let mut won = Vec::new();
            let mut at = 0;
            while won.len() < 10 {
                match store.append("log", at, vec![bytes(format!("{racer}:{at}"))]).await {
                    Ok(length) => {
                        won.push(at);
                        at = length;
                    }
                    Err(Error::LogConflict { found, .. }) => at = found,
                    Err(error) => panic!("{error:?}"),
                }
            }
            (racer, won)
        });
    }
    let ended = racers.join_all().await;
    let entries = whole_log(&*one, "log").await;
    assert_eq!(entries.len(), ended.iter().map(|(_, won)| won.len()).sum::<usize>());
    for (racer, won) in ended {
        for at in won {
            let entry = &entries[usize::try_from(at).unwrap()];
            assert_eq!(entry, &bytes(format!("{racer}:{at}")), "at {at}");
        }
    }
}

/// Tests that the entries of one append become visible together.
pub async fn append_is_all_or_nothing(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let writer = async {
        for group in 0..30_u64 {
            one.append("log", group * 3, vec![bytes(format!("{group}")); 3]).await.unwrap();
        }
    };
    let reader = async {
        let mut length = 0;
        while length < 90 {
            length = whole_log(&*two, "log").await.len();
            assert_eq!(length % 3, 0, "a part of an append was seen");
        }
    };
    tokio::join!(writer, reader);
}

/// Tests that a log can be read from any position, in parts.
pub async fn log_is_read_in_parts(stores: &Stores) {
    let store = stores.open().await;
    let entries: Vec<_> = (0..25).map(|number| bytes(format!("{number}"))).collect();
    store.append("log", 0, entries[..10].to_vec()).await.unwrap();
    store.append("log", 10, entries[10..].to_vec()).await.unwrap();
    for from in [0, 3, 9, 10, 24] {
        let part = store.read("log", from, 4).await.unwrap();
        let from = usize::try_from(from).unwrap();
        assert!(!part.is_empty() && part.len() <= 4);
        assert_eq!(part, entries[from..from + part.len()]);
    }
    for from in [25, 26, 1000] {
        assert!(store.read("log", from, 4).await.unwrap().is_empty());
    }
}

/// Tests that a deleted log is empty for every handle, and can be started again.
pub async fn deleted_log_is_empty_and_begins_anew(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.append("log", 0, vec![bytes("a"), bytes("b")]).await.unwrap();
    assert_eq!(two.append("log", 2, vec![bytes("c")]).await.unwrap(), 3);
    one.delete_log("log").await.unwrap();
    assert!(whole_log(&*two, "log").await.is_empty());
    // An append at the old length fails with a conflict.
    let ended = two.append("log", 3, vec![bytes("d")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { found: 0, .. })), "{ended:?}");
    two.append("log", 0, vec![bytes("new")]).await.unwrap();
    assert_eq!(whole_log(&*one, "log").await, [bytes("new")]);
    let ended = one.append("log", 2, vec![bytes("x")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { found: 1, .. })), "{ended:?}");
}

/// Tests that a log and a record can have the same name.
pub async fn log_and_record_of_one_name_are_two_things(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("name", bytes("record"), None).await.unwrap();
    store.append("name", 0, vec![bytes("entry")]).await.unwrap();
    store.append("name/below", 0, vec![bytes("entry")]).await.unwrap();
    assert_eq!(all(&*store, "", 10).await.len(), 1);
    store.delete_log("name").await.unwrap();
    assert_eq!(value(&*store, "name").await, Some(bytes("record")));
    assert_eq!(whole_log(&*store, "name/below").await, [bytes("entry")]);
    store.append("name", 0, vec![bytes("entry")]).await.unwrap();
    store.delete("name", revision).await.unwrap();
    assert_eq!(whole_log(&*store, "name").await, [bytes("entry")]);
}

/// Tests that an entry can contain any bytes, and that an append can have no entries.
pub async fn any_entry_is_kept(stores: &Stores) {
    let store = stores.open().await;
    let entries = vec![Bytes::new(), Bytes::from((0..=255).collect::<Vec<u8>>()), Bytes::new(), bytes("\0")];
    assert_eq!(store.append("log", 0, entries.clone()).await.unwrap(), 4);
    assert_eq!(store.append("log", 4, Vec::new()).await.unwrap(), 4);
    let ended = store.append("log", 3, Vec::new()).await;
    assert!(matches!(ended, Err(Error::LogConflict { found: 4, .. })), "{ended:?}");
    assert_eq!(whole_log(&*store, "log").await, entries);
}

/// Tests that a store accepts the largest allowed append, and returns `TooLarge` for a larger append.
pub async fn largest_append_is_kept_and_more_is_refused(stores: &Stores) {
    let store = stores.open().await;
    let half = Bytes::from(vec![0x5A; stores.max_value() / 2 - ENTRY_COST]);
    for round in 0..4 {
        store.append("log", round * 2, vec![half.clone(), half.clone()]).await.unwrap();
    }
    let entries = whole_log(&*store, "log").await;
    assert!(
        entries.len() == 8 && entries.iter().all(|entry| *entry == half),
        "the entries came back different"
    );
    let large = Bytes::from(vec![0; stores.max_value()]);
    for entries in [vec![large, bytes("x")], vec![Bytes::new(); MAX_VALUE / ENTRY_COST + 1]] {
        let refused = store.append("log", 8, entries).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    }
}
