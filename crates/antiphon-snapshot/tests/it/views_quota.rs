//! What views take of a store, whoever makes them.

use std::{fs, path::Path, time::Duration};

use antiphon_results::{
    Access, CreateOptions, DualResponseError, PageOptions, ResultLimits, SharedStore, Sort,
    snapshot::{SnapshotStore as _, View},
};
use antiphon_snapshot::Snapshots;
use antiphon_store::{Backend, Memory, QueueConfig};

use crate::{
    served::{House, numbers},
    sql_rows::{colleges, id, write},
};

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn view_that_another_process_makes_counts_for_what_it_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file://{}", folder.path().display());
    let (one, other) = (Snapshots::open(&address).unwrap(), Snapshots::open(&address).unwrap());
    write(&one, "rs_set", vec![colleges(100)]).await;
    let stored = other.usage(None).await.unwrap();
    // As another process leaves word of it, before it begins.
    let view = folder.path().join("all/rs_set/views/0123456789abcdef0123456789abcdef");
    fs::create_dir_all(&view).unwrap();
    let word = view.join("ffffffffffffffffffffffffffffffff.takes-123456");
    fs::write(&word, "").unwrap();
    assert_eq!(other.usage(None).await.unwrap(), stored + 123_456);
    assert_eq!(other.usage(Some("acme")).await.unwrap(), 0);
    // Whoever left it long ago has died.
    let long_ago = std::time::SystemTime::now() - Duration::from_hours(1);
    fs::File::options().write(true).open(&word).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(other.usage(None).await.unwrap(), stored);
}

#[tokio::test]
async fn word_of_a_view_is_gone_when_the_view_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::open(&format!("file://{}", folder.path().display())).unwrap();
    write(&snapshots, "rs_set", vec![colleges(100)]).await;
    snapshots.prepare(&id("rs_set"), &View::sorted([Sort::descending("id")])).await.unwrap();
    let left = files(folder.path());
    assert!(left.iter().any(|file| file.contains("/views/")), "{left:?}");
    assert!(!left.iter().any(|file| file.contains(".takes-")), "{left:?}");
}

/// Enough for several chunks: what is not yet compressed counts as it is.
const ROWS: i64 = 300_000;

#[tokio::test]
async fn replicas_do_not_each_give_a_tenant_all_it_may_have() {
    let make = async |house: &House, rows: i64| {
        let made = house.server.create_response(CreateOptions::new("x", numbers(rows)).complete()).await;
        made.unwrap().resource_id
    };
    let bytes = {
        let alone = Snapshots::open("memory:").unwrap();
        make(&House::with(&alone, |options| options).await, ROWS).await;
        alone.usage(None).await.unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file://{}", folder.path().display());
    let memory = Memory::default();
    let replica = async || {
        let store = SharedStore::new(Backend::new(
            memory.store(),
            memory.queue(QueueConfig::default()),
            memory.bus(),
        ));
        let limits = ResultLimits::default()
            .with_view_wait(Duration::from_secs(30))
            // The set and one view of it, and less than another.
            .with_tenant_bytes(bytes * 5 / 2);
        let snapshots = Snapshots::open(&address).unwrap();
        House::with(&snapshots, |options| options.with_store(store).with_limits(limits)).await
    };
    let (one, other) = (replica().await, replica().await);
    let set = make(&one, ROWS).await;
    // It looks at the store for this, and believes for a while what it saw.
    make(&other, 1).await;
    let page = async |house: &House, sort: Sort| {
        house.server.page(&set, &Access::Program, PageOptions::default().with_sort(sort)).await
    };
    page(&one, Sort::descending("id")).await.unwrap();
    let refused = page(&other, Sort::descending("name")).await.unwrap_err();
    assert!(matches!(&refused, DualResponseError::TooLarge(text) if text.contains("delete")), "{refused:?}");
}
