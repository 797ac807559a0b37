//! The laws of [`Store`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{task::JoinSet, time::sleep};

use super::Stores;
use crate::{
    error::Error,
    store::{ENTRY_COST, MAX_VALUE, Record, Revision, Store},
};

/// Soon over.
const SHORT: Duration = Duration::from_millis(300);
/// Longer than any law takes.
const LONG: Duration = Duration::from_secs(600);
/// Between two looks at something that will happen.
const LOOK: Duration = Duration::from_millis(50);

fn bytes(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

async fn value(store: &dyn Store, key: &str) -> Option<Bytes> {
    store.get(key).await.unwrap().map(|record| record.value)
}

async fn until_expired(store: &dyn Store, key: &str) {
    while store.get(key).await.unwrap().is_some() {
        sleep(LOOK).await;
    }
}

async fn claim_one(store: &dyn Store, prefix: &str, lease: Duration) -> Record {
    loop {
        if let Some(record) = store.claim_expired(prefix, lease, 1).await.unwrap().pop() {
            return record;
        }
        sleep(LOOK).await;
    }
}

async fn all(store: &dyn Store, prefix: &str, limit: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(prefix, after.as_ref(), limit).await.unwrap();
        assert!(page.items.len() <= limit, "a page has no more than was asked for");
        records.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return records,
        }
    }
}

async fn whole_log(store: &dyn Store, log: &str) -> Vec<Bytes> {
    let mut entries = Vec::new();
    loop {
        let more = store.read(log, entries.len() as u64, 100).await.unwrap();
        if more.is_empty() {
            return entries;
        }
        entries.extend(more);
    }
}

/// Reading what was never written gives nothing, and is no error.
pub async fn absent_key_reads_as_nothing(stores: &Stores) {
    assert_eq!(value(&*stores.open().await, "absent").await, None);
}

/// What was created is read, under its key and at its revision.
pub async fn created_record_is_read_back(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("a/b", bytes("one"), None).await.unwrap();
    assert_eq!(store.get("a/b").await.unwrap(), Some(Record::new("a/b", bytes("one"), revision)));
}

/// Nothing is created where something is.
pub async fn second_creation_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    store.create("key", bytes("first"), None).await.unwrap();
    stores.assert_conflict(store.create("key", bytes("second"), None).await);
    assert_eq!(value(&*store, "key").await, Some(bytes("first")));
}

/// An update replaces the value and gives a new revision.
pub async fn update_at_its_revision_replaces_the_value(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), None).await.unwrap();
    let second = store.update("key", bytes("second"), None, first).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(store.get("key").await.unwrap(), Some(Record::new("key", bytes("second"), second)));
}

/// Of two writers who have read the same revision, the second loses and is told so.
pub async fn stale_update_is_a_conflict_and_changes_nothing(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), None).await.unwrap();
    let second = store.update("key", bytes("second"), None, first).await.unwrap();
    stores.assert_conflict(store.update("key", bytes("third"), None, first).await);
    assert_eq!(store.get("key").await.unwrap(), Some(Record::new("key", bytes("second"), second)));
}

/// An update does not create.
pub async fn update_of_an_absent_record_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    stores.assert_conflict(store.update("key", bytes("value"), None, Revision(1)).await);
    assert_eq!(value(&*store, "key").await, None);
}

/// A deleted record is gone.
pub async fn delete_at_its_revision_removes_the_record(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("key", bytes("value"), None).await.unwrap();
    store.delete("key", revision).await.unwrap();
    assert_eq!(value(&*store, "key").await, None);
    assert!(all(&*store, "", 10).await.is_empty());
}

/// Nobody deletes what they have not seen.
pub async fn stale_delete_is_a_conflict_and_removes_nothing(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), None).await.unwrap();
    store.update("key", bytes("second"), None, first).await.unwrap();
    stores.assert_conflict(store.delete("key", first).await);
    assert_eq!(value(&*store, "key").await, Some(bytes("second")));
}

/// Deleting what is not there is a conflict, too: somebody else was faster.
pub async fn delete_of_an_absent_record_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("key", bytes("value"), None).await.unwrap();
    store.delete("key", revision).await.unwrap();
    let again = store.delete("key", revision).await;
    if stores.is_exact() {
        stores.assert_conflict(again);
    }
}

/// A writer who slept through a deletion and a new beginning does not overwrite it.
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

/// Once a write has returned, everybody sees it.
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

/// Two applications may share a server.
pub async fn spaces_do_not_see_each_other(stores: &Stores) {
    let (store, other) = (stores.open().await, stores.open_other().await);
    store.create("key", bytes("mine"), Some(SHORT)).await.unwrap();
    store.append("log", 0, vec![bytes("mine")]).await.unwrap();
    assert_eq!(value(&*other, "key").await, None);
    assert!(all(&*other, "", 10).await.is_empty());
    assert!(whole_log(&*other, "log").await.is_empty());
    until_expired(&*store, "key").await;
    assert!(other.claim_expired("", LONG, 10).await.unwrap().is_empty());
    other.create("key", bytes("other"), None).await.unwrap();
}

/// A value is bytes: none, all of them, and what looks like something else.
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

/// The largest value a store must take, it takes.
pub async fn largest_value_is_kept(stores: &Stores) {
    let store = stores.open().await;
    let large = Bytes::from(vec![0xA5; stores.max_value()]);
    let revision = store.create("large", large.clone(), None).await.unwrap();
    assert!(value(&*store, "large").await == Some(large.clone()), "the value came back different");
    store.update("large", large, Some(LONG), revision).await.unwrap();
}

/// What is too large is refused as that, by every store alike.
pub async fn too_large_value_is_refused(stores: &Stores) {
    let store = stores.open().await;
    let large = Bytes::from(vec![0; stores.max_value() + 1]);
    let refused = store.create("large", large.clone(), None).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let revision = store.create("large", Bytes::new(), None).await.unwrap();
    let refused = store.update("large", large, None, revision).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

/// What cannot be a name is refused as that, by every store alike.
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

/// Every good name is its own.
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

/// For those who ask, an expired record is not there.
pub async fn expired_record_is_neither_read_nor_listed_nor_updated(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("short/a", bytes("value"), Some(SHORT)).await.unwrap();
    store.create("short/b", bytes("value"), Some(LONG)).await.unwrap();
    until_expired(&*store, "short/a").await;
    let listed: Vec<_> = all(&*store, "short/", 10).await.into_iter().map(|record| record.key).collect();
    assert_eq!(listed, ["short/b"]);
    stores.assert_conflict(store.update("short/a", bytes("late"), None, revision).await);
    assert_eq!(value(&*store, "short/a").await, None);
    assert_eq!(value(&*store, "short/b").await, Some(bytes("value")));
}

/// Nobody has to wait for a janitor.
pub async fn expired_record_makes_room_for_a_new_one(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key", bytes("first"), Some(SHORT)).await.unwrap();
    until_expired(&*store, "key").await;
    let second = store.create("key", bytes("second"), Some(LONG)).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(value(&*store, "key").await, Some(bytes("second")));
    assert!(store.claim_expired("", LONG, 10).await.unwrap().is_empty());
}

/// The last write decides.
pub async fn write_without_a_time_to_live_never_expires(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("kept", bytes("short"), Some(Duration::from_secs(2))).await.unwrap();
    store.update("kept", bytes("long"), None, revision).await.unwrap();
    store.create("gone", bytes("short"), Some(Duration::from_secs(2))).await.unwrap();
    until_expired(&*store, "gone").await;
    assert_eq!(value(&*store, "kept").await, Some(bytes("long")));
    let claimed = claim_one(&*store, "", stores.lease()).await;
    assert_eq!(claimed.key, "gone");
    assert!(store.claim_expired("", LONG, 10).await.unwrap().is_empty());
}

/// A record in use can be kept alive.
pub async fn update_begins_the_time_to_live_anew(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("kept", bytes("value"), Some(Duration::from_secs(2))).await.unwrap();
    store.update("kept", bytes("value"), Some(LONG), revision).await.unwrap();
    store.create("gone", bytes("value"), Some(Duration::from_secs(2))).await.unwrap();
    until_expired(&*store, "gone").await;
    assert_eq!(value(&*store, "kept").await, Some(bytes("value")));
    // And shortened.
    let revision = store.get("kept").await.unwrap().unwrap().revision;
    store.update("kept", bytes("value"), Some(SHORT), revision).await.unwrap();
    until_expired(&*store, "kept").await;
}

/// Whoever cleans up sees what has expired, and then it goes.
pub async fn expired_record_is_claimed_and_deleted_at_its_revision(stores: &Stores) {
    let store = stores.open().await;
    let revision = store.create("job/1", bytes("what hangs on it"), Some(SHORT)).await.unwrap();
    let claimed = claim_one(&*store, "job/", stores.lease()).await;
    assert_eq!(claimed, Record::new("job/1", bytes("what hangs on it"), revision));
    store.delete("job/1", revision).await.unwrap();
    assert!(store.claim_expired("", Duration::from_millis(1), 10).await.unwrap().is_empty());
}

/// Only what has expired is claimed.
pub async fn live_record_is_not_claimed(stores: &Stores) {
    let store = stores.open().await;
    store.create("long", bytes("value"), Some(LONG)).await.unwrap();
    store.create("ever", bytes("value"), None).await.unwrap();
    store.create("short", bytes("value"), Some(SHORT)).await.unwrap();
    assert_eq!(claim_one(&*store, "", stores.lease()).await.key, "short");
    assert!(store.claim_expired("", LONG, 10).await.unwrap().is_empty());
}

/// One cleans up at a time.
pub async fn claimed_record_is_given_to_nobody_else(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.create("key", bytes("value"), Some(SHORT)).await.unwrap();
    claim_one(&*one, "", stores.lease()).await;
    assert!(two.claim_expired("", LONG, 10).await.unwrap().is_empty());
    assert!(one.claim_expired("", LONG, 10).await.unwrap().is_empty());
}

/// One who dies while cleaning up is succeeded.
pub async fn lapsed_claim_can_be_taken_again(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let revision = one.create("key", bytes("value"), Some(SHORT)).await.unwrap();
    claim_one(&*one, "", SHORT).await;
    let claimed = claim_one(&*two, "", stores.lease()).await;
    assert_eq!((claimed.key.as_str(), claimed.revision), ("key", revision));
    two.delete("key", revision).await.unwrap();
}

/// A record created in the place of an expired one is not swept away with it.
pub async fn reborn_record_is_safe_from_its_claimer(stores: &Stores) {
    let store = stores.open().await;
    store.create("key", bytes("first"), Some(SHORT)).await.unwrap();
    let claimed = claim_one(&*store, "", stores.lease()).await;
    store.create("key", bytes("second"), None).await.unwrap();
    stores.assert_conflict(store.delete("key", claimed.revision).await);
    assert_eq!(value(&*store, "key").await, Some(bytes("second")));
}

/// Janitors on all replicas do each thing once.
pub async fn claims_are_divided_among_racers(stores: &Stores) {
    const RECORDS: usize = 40;
    let (one, two) = (stores.open().await, stores.open().await);
    for number in 0..RECORDS {
        one.create(&format!("key/{number}"), Bytes::new(), Some(SHORT)).await.unwrap();
    }
    let mut racers = JoinSet::new();
    for store in [&one, &two, &one, &two] {
        let store = Arc::clone(store);
        racers.spawn(async move {
            let mut claimed = Vec::new();
            let mut idle = 0;
            while idle < 20 {
                let more = store.claim_expired("key/", LONG, 3).await.unwrap();
                assert!(more.len() <= 3);
                idle = if more.is_empty() { idle + 1 } else { 0 };
                claimed.extend(more.into_iter().map(|record| record.key));
                sleep(LOOK).await;
            }
            claimed
        });
    }
    let claimed: Vec<_> = racers.join_all().await.concat();
    let distinct: BTreeSet<_> = claimed.iter().collect();
    assert_eq!(distinct.len(), claimed.len(), "a record was claimed twice");
    // Over a connection that lies some claims are lost until they lapse.
    if stores.is_exact() {
        assert_eq!(claimed.len(), RECORDS);
    }
}

/// Whoever cleans up one kind of thing is not given another.
pub async fn claims_keep_to_their_prefix_and_limit(stores: &Stores) {
    let store = stores.open().await;
    for key in ["a/1", "a/2", "a/3", "ab/1", "b/1"] {
        store.create(key, bytes(key), Some(SHORT)).await.unwrap();
    }
    for key in ["a/1", "a/2", "a/3", "ab/1", "b/1"] {
        until_expired(&*store, key).await;
    }
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        let more = store.claim_expired("a/", SHORT * 3, 2).await.unwrap();
        assert!(more.len() <= 2);
        claimed.extend(more.into_iter().map(|record| record.key));
        claimed.sort();
        claimed.dedup();
    }
    assert_eq!(claimed, ["a/1", "a/2", "a/3"]);
    assert_eq!(claim_one(&*store, "b/", stores.lease()).await.key, "b/1");
}

/// A prefix is whole segments.
pub async fn listing_keeps_to_its_prefix(stores: &Stores) {
    let store = stores.open().await;
    for key in ["a", "a/1", "a/2/x", "ab/1", "b/1", "A/1"] {
        store.create(key, bytes(key), None).await.unwrap();
    }
    let keys = async |prefix| {
        let mut keys: Vec<_> = all(&*store, prefix, 10).await.into_iter().map(|record| record.key).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys("a/").await, ["a/1", "a/2/x"]);
    assert_eq!(keys("a/2/").await, ["a/2/x"]);
    assert_eq!(keys("").await, ["A/1", "a", "a/1", "a/2/x", "ab/1", "b/1"]);
    assert!(keys("c/").await.is_empty());
}

/// Going through the pages shows everything, once, with its value.
pub async fn listing_in_pages_shows_each_record_once(stores: &Stores) {
    const RECORDS: usize = 123;
    let store = stores.open().await;
    for number in 0..RECORDS {
        store.create(&format!("list/{number:04}"), bytes(format!("{number}")), None).await.unwrap();
        store.create(&format!("else/{number:04}"), Bytes::new(), None).await.unwrap();
    }
    for limit in [1, 7, RECORDS, RECORDS + 1] {
        let mut records = all(&*store, "list/", limit).await;
        records.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(records.len(), RECORDS, "in pages of {limit}");
        for (number, record) in records.iter().enumerate() {
            assert_eq!(record.key, format!("list/{number:04}"));
            assert_eq!(record.value, bytes(format!("{number}")));
        }
    }
}

/// Deleting what a page showed does not make the next one skip anything.
pub async fn listing_goes_on_while_records_are_deleted(stores: &Stores) {
    const RECORDS: usize = 50;
    let store = stores.open().await;
    for number in 0..RECORDS {
        store.create(&format!("list/{number}"), Bytes::new(), None).await.unwrap();
    }
    let mut seen = BTreeSet::new();
    let mut after = None;
    loop {
        let page = store.list("list/", after.as_ref(), 4).await.unwrap();
        for record in page.items {
            store.delete(&record.key, record.revision).await.unwrap();
            assert!(seen.insert(record.key.clone()), "`{}` was listed twice", record.key);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), RECORDS);
    assert!(all(&*store, "", 10).await.is_empty());
}

/// A listing is as good as a read.
pub async fn listed_revision_can_be_written_at(stores: &Stores) {
    let store = stores.open().await;
    let first = store.create("key/a", bytes("first"), None).await.unwrap();
    store.update("key/a", bytes("second"), None, first).await.unwrap();
    let listed = all(&*store, "key/", 10).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].value, bytes("second"));
    store.update("key/a", bytes("third"), None, listed[0].revision).await.unwrap();
}

/// Of any number who create at once, one does.
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

/// Of any number who update at one revision, one does: nobody's update is overwritten unseen.
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

/// Reading a log that was never written gives nothing, and is no error.
pub async fn absent_log_is_empty(stores: &Stores) {
    let store = stores.open().await;
    assert!(store.read("log", 0, 10).await.unwrap().is_empty());
    store.delete_log("log").await.unwrap();
}

/// Entries come back in the order in which they were appended.
pub async fn entries_are_read_in_the_order_of_appending(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    assert_eq!(one.append("log", 0, vec![bytes("a"), bytes("b")]).await.unwrap(), 2);
    assert_eq!(two.append("log", 2, vec![bytes("c")]).await.unwrap(), 3);
    assert_eq!(one.append("log", 3, vec![bytes("d"), bytes("e"), bytes("f")]).await.unwrap(), 6);
    let entries = ["a", "b", "c", "d", "e", "f"].map(bytes);
    assert_eq!(whole_log(&*one, "log").await, entries);
    assert_eq!(whole_log(&*two, "log").await, entries);
}

/// Of two writers at the same place, the second loses and is told what it did not know.
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

/// Nobody leaves a hole.
pub async fn append_beyond_the_end_is_a_conflict(stores: &Stores) {
    let store = stores.open().await;
    let ended = store.append("log", 1, vec![bytes("x")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { expected: 1, found: 0, .. })), "{ended:?}");
    store.append("log", 0, vec![bytes("a")]).await.unwrap();
    let ended = store.append("log", 5, vec![bytes("x")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { expected: 5, found: 1, .. })), "{ended:?}");
}

/// Of any number who append at one place, one does.
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

/// Entries appended together are there together.
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

/// A log can be read from anywhere, in parts.
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

/// A deleted log is as if it had never been, for every opening.
pub async fn deleted_log_is_empty_and_begins_anew(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.append("log", 0, vec![bytes("a"), bytes("b")]).await.unwrap();
    assert_eq!(two.append("log", 2, vec![bytes("c")]).await.unwrap(), 3);
    one.delete_log("log").await.unwrap();
    assert!(whole_log(&*two, "log").await.is_empty());
    // Whoever still believes in the old one is told.
    let ended = two.append("log", 3, vec![bytes("d")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { found: 0, .. })), "{ended:?}");
    two.append("log", 0, vec![bytes("new")]).await.unwrap();
    assert_eq!(whole_log(&*one, "log").await, [bytes("new")]);
    let ended = one.append("log", 2, vec![bytes("x")]).await;
    assert!(matches!(ended, Err(Error::LogConflict { found: 1, .. })), "{ended:?}");
}

/// Logs and records do not share names.
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

/// An entry is bytes, as a value is; an append may have none.
pub async fn any_entry_is_kept(stores: &Stores) {
    let store = stores.open().await;
    let entries = vec![Bytes::new(), Bytes::from((0..=255).collect::<Vec<u8>>()), Bytes::new(), bytes("\0")];
    assert_eq!(store.append("log", 0, entries.clone()).await.unwrap(), 4);
    assert_eq!(store.append("log", 4, Vec::new()).await.unwrap(), 4);
    let ended = store.append("log", 3, Vec::new()).await;
    assert!(matches!(ended, Err(Error::LogConflict { found: 4, .. })), "{ended:?}");
    assert_eq!(whole_log(&*store, "log").await, entries);
}

/// The largest append a store must take, it takes; what is larger is refused as that.
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
