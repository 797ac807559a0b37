//! What each principal takes, where there are no tenants.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    CreateOptions, DualResponseError, Owner, ResultLimits,
    snapshot::{SnapshotId, SnapshotPage, SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{
    SnapshotConfig, Snapshots,
    object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
        ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
        memory::InMemory, path::Path,
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use chrono::{TimeDelta, Utc};
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};

use crate::{
    ingest_support::row_source,
    served::{House, numbers},
};

fn ada() -> Owner {
    Owner::principal("ada")
}

fn grace() -> Owner {
    Owner::principal("grace")
}

/// Saves so many rows for somebody.
async fn save(snapshots: &Snapshots, owner: &Owner, set: &str, rows: u64) -> u64 {
    let id = SnapshotId::new(owner, set);
    let rows = row_source((0..rows).map(|n| format!(r#"{{"n":{n}}}"#)));
    snapshots.begin(&id, rows, SnapshotWriteOptions::default()).await.unwrap().rest.await.unwrap().bytes
}

async fn taken(snapshots: &Snapshots, owner: &Owner) -> u64 {
    snapshots.usage_of(owner).await.unwrap().bytes
}

/// All files, by name.
async fn files(objects: &InMemory) -> Vec<String> {
    let found: Vec<ObjectMeta> = objects.list(None).try_collect().await.unwrap();
    found.into_iter().map(|meta| meta.location.to_string()).collect()
}

#[tokio::test]
async fn principal_that_has_filled_their_quota_leaves_others_theirs() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let limits = ResultLimits::default().with_tenant_bytes(20_000);
    let house = House::with(&snapshots, |options| options.with_limits(limits)).await;
    let make = async |owner: Owner| {
        let options = CreateOptions::new("Numbers", numbers(1_000)).for_owner(owner).complete();
        house.server.create_response(options).await
    };
    let mut made = 0;
    let full = loop {
        match make(ada()).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 100, "nothing stops it");
    };
    assert!(made > 0 && matches!(full, DualResponseError::TooLarge(_)), "{full:?}");
    make(grace()).await.unwrap();
    make(Owner::nobody()).await.unwrap();
    make(Owner::principal("ada").with_tenant("acme")).await.unwrap();
    assert!(matches!(make(ada()).await, Err(DualResponseError::TooLarge(_))));
}

#[tokio::test]
async fn snapshot_counts_for_its_principal_and_for_nobody_else() {
    let objects = Arc::new(InMemory::new());
    let open = || Snapshots::on(Arc::clone(&objects) as Arc<dyn ObjectStore>, SnapshotConfig::default());
    let (one, other) = (open().unwrap(), open().unwrap());
    let of_ada = save(&one, &ada(), "rs_a", 1_000).await + save(&one, &ada(), "rs_c", 10).await;
    let of_grace = save(&one, &grace(), "rs_b", 2_000).await;
    let of_nobody = save(&one, &Owner::nobody(), "rs_d", 500).await;
    // The manifests count as well.
    for (owner, rows) in [(ada(), of_ada), (grace(), of_grace), (Owner::nobody(), of_nobody)] {
        let found = taken(&other, &owner).await;
        assert!((rows..rows + 2_000).contains(&found), "{owner:?} has {found}, and its rows are {rows}");
    }
    assert_eq!(taken(&other, &Owner::principal("eve")).await, 0);
    let all =
        taken(&other, &ada()).await + taken(&other, &grace()).await + taken(&other, &Owner::nobody()).await;
    assert_eq!(all, other.usage(None).await.unwrap());
    // Whoever deletes a set, also one that knows it by its place only, removes all of it.
    other.delete(&SnapshotId::found("all", "rs_a")).await.unwrap();
    other.delete(&SnapshotId::new(&ada(), "rs_c")).await.unwrap();
    assert_eq!(taken(&other, &ada()).await, 0);
    let left = files(&objects).await;
    assert!(!left.iter().any(|file| file.contains("rs_a") || file.contains("rs_c")), "{left:?}");
}

#[tokio::test]
async fn snapshot_of_an_earlier_version_is_read_and_counts_for_no_principal() {
    let objects = Arc::new(InMemory::new());
    let snapshots =
        Snapshots::on(Arc::clone(&objects) as Arc<dyn ObjectStore>, SnapshotConfig::default()).unwrap();
    let rows = save(&snapshots, &ada(), "rs_old", 1_000).await;
    // Earlier versions wrote the same files in the same place, but not whose they are.
    let found = files(&objects).await;
    let marks: Vec<_> = found.iter().filter(|file| file.contains("/owner-p")).collect();
    assert_eq!(marks.len(), 1, "{found:?}");
    objects.delete(&Path::from(marks[0].as_str())).await.unwrap();
    let others: Vec<_> = found.iter().filter(|file| !file.contains("/owner-p")).collect();
    assert!(others.iter().all(|file| file.starts_with("all/rs_old/")), "{others:?}");
    let page = snapshots.page(&SnapshotId::new(&ada(), "rs_old"), &SnapshotPage::new(999, 1)).await;
    assert_eq!(page.unwrap().get(0).unwrap(), r#"{"n":999}"#);
    assert_eq!(taken(&snapshots, &ada()).await, 0);
    assert!(taken(&snapshots, &Owner::nobody()).await >= rows);
}

#[tokio::test]
async fn snapshot_that_is_given_up_leaves_no_word_of_its_owner() {
    let objects = Arc::new(InMemory::new());
    let snapshots =
        Snapshots::on(Arc::clone(&objects) as Arc<dyn ObjectStore>, SnapshotConfig::default()).unwrap();
    let id = SnapshotId::new(&ada(), "rs_broken");
    let rows = antiphon_results::Rows::from_json_array(r#"[{"n":1}]"#).unwrap();
    let parts = stream::iter([Ok(rows), Err("the source fails".into())]);
    let row_source = antiphon_results::snapshot::RowSource::rows(parts);
    let begun = snapshots.begin(&id, row_source, SnapshotWriteOptions::sample(1)).await;
    if let Ok(begun) = begun {
        begun.rest.await.unwrap_err();
    }
    assert_eq!(files(&objects).await, Vec::<String>::new());
}

/// A store whose listings are slow and counted, and whose clock may be behind.
#[derive(Debug, Default)]
struct Slow {
    inner: InMemory,
    listings: AtomicUsize,
    behind: TimeDelta,
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("slow")
    }
}

#[async_trait]
impl ObjectStore for Slow {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut found = self.inner.get_opts(location, options).await?;
        found.meta.last_modified -= self.behind;
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        let wait = stream::once(tokio::time::sleep(Duration::from_millis(200))).filter_map(async |()| None);
        let behind = self.behind;
        let dated = move |mut meta: ObjectMeta| {
            meta.last_modified -= behind;
            meta
        };
        wait.chain(self.inner.list(prefix).map_ok(dated)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn large_store_is_listed_once_for_all_principals() {
    let slow = Arc::new(Slow::default());
    let snapshots =
        Snapshots::on(Arc::clone(&slow) as Arc<dyn ObjectStore>, SnapshotConfig::default()).unwrap();
    let rows = save(&snapshots, &ada(), "rs_a", 1_000).await;
    slow.listings.store(0, Ordering::Relaxed);
    let owners: Vec<_> = (0..50).map(|n| Owner::principal(format!("p{n}"))).chain([ada()]).collect();
    let asked = owners.iter().map(|owner| snapshots.usage_of(owner));
    let found = futures_util::future::try_join_all(asked).await.unwrap();
    assert!(found[50].bytes >= rows && found[..50].iter().all(|taken| taken.bytes == 0), "{found:?}");
    for owner in &owners {
        snapshots.usage_of(owner).await.unwrap();
    }
    assert_eq!(slow.listings.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn file_that_was_just_written_is_not_old_where_clocks_differ() {
    for hours in [-2, 2] {
        let behind = TimeDelta::hours(hours);
        let store = Arc::new(Slow { behind, ..Slow::default() });
        let objects = Arc::clone(&store) as Arc<dyn ObjectStore>;
        let snapshots = Snapshots::on(objects, SnapshotConfig::default()).unwrap();
        save(&snapshots, &ada(), "rs_new", 10).await;
        let before = async |moment| snapshots.ids(moment).try_collect::<Vec<_>>().await.unwrap().len();
        assert_eq!(before(Utc::now() - TimeDelta::hours(1)).await, 0, "{hours} hours behind");
        assert_eq!(before(Utc::now() + TimeDelta::minutes(1)).await, 1, "{hours} hours behind");
        assert!(
            files(&store.inner).await.iter().all(|file| file.starts_with("all/")),
            "the clock leaves no file"
        );
    }
}
