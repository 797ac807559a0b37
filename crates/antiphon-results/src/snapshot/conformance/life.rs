//! Contract tests for writing and deleting snapshots.

use chrono::{TimeDelta, Utc};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::{
    super::{RowSource, SnapshotId, SnapshotStore, SnapshotWriteOptions, Truncation},
    fixture::{Snapshots, begin, id, is_gone, parts, row_source, rows, write},
};
use crate::{error::BoxError, owner::Owner, rows::Rows};

/// Tests that no reader sees a snapshot before it is complete.
pub async fn snapshot_is_not_there_until_all_of_it_is(snapshots: &Snapshots) {
    let (one, two) = (snapshots.open().await, snapshots.open().await);
    let begun = begin(&*one, &id("rs_set"), 2_000).await;
    assert!(is_gone(&*one, &id("rs_set")).await && is_gone(&*two, &id("rs_set")).await);
    begun.rest.await.unwrap();
    assert_eq!(one.manifest(&id("rs_set")).await.unwrap(), two.manifest(&id("rs_set")).await.unwrap());
}

/// Tests that no part of a snapshot remains after its write is dropped.
pub async fn dropped_intake_leaves_nothing(snapshots: &Snapshots) {
    let store = snapshots.open().await;
    let first = stream::iter(parts(50).into_iter().map(Ok));
    let endless = RowSource::rows(first.chain(stream::pending()));
    let begun = store.begin(&id("rs_set"), endless, SnapshotWriteOptions::default()).await.unwrap();
    let mut rest = begun.rest;
    // The write takes the available rows, and then waits.
    assert!((&mut rest).now_or_never().is_none());
    drop(rest);
    assert!(is_gone(&*snapshots.open().await, &id("rs_set")).await);
    store.delete(&id("rs_set")).await.unwrap();
    assert!(is_gone(&*store, &id("rs_set")).await);
    // The clean-up of the dropped write may run late. The clean-up must not remove a snapshot that was written
    // meanwhile.
    write(&*store, &id("rs_set"), 20).await;
    assert_eq!(snapshots.open().await.manifest(&id("rs_set")).await.unwrap().rows, 20);
}

/// Tests that no snapshot exists if the source of the rows fails.
pub async fn failed_source_leaves_nothing(snapshots: &Snapshots) {
    let store = snapshots.open().await;
    let failing: Vec<Result<Rows, BoxError>> =
        parts(500).into_iter().map(Ok).chain([Err("the source is gone".into())]).collect();
    let begun = store
        .begin(&id("rs_set"), RowSource::rows(stream::iter(failing)), SnapshotWriteOptions::default())
        .await
        .unwrap();
    assert!(begun.rest.await.is_err());
    assert!(is_gone(&*store, &id("rs_set")).await && is_gone(&*snapshots.open().await, &id("rs_set")).await);
}

/// Tests that the sample has the requested number of rows, or all rows if the source has fewer rows than requested.
pub async fn sample_is_the_first_rows(snapshots: &Snapshots) {
    let store = snapshots.open().await;
    for (number, (sample, count)) in [(15_usize, 100_u64), (15, 3), (0, 10)].into_iter().enumerate() {
        let options = SnapshotWriteOptions::sample(sample);
        let set = id(&format!("rs_{number}"));
        let begun = store.begin(&set, row_source(parts(count)), options).await.unwrap();
        let found: Vec<serde_json::Value> = begun.sample.read().unwrap();
        assert_eq!(found, rows(0..count.min(sample as u64)));
        assert_eq!(begun.rest.await.unwrap().rows, count);
    }
}

/// Tests that rows beyond the maximum number are omitted, and that the manifest reports the truncation.
pub async fn rows_beyond_the_limit_are_left_out_and_that_is_said(snapshots: &Snapshots) {
    let store = snapshots.open().await;
    for (number, (limit, expected)) in
        [(100, Some(Truncation::RowLimit)), (1_000, None), (1_001, None)].into_iter().enumerate()
    {
        let set = id(&format!("rs_{number}"));
        let options = SnapshotWriteOptions::default().with_max_rows(limit);
        let begun = store.begin(&set, row_source(parts(1_000)), options).await.unwrap();
        let written = begun.rest.await.unwrap();
        assert_eq!((written.rows, written.truncated), (limit.min(1_000), expected));
        let manifest = store.manifest(&set).await.unwrap();
        assert_eq!((manifest.rows, manifest.truncated), (limit.min(1_000), expected));
    }
}

/// Tests that unfinished and finished snapshots are both found, and can be deleted.
pub async fn unfinished_snapshot_is_found_and_removed(snapshots: &Snapshots) {
    let store = snapshots.open().await;
    write(&*store, &id("rs_done"), 10).await;
    drop(begin(&*store, &id("rs_left"), 10).await);
    let soon = Utc::now() + TimeDelta::minutes(5);
    let found: Vec<SnapshotId> = store.ids(soon).try_collect().await.unwrap();
    assert!(found.contains(&id("rs_done")), "{found:?}");
    for left in found {
        store.delete(&left).await.unwrap();
    }
    let found: Vec<SnapshotId> = store.ids(soon).try_collect().await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(store.usage(None).await.unwrap(), 0);
}

/// Tests that the same ID under another tenant is a different snapshot.
pub async fn snapshot_of_another_tenant_is_not_found(snapshots: &Snapshots) {
    let store = snapshots.filled(10).await;
    for tenant in ["other", "all", "..", "a/b", ""] {
        let theirs = SnapshotId::new(&Owner::nobody().with_tenant(tenant), "rs_set");
        assert!(is_gone(&*store, &theirs).await, "{tenant:?}");
        store.delete(&theirs).await.unwrap();
    }
    assert_eq!(store.manifest(&id("rs_set")).await.unwrap().rows, 10);
}

/// Tests that a deleted snapshot does not exist for any handle to the store.
pub async fn deleted_snapshot_is_gone_for_everybody(snapshots: &Snapshots) {
    let store = snapshots.filled(10).await;
    store.delete(&id("rs_set")).await.unwrap();
    assert!(is_gone(&*store, &id("rs_set")).await);
    assert!(is_gone(&*snapshots.open().await, &id("rs_set")).await);
}

/// Tests that deleting a snapshot that does not exist succeeds.
pub async fn deletion_twice_is_fine(snapshots: &Snapshots) {
    let store = snapshots.filled(10).await;
    for _ in 0..3 {
        store.delete(&id("rs_set")).await.unwrap();
        store.delete(&id("rs_never")).await.unwrap();
    }
}

/// Tests that the storage usage is counted for each tenant, and is 0 after all snapshots are deleted.
pub async fn usage_is_what_is_stored(snapshots: &Snapshots) {
    let store = snapshots.filled(1_000).await;
    let stored = store.manifest(&id("rs_set")).await.unwrap().bytes;
    assert!(store.usage(None).await.unwrap() >= stored);
    assert_eq!(store.usage(Some("other")).await.unwrap(), 0);
    store.delete(&id("rs_set")).await.unwrap();
    assert_eq!(store.usage(None).await.unwrap(), 0);
}
