//! Limits, the first rows, who may write, and what is left.

use std::time::Duration;

use antiphon_results::{
    BoxError, DualResponseError, Owner, Rows,
    snapshot::{RowSource, SnapshotId, SnapshotStore as _, SnapshotWriteOptions, Truncation},
};
use antiphon_snapshot::{SnapshotConfig, Snapshots};
use chrono::Utc;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    ingest_support::{id, read, row_source, write},
    places::Places,
};

fn numbers(count: u64) -> RowSource {
    row_source((0..count).map(|number| format!(r#"{{"n":{number}}}"#)))
}

/// Rows that come without end, each part when the one before was taken.
fn endless() -> RowSource {
    let part = |start: u64| {
        let mut rows = Rows::new();
        for number in start..start + 1000 {
            // Text that does not compress well.
            let text = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            rows.push_json(&format!(r#"{{"n":{number},"t":"{text:x}{:x}"}}"#, text.rotate_left(17))).unwrap();
        }
        Ok::<_, BoxError>(rows)
    };
    RowSource::rows(stream::iter((0..).step_by(1000).map(part)))
}

#[tokio::test]
async fn what_is_too_much_is_left_out_and_that_is_said() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        for (rows, limit, expected) in
            [(1000, 1000, None), (1001, 1000, Some(Truncation::RowLimit)), (5, 0, Some(Truncation::RowLimit))]
        {
            let set = id(&format!("rs_{rows}_{limit}"));
            let options = SnapshotWriteOptions::default().with_max_rows(limit);
            let written = snapshots.begin(&set, numbers(rows), options).await.unwrap().rest.await.unwrap();
            assert_eq!((written.rows, written.truncated), (rows.min(limit), expected));
            let manifest = snapshots.manifest(&set).await.unwrap();
            assert_eq!((manifest.rows, manifest.truncated), (rows.min(limit), expected));
        }
        let options = SnapshotWriteOptions::default().with_max_bytes(1 << 20);
        let written = snapshots.begin(&id("rs_bytes"), endless(), options).await.unwrap().rest.await.unwrap();
        assert_eq!(written.truncated, Some(Truncation::ByteLimit));
        assert!((1 << 19..1 << 22).contains(&written.bytes), "{}", written.bytes);
    }
}

#[tokio::test]
async fn the_first_rows_are_there_although_the_source_stalls() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let mut rows = Rows::new();
        (0..20).for_each(|number| rows.push_json(&format!(r#"{{"n":{number}}}"#)).unwrap());
        let stalled = RowSource::rows(stream::iter([Ok(rows)]).chain(stream::pending()));
        let begun =
            snapshots.begin(&id("rs_stalled"), stalled, SnapshotWriteOptions::sample(15)).await.unwrap();
        assert_eq!(begun.sample.len(), 15);
        assert_eq!(begun.sample.get(14), Some(r#"{"n":14}"#));
        let rest = tokio::time::timeout(Duration::from_millis(50), begun.rest).await;
        assert!(rest.is_err(), "nothing else came");
        nothing_is_left(&snapshots).await;
    }
}

/// What is given up is removed by somebody else, soon.
async fn nothing_is_left(snapshots: &Snapshots) {
    for _ in 0..200 {
        let left: Vec<_> = snapshots.ids(Utc::now() + Duration::from_mins(1)).try_collect().await.unwrap();
        if left.is_empty() && snapshots.usage(None).await.unwrap() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("something is left");
}

#[tokio::test]
async fn whoever_drops_the_rest_leaves_nothing() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let config = SnapshotConfig::default().with_part_bytes(64 * 1024).with_chunk_rows(4096);
        let snapshots = place.open_with(config);
        let mut begun =
            snapshots.begin(&id("rs_dropped"), endless(), SnapshotWriteOptions::default()).await.unwrap();
        tokio::select! {
            _ = begun.rest => unreachable!("there is no end"),
            sent = begun.progress.wait_for(|progress| progress.bytes > 0) => assert!(sent.is_ok()),
        }
        nothing_is_left(&snapshots).await;
        assert!(matches!(snapshots.manifest(&id("rs_dropped")).await, Err(DualResponseError::NotFound)));
        assert!(place.files().is_empty(), "{:?}", place.files());
    }
}

#[tokio::test]
async fn a_writer_that_was_dropped_leaves_the_next_one_alone() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let config = SnapshotConfig::default().with_part_bytes(64 * 1024).with_chunk_rows(4096);
        let snapshots = place.open_with(config);
        let mut begun =
            snapshots.begin(&id("rs_next"), endless(), SnapshotWriteOptions::default()).await.unwrap();
        tokio::select! {
            _ = begun.rest => unreachable!("there is no end"),
            sent = begun.progress.wait_for(|progress| progress.bytes > 0) => assert!(sent.is_ok()),
        }
        // The first has not cleaned up yet when the second comes.
        snapshots.delete(&id("rs_next")).await.unwrap();
        let written = write(&snapshots, "rs_next", numbers(5_000)).await;
        let runtime = tokio::runtime::Handle::current().metrics();
        if place.is_remote() {
            // Connections are tasks as well, and stay: the first can only be given time.
            tokio::time::sleep(Duration::from_millis(500)).await;
        } else {
            while runtime.num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(snapshots.manifest(&id("rs_next")).await.unwrap().digest, written.digest);
        assert_eq!(read(&snapshots, "rs_next").await.len(), 5_000);
        let left: Vec<_> = snapshots.ids(Utc::now() + Duration::from_mins(1)).try_collect().await.unwrap();
        assert_eq!(left, [id("rs_next")]);
        snapshots.delete(&id("rs_next")).await.unwrap();
        nothing_is_left(&snapshots).await;
    }
}

#[tokio::test]
async fn a_source_that_fails_leaves_nothing() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let mut rows = Rows::new();
        (0..20).for_each(|number| rows.push_json(&format!(r#"{{"n":{number}}}"#)).unwrap());
        for first in [vec![], vec![Ok(rows)]] {
            let parts = stream::iter(first).chain(stream::iter([Err("it broke".into())]));
            let error = match snapshots
                .begin(&id("rs_failed"), RowSource::rows(parts), SnapshotWriteOptions::default())
                .await
            {
                Ok(begun) => begun.rest.await.unwrap_err(),
                Err(error) => error,
            };
            assert!(
                matches!(&error, DualResponseError::Query(source) if source.to_string() == "it broke"),
                "{error:?}"
            );
            nothing_is_left(&snapshots).await;
        }
    }
}

#[tokio::test]
async fn of_two_writers_of_one_id_the_second_loses() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let first =
            snapshots.begin(&id("rs_two"), numbers(100), SnapshotWriteOptions::default()).await.unwrap();
        let second = snapshots.begin(&id("rs_two"), numbers(5), SnapshotWriteOptions::default()).await;
        assert!(matches!(second, Err(DualResponseError::Invalid(_))), "{second:?}");
        first.rest.await.unwrap();
        // Nor can it be written again.
        let third = snapshots.begin(&id("rs_two"), numbers(5), SnapshotWriteOptions::default()).await;
        assert!(matches!(third, Err(DualResponseError::Invalid(_))), "{third:?}");
        assert_eq!(read(&snapshots, "rs_two").await.len(), 100);
    }
}

#[tokio::test]
async fn a_snapshot_that_is_removed_while_it_is_written_does_not_come_back() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let begun =
            snapshots.begin(&id("rs_gone"), numbers(100), SnapshotWriteOptions::default()).await.unwrap();
        snapshots.delete(&id("rs_gone")).await.unwrap();
        let error = begun.rest.await.unwrap_err();
        assert!(matches!(error, DualResponseError::Snapshot(_)), "{error:?}");
        assert!(matches!(snapshots.manifest(&id("rs_gone")).await, Err(DualResponseError::NotFound)));
        // What it wrote behind is found.
        for id in snapshots.ids(Utc::now() + Duration::from_mins(1)).try_collect::<Vec<_>>().await.unwrap() {
            snapshots.delete(&id).await.unwrap();
        }
        nothing_is_left(&snapshots).await;
    }
}

#[tokio::test]
async fn all_ids_are_told_once_and_what_each_tenant_has_is_counted() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let started = Utc::now() - Duration::from_secs(1);
        let tenant = SnapshotId::found(SnapshotId::place(Some("acme")), "rs_3");
        for set in [id("rs_1"), id("rs_2"), tenant.clone()] {
            snapshots
                .begin(&set, numbers(10), SnapshotWriteOptions::default())
                .await
                .unwrap()
                .rest
                .await
                .unwrap();
        }
        let mut all: Vec<_> = snapshots.ids(Utc::now() + Duration::from_secs(1)).try_collect().await.unwrap();
        all.sort();
        assert_eq!(all, [id("rs_1"), id("rs_2"), tenant.clone()]);
        let before: Vec<_> = snapshots.ids(started).try_collect().await.unwrap();
        assert!(before.is_empty(), "{before:?}");
        let (ours, theirs) =
            (snapshots.usage(None).await.unwrap(), snapshots.usage(Some("acme")).await.unwrap());
        assert!(ours > theirs && theirs > 0, "{ours} {theirs}");
        snapshots.delete(&tenant).await.unwrap();
        snapshots.delete(&tenant).await.unwrap();
        assert_eq!(snapshots.usage(Some("acme")).await.unwrap(), 0);
        assert!(snapshots.manifest(&id("rs_1")).await.is_ok());
        // Nobody can remove all by leaving out what.
        snapshots.delete(&SnapshotId::new(&Owner::nobody(), "")).await.unwrap();
        assert!(snapshots.manifest(&id("rs_1")).await.is_ok());
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_with_what_to_give() {
    for (address, expected) in [
        ("nowhere", "use `memory:`"),
        ("ftp://host/x", "`ftp:` is not a supported object store"),
        ("file:///proc/no/such", "cannot be created"),
    ] {
        let error = Snapshots::open(address).unwrap_err().to_string();
        assert!(error.contains(expected), "{address}: {error}");
    }
    let options = [("acces_key".to_owned(), "x".to_owned())];
    let error = Snapshots::open_with("s3://bucket", options.clone(), SnapshotConfig::default()).unwrap_err();
    assert!(error.to_string().contains("unknown option `acces_key`"), "{error}");
    let error = Snapshots::open_with("memory:", options, SnapshotConfig::default()).unwrap_err();
    assert!(error.to_string().contains("remove it"), "{error}");
}

#[tokio::test]
async fn the_same_rows_have_the_same_digest() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open();
        let first = write(&snapshots, "rs_same_1", numbers(10_000)).await;
        let second = write(&snapshots, "rs_same_2", numbers(10_000)).await;
        let third = write(&snapshots, "rs_same_3", numbers(10_001)).await;
        assert_eq!(first.digest, second.digest);
        assert_ne!(first.digest, third.digest);
        assert!(first.digest.starts_with("sha-256:") && first.digest.len() == 8 + 64);
    }
}
