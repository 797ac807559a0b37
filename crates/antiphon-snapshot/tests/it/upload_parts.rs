//! Uploads in parts: every part but the last has one length.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use antiphon_snapshot::{
    Bucket, SnapshotConfig, Snapshots,
    object_store::{
        MultipartId, ObjectStore, PutPayload, PutResult, Result,
        memory::InMemory,
        multipart::{MultipartStore, PartId},
        path::Path,
    },
};
use async_trait::async_trait;

use crate::ingest_support::{read, row_source, write};

/// Notes the length of each part, by upload and number.
#[derive(Debug)]
struct Noted<S> {
    inner: Arc<S>,
    parts: Mutex<BTreeMap<MultipartId, BTreeMap<usize, usize>>>,
}

#[async_trait]
impl<S: MultipartStore + Debug> MultipartStore for Noted<S> {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.inner.create_multipart(path).await
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, at: usize, data: PutPayload) -> Result<PartId> {
        let length = data.content_length();
        self.parts.lock().unwrap().entry(id.clone()).or_default().insert(at, length);
        self.inner.put_part(path, id, at, data).await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.inner.complete_multipart(path, id, parts).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.inner.abort_multipart(path, id).await
    }
}

/// Rows that do not compress, in chunks of other lengths than parts.
fn row(number: u64) -> String {
    let mut state = number | 1 << 40;
    let text = (0..32).fold(String::new(), |text, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text + &format!("{state:016x}")
    });
    format!(r#"{{"n":{number},"t":"{text}"}}"#)
}

async fn parts_have_one_length<S: ObjectStore + MultipartStore + Debug>(store: Arc<S>, part_bytes: usize) {
    let config = SnapshotConfig::default().with_part_bytes(part_bytes).with_chunk_rows(5_000);
    let noted = Arc::new(Noted { inner: Arc::clone(&store), parts: Mutex::default() });
    let bucket = Bucket::new(store).with_multipart(Arc::clone(&noted) as Arc<dyn MultipartStore>);
    let snapshots = Snapshots::on(bucket, config).unwrap();
    let written = write(&snapshots, "rs_parts", row_source((0..40_000).map(row))).await;
    let parts = noted.parts.lock().unwrap().clone();
    assert_eq!(parts.len(), 1, "{parts:?}");
    let lengths: Vec<usize> = parts.into_values().next().unwrap().into_values().collect();
    let (last, before) = lengths.split_last().unwrap();
    assert!(before.len() >= 2, "{lengths:?}");
    assert!(before.iter().all(|length| *length == part_bytes), "{lengths:?}");
    assert!((1..=part_bytes).contains(last), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<usize>() as u64, written.bytes);
    assert_eq!(read(&snapshots, "rs_parts").await.len(), 40_000);
}

#[tokio::test]
async fn parts_of_an_upload_have_one_length_but_the_last() {
    for part_bytes in [1 << 20, 3_000_001] {
        parts_have_one_length(Arc::new(InMemory::new()), part_bytes).await;
    }
}

#[cfg(feature = "aws")]
#[tokio::test]
async fn parts_of_an_upload_to_s3_have_one_length_but_the_last() {
    use crate::ingest_support::{s3_bucket, s3_uploads, service};
    let Some(url) = service("ANTIPHON_TEST_S3_URL") else { return };
    let bucket = s3_bucket(&url, "equal").await;
    parts_have_one_length(Arc::new(crate::s3::store(&url, &bucket)), 5 << 20).await;
    assert_eq!(s3_uploads(&url, &bucket).await, 0);
}
