//! Stores that fail.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    DualResponseError,
    snapshot::{SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{
    Bucket, SnapshotConfig, Snapshots,
    object_store::{
        CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartId,
        MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
        PutPayload, PutResult, Result,
        memory::InMemory,
        multipart::{MultipartStore, PartId},
        path::Path,
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};

use crate::ingest_support::{id, read, row_source};

/// A store of which one call in so many fails: before it is done, or after, or in the middle of a body.
#[derive(Debug)]
pub(crate) struct Flaky<S> {
    inner: Arc<S>,
    state: AtomicU64,
    one_in: u64,
}

enum Fate {
    Well,
    Before,
    After,
}

impl<S> Flaky<S> {
    pub(crate) fn new(inner: Arc<S>, seed: u64, one_in: u64) -> Self {
        Self { inner, state: AtomicU64::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), one_in }
    }

    fn roll(&self) -> u64 {
        let next = |state: u64| {
            let state = state ^ (state << 13);
            let state = state ^ (state >> 7);
            Some(state ^ (state << 17))
        };
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap() >> 11
    }

    async fn fate(&self) -> Fate {
        let roll = self.roll();
        if roll.is_multiple_of(7) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        match roll % (2 * self.one_in) {
            0 => Fate::Before,
            1 => Fate::After,
            _ => Fate::Well,
        }
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fate().await {
            Fate::Before => Err(failure()),
            Fate::After => call.await.and(Err(failure())),
            Fate::Well => call.await,
        }
    }
}

fn failure() -> Error {
    Error::Generic { store: "flaky", source: "it failed on purpose".into() }
}

impl<S> fmt::Display for Flaky<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky")
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for Flaky<S> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.call(self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.call(self.inner.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.call(self.inner.get_opts(location, options)).await?;
        let GetResultPayload::Stream(body) = result.payload else { return Ok(result) };
        let length = usize::try_from(result.range.end - result.range.start).unwrap();
        let roll = self.roll();
        let body = match roll % (2 * self.one_in) {
            // Half a body, and then nothing, or an error.
            0 | 1 if length > 1 => {
                let bytes = body.try_collect::<Vec<_>>().await?.concat();
                let half = Ok(Bytes::copy_from_slice(&bytes[..bytes.len() / 2]));
                let end = (roll % 2 == 1).then(|| Err(failure()));
                stream::iter([half].into_iter().chain(end)).boxed()
            }
            _ => body,
        };
        result.payload = GetResultPayload::Stream(body);
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.call(self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.roll() % (2 * self.one_in) {
            0 => stream::iter([Err(failure())]).boxed(),
            1 => self.inner.delete_stream(locations).map(|done| done.and(Err(failure()))).boxed(),
            _ => self.inner.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let list = self.inner.list(prefix);
        match self.roll() % (2 * self.one_in) {
            0 => stream::iter([Err(failure())]).boxed(),
            1 => list.take(1).chain(stream::iter([Err(failure())])).boxed(),
            _ => list,
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call(self.inner.copy_opts(from, to, options)).await
    }
}

#[async_trait]
impl<S: MultipartStore> MultipartStore for Flaky<S> {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        // One that is made and not told of is nobody's: the store's own rules remove it.
        match self.fate().await {
            Fate::Before | Fate::After => Err(failure()),
            Fate::Well => self.inner.create_multipart(path).await,
        }
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, at: usize, data: PutPayload) -> Result<PartId> {
        self.call(self.inner.put_part(path, id, at, data)).await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.call(self.inner.complete_multipart(path, id, parts)).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.call(self.inner.abort_multipart(path, id)).await
    }
}

/// A store in memory whose uploads take their parts in any order, and each as often as it comes.
#[derive(Debug, Default)]
struct Memory {
    objects: InMemory,
    uploads: Mutex<HashMap<MultipartId, BTreeMap<usize, Bytes>>>,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory")
    }
}

#[async_trait]
impl ObjectStore for Memory {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.objects.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unreachable!("uploads have ids")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

#[async_trait]
impl MultipartStore for Memory {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let mut uploads = self.uploads.lock().unwrap();
        let id = format!("{path}-{}", uploads.len());
        assert!(uploads.insert(id.clone(), BTreeMap::new()).is_none());
        Ok(id)
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, at: usize, data: PutPayload) -> Result<PartId> {
        let mut uploads = self.uploads.lock().unwrap();
        uploads.get_mut(id).ok_or_else(|| missing(path))?.insert(at, data.into());
        Ok(PartId { content_id: at.to_string() })
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let upload = self.uploads.lock().unwrap().remove(id).ok_or_else(|| missing(path))?;
        assert!(
            parts
                .iter()
                .map(|part| &part.content_id)
                .eq(&upload.keys().map(ToString::to_string).collect::<Vec<_>>())
        );
        self.objects.put(path, upload.into_values().collect::<PutPayload>()).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.uploads.lock().unwrap().remove(id).map(drop).ok_or_else(|| missing(path))
    }
}

fn missing(path: &Path) -> Error {
    Error::NotFound { path: path.to_string(), source: "no such upload".into() }
}

/// On a memory of its own, of which nothing stays.
async fn in_memory(seed: u64, one_in: u64) -> bool {
    let memory = Arc::new(Memory::default());
    let well = whole_or_not_at_all(Arc::clone(&memory), seed, one_in, small()).await;
    assert_eq!(memory.uploads.lock().unwrap().len(), 0, "seed {seed}");
    well
}

/// Small files in many parts.
pub(crate) fn small() -> SnapshotConfig {
    SnapshotConfig::default().with_part_bytes(1024).with_chunk_rows(200).with_page_rows(100)
}

/// Writes a snapshot on a store that fails, and looks at it on the same store when it does not. Says whether it was
/// written.
pub(crate) async fn whole_or_not_at_all<S>(
    store: Arc<S>,
    seed: u64,
    one_in: u64,
    config: SnapshotConfig,
) -> bool
where
    S: ObjectStore + MultipartStore,
{
    let flaky = Arc::new(Flaky::new(Arc::clone(&store), seed, one_in));
    let bucket = |objects, multipart| {
        Bucket::new(objects).with_multipart(multipart).with_prefix(format!("seed{seed}"))
    };
    let failing = Snapshots::on(bucket(Arc::clone(&flaky) as _, flaky as _), config.clone()).unwrap();
    let clean = Snapshots::on(bucket(Arc::clone(&store) as _, store as _), config).unwrap();
    // In some the columns are not known until the end, so that it is written twice.
    let rows = if seed.is_multiple_of(10) { 9_000 } else { 900 };
    let text = |number: u64| match number {
        8_500.. => format!(r#"{{"n":"{number}","late":1}}"#),
        _ => format!(r#"{{"n":{number},"t":"{:x}"}}"#, number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
    };
    let outcome = match failing
        .begin(&id("rs"), row_source((0..rows).map(text)), SnapshotWriteOptions::default())
        .await
    {
        Ok(begun) => begun.rest.await,
        Err(error) => Err(error),
    };
    let found = clean.manifest(&id("rs")).await;
    match &outcome {
        Ok(written) => {
            let found = found.unwrap();
            assert_eq!((written.rows, &written.digest), (rows, &found.digest), "seed {seed}");
            let read = read(&clean, "rs").await;
            assert_eq!(read.len() as u64, rows);
            let number = |at: usize| read[at]["n"].as_u64().or_else(|| read[at]["n"].as_str()?.parse().ok());
            assert!((0..read.len()).all(|at| number(at) == Some(at as u64)), "seed {seed}");
            // Read where it fails, it is the same or an error.
            let page = antiphon_results::snapshot::SnapshotPage::new(700, 10);
            if let Ok(rows) = failing.page(&id("rs"), &page).await {
                assert_eq!(rows, clean.page(&id("rs"), &page).await.unwrap(), "seed {seed}");
            }
        }
        Err(error) => {
            assert!(matches!(error, DualResponseError::Snapshot(_)), "seed {seed}: {error:?}");
            assert!(matches!(found, Err(DualResponseError::NotFound)), "seed {seed}: {found:?}");
        }
    }
    let ids: Vec<_> = clean.ids(chrono::Utc::now() + Duration::from_mins(1)).try_collect().await.unwrap();
    assert!(ids == [id("rs")] || (outcome.is_err() && ids.is_empty()), "seed {seed}: {ids:?}");
    clean.delete(&id("rs")).await.unwrap();
    assert_eq!(clean.usage(None).await.unwrap(), 0, "seed {seed}");
    outcome.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_one_call_in_ten_gives_all_rows_or_none() {
    let outcomes: Vec<bool> =
        stream::iter(0..200).map(|seed| in_memory(seed, 10)).buffer_unordered(16).collect().await;
    assert!(outcomes.iter().filter(|well| **well).count() > 150, "so few failures are gone through");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_every_other_call_gives_all_rows_or_none() {
    let outcomes: Vec<bool> =
        stream::iter(1000..1030).map(|seed| in_memory(seed, 2)).buffer_unordered(16).collect().await;
    assert!(outcomes.contains(&false), "some must be lost, or nothing was tried");
}
