//! Views: made once, by whoever comes first, and never more than some.

use std::{sync::Arc, time::Duration};

use antiphon_results::{
    DualResponseError, Owner, Sort,
    snapshot::{
        ExportFormat, ExportRequest, Filter, FilterOp, SnapshotId, SnapshotPage, SnapshotStore as _, View,
    },
};
use antiphon_snapshot::Snapshots;
use futures_util::future::join_all;

use crate::{
    places::Places,
    sql_rows::{colleges, id, opened, patient, rows, small, write},
};

#[tokio::test]
async fn a_view_that_makes_no_sense_is_refused_in_words() {
    let snapshots = opened(small());
    write(&snapshots, "rs_words", vec![colleges(100)]).await;
    let five = ["id", "name", "state", "enrollment", "fee"].map(Sort::ascending);
    let views = [
        (View::sorted([Sort::ascending("enrolment")]), "column `enrolment` does not exist"),
        (View::sorted([Sort::ascending("tags")]), "cannot be sorted"),
        (View::sorted(five), "the maximum is 4"),
        (View::default().with_filter(Filter::new("Id", FilterOp::Eq, 1)), "column `Id` does not exist"),
        (View::default().with_filter(Filter::new("enrollment", FilterOp::Eq, 1.5)), "whole numbers"),
        (View::default().with_filter(Filter::new("enrollment", FilterOp::Eq, "many")), "whole numbers"),
        (View::default().with_filter(Filter::new("public", FilterOp::Eq, "yes")), "true or false"),
        (View::default().with_filter(Filter::new("founded", FilterOp::Gt, "soon")), "2026-01-31"),
        (View::default().with_filter(Filter::new("tags", FilterOp::Eq, 1)), "nested"),
        (
            View::default().with_filter(Filter::new("mark", FilterOp::Lt, "AAAA")),
            "only be compared for equality",
        ),
        (View::default().with_filter(Filter::new("id", FilterOp::Contains, "1")), "does not contain text"),
        (View::default().with_filter(Filter::new("id", FilterOp::In, 1)), "needs a list"),
        (
            View::default().with_filter(Filter::new("name", FilterOp::Eq, serde_json::Value::Null)),
            "does not match",
        ),
    ];
    for (view, expected) in views {
        match snapshots.prepare(&id("rs_words"), &view).await {
            Err(DualResponseError::Invalid(text)) => assert!(text.contains(expected), "{text}"),
            other => panic!("{view:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_has_no_views() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open_with(patient());
        write(&snapshots, "rs_mine", vec![colleges(10)]).await;
        let view = View::sorted([Sort::ascending("id")]);
        let missing = snapshots.prepare(&id("rs_none"), &view).await;
        assert!(matches!(missing, Err(DualResponseError::NotFound)), "{missing:?}");
        let others = SnapshotId::found(SnapshotId::place(Some("another")), "rs_mine");
        let missing = snapshots.prepare(&others, &view).await;
        assert!(matches!(missing, Err(DualResponseError::NotFound)), "{missing:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_make_one_view_at_once_agree_and_leave_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let address = url::Url::from_directory_path(folder.path()).unwrap();
    let open = || Snapshots::open_with(address.as_str(), [], small()).unwrap();
    let replicas = [open(), open(), open()];
    write(&replicas[0], "rs_shared", vec![colleges(20_000)]).await;
    let view = View::sorted([Sort::descending("enrollment")]);
    let shared = id("rs_shared");
    let asked = replicas
        .iter()
        .flat_map(|replica| [replica.prepare(&shared, &view), replica.prepare(&shared, &view)]);
    for made in join_all(asked).await {
        assert_eq!(made.unwrap(), 20_000);
    }
    let first = rows(&replicas[0], "rs_shared", &view).await;
    for replica in &replicas[1..] {
        assert_eq!(rows(replica, "rs_shared", &view).await, first);
    }
    let views = folder.path().join("all/rs_shared/views");
    let made: Vec<_> = std::fs::read_dir(views).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(made.len(), 1);
    let mut files: Vec<_> = std::fs::read_dir(&made[0])
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[0].starts_with("data-") && files[1] == "manifest.json", "{files:?}");
}

#[tokio::test]
async fn the_oldest_views_make_room_for_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let address = url::Url::from_directory_path(folder.path()).unwrap();
    let snapshots = Snapshots::open_with(address.as_str(), [], small()).unwrap();
    write(&snapshots, "rs_many", vec![colleges(200)]).await;
    for below in 1..=20 {
        let view = View::default().with_filter(Filter::new("id", FilterOp::Lt, below));
        assert_eq!(snapshots.prepare(&id("rs_many"), &view).await.unwrap(), u64::try_from(below).unwrap());
    }
    let views = folder.path().join("all/rs_many/views");
    let kept = std::fs::read_dir(&views)
        .unwrap()
        .filter(|view| view.as_ref().unwrap().path().join("manifest.json").exists())
        .count();
    assert_eq!(kept, 16);
    // One that was removed is made again.
    let view = View::default().with_filter(Filter::new("id", FilterOp::Lt, 1));
    assert_eq!(rows(&snapshots, "rs_many", &view).await.len(), 1);
}

#[tokio::test]
async fn a_view_that_another_replica_removed_is_made_again() {
    let mut places = Places::shared();
    while let Some(place) = places.next().await {
        let open = || place.open_with(patient());
        let (one, other, third) = (open(), open(), open());
        let many = id("rs_many");
        write(&one, "rs_many", vec![colleges(200)]).await;
        let below = |number: i64| View::default().with_filter(Filter::new("id", FilterOp::Lt, number));
        let page = SnapshotPage::new(0, 10).with_view(below(5));
        let export = ExportRequest::new(ExportFormat::Ndjson).with_view(below(5));
        for replica in [&other, &third] {
            assert_eq!(replica.prepare(&many, &below(5)).await.unwrap(), 5);
            assert_eq!(replica.page(&many, &page).await.unwrap().len(), 5);
        }
        if place.is_remote() {
            // S3 tells how old a file is in seconds, and the oldest must be known.
            tokio::time::sleep(Duration::from_millis(1100)).await;
        }
        for number in 6..=22 {
            one.prepare(&many, &below(number)).await.unwrap();
        }
        let gone = other.page(&many, &page).await;
        assert!(matches!(gone, Err(DualResponseError::NotReady { .. })), "{gone:?}");
        let gone = third.export(&many, &export).await.map(drop);
        assert!(matches!(gone, Err(DualResponseError::NotReady { .. })), "{gone:?}");
        assert_eq!(other.prepare(&many, &below(5)).await.unwrap(), 5);
        assert_eq!(other.page(&many, &page).await.unwrap().len(), 5);
        // The third finds what the other made.
        assert_eq!(third.page(&many, &page).await.unwrap().len(), 5);
        one.delete(&many).await.unwrap();
        for page in [page, SnapshotPage::new(0, 10)] {
            let gone = other.page(&many, &page).await;
            assert!(matches!(gone, Err(DualResponseError::NotFound)), "{gone:?}");
        }
        let gone = third.export(&many, &export).await.map(drop);
        assert!(matches!(gone, Err(DualResponseError::NotFound)), "{gone:?}");
    }
}

#[tokio::test]
async fn a_view_goes_with_its_snapshot() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open_with(patient());
        write(&snapshots, "rs_gone", vec![colleges(200)]).await;
        let view = View::sorted([Sort::ascending("name")]);
        snapshots.prepare(&id("rs_gone"), &view).await.unwrap();
        snapshots.delete(&id("rs_gone")).await.unwrap();
        assert_eq!(snapshots.usage(Owner::nobody().tenant.as_deref()).await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_do_not_wait_find_the_view_made_later() {
    let snapshots = Arc::new(opened(small()));
    write(&snapshots, "rs_later", vec![colleges(20_000)]).await;
    let view = View::sorted([Sort::ascending("name")]);
    // Long enough to begin; whether it is enough to end is no matter.
    let asked =
        tokio::time::timeout(Duration::from_millis(100), snapshots.prepare(&id("rs_later"), &view)).await;
    assert!(!matches!(asked, Ok(Err(_))), "{asked:?}");
    let page = SnapshotPage::new(0, 1).with_view(view.clone());
    let made = async {
        loop {
            if let Ok(rows) = snapshots.page(&id("rs_later"), &page).await {
                break rows;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(15), made).await.unwrap().len(), 1);
}
