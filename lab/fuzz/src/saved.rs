//! Saved rows: as they come in, and as they lie in a file.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use antiphon_results::{
    Owner, Rows,
    snapshot::{
        ExportFormat, ExportRequest, RowSource, SnapshotId, SnapshotPage, SnapshotStore as _,
        SnapshotWriteOptions,
    },
};
use antiphon_snapshot::{
    Bucket, SnapshotConfig, Snapshots,
    object_store::{ObjectStore, ObjectStoreExt as _, memory::InMemory, path::Path},
};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::run;

/// Snapshots in memory, and what they lie in.
struct Shelf {
    objects: Arc<dyn ObjectStore>,
    snapshots: Snapshots,
    next: AtomicU64,
}

fn shelf() -> &'static Shelf {
    static SHELF: OnceLock<Shelf> = OnceLock::new();
    SHELF.get_or_init(|| {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let config = SnapshotConfig::default().with_chunk_rows(64).with_page_rows(16);
        let snapshots = Snapshots::on(Bucket::new(Arc::clone(&objects)), config).expect("it is a store");
        Shelf { objects, snapshots, next: AtomicU64::new(0) }
    })
}

impl Shelf {
    /// A name that no other set has: what is known of one is known by its name.
    fn set(&self) -> String {
        format!("rs_{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Reads all there is, in the ways there are, and then forgets it. Says how many rows there were, if they are not
    /// too large to be told all.
    async fn read(&self, id: &SnapshotId) -> Option<usize> {
        const ENOUGH: usize = 1 << 22;
        let rows = self.snapshots.page(id, &SnapshotPage::new(0, u64::MAX).with_max_bytes(ENOUGH)).await;
        let _ = self.snapshots.stats(id).await;
        if let Ok(mut export) = self.snapshots.export(id, &ExportRequest::new(ExportFormat::Ndjson)).await {
            while let Some(Ok(_)) = export.body.next().await {}
        }
        let _ = self.snapshots.delete(id).await;
        rows.ok().filter(|rows| rows.bytes() < ENOUGH).map(|rows| rows.len())
    }
}

/// Rows as JSON, one a line: what is taken in whole can be read whole.
pub fn ingest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut rows = Rows::new();
    for line in text.lines() {
        // What is no JSON is no row.
        let _ = rows.push_json(line);
    }
    run(async {
        let (shelf, count) = (shelf(), rows.len());
        let id = SnapshotId::new(&Owner::nobody(), shelf.set());
        let row_source = RowSource::rows(stream::iter([Ok(rows)]));
        let Ok(begun) = shelf.snapshots.begin(&id, row_source, SnapshotWriteOptions::sample(3)).await else {
            return;
        };
        let written = begun.rest.await;
        let read = shelf.read(&id).await;
        if let Ok(written) = written {
            assert_eq!(written.rows, count as u64, "all that came was saved");
            assert!(read.is_none_or(|read| read == count), "what was saved is read: {read:?} of {count}");
        }
    });
}

/// How many rows the files of the corpus have.
const ROWS: u64 = 40;

/// A file with rows, under a manifest that says of it what is true: whoever wrote it may write where we do.
pub fn parquet(data: &[u8]) {
    run(async {
        let shelf = shelf();
        let set = shelf.set();
        let digest = Sha256::digest(data)
            .iter()
            .fold(String::from("sha-256:"), |text, byte| format!("{text}{byte:02x}"));
        let manifest = json!({
            "version": 1, "rows": ROWS, "bytes": data.len(), "digest": digest, "written_at": "2026-07-28T12:00:00Z",
            "columns": [{"name": "id", "type": "integer"}, {"name": "name", "type": "string"}],
            "data": "data-0.parquet",
        });
        let place = |file: &str| Path::from(format!("all/{set}/{file}"));
        let put = async |file: &str, bytes: Vec<u8>| {
            shelf.objects.put(&place(file), bytes.into()).await.expect("memory takes it");
        };
        put("data-0.parquet", data.to_vec()).await;
        put("manifest.json", manifest.to_string().into_bytes()).await;
        let id = SnapshotId::new(&Owner::nobody(), set.as_str());
        if let Some(rows) = shelf.read(&id).await {
            assert_eq!(rows as u64, ROWS, "as many as were said to be there");
        }
    });
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use futures_util::TryStreamExt as _;

    use super::*;

    fn rows(name: impl Fn(u64) -> serde_json::Value) -> Rows {
        let mut rows = Rows::new();
        for id in 0..ROWS {
            rows.push_json(&json!({"id": id, "name": name(id)}).to_string()).unwrap();
        }
        rows
    }

    /// Files as they are written: each way in which a column of text may lie there.
    #[test]
    fn corpus_of_files_is_as_files_are_written_today() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/parquet");
        let anew = std::env::var_os("UPDATE_CORPUS").is_some();
        let kinds = [
            ("each-its-own", rows(|id| json!(format!("name {id}")))),
            ("few-again-and-again", rows(|id| json!(if id % 2 == 0 { "ada" } else { "eve" }))),
            ("many-missing", rows(|id| if id % 3 == 0 { json!(format!("ä{id}")) } else { json!(null) })),
        ];
        for (kind, rows) in kinds {
            run(async {
                let shelf = shelf();
                let set = shelf.set();
                let id = SnapshotId::new(&Owner::nobody(), set.as_str());
                let row_source = RowSource::rows(stream::iter([Ok(rows)]));
                let begun =
                    shelf.snapshots.begin(&id, row_source, SnapshotWriteOptions::sample(3)).await.unwrap();
                begun.rest.await.unwrap();
                let files = shelf.objects.list(Some(&Path::from(format!("all/{set}"))));
                let files: Vec<_> = files.try_collect().await.unwrap();
                let data = files.iter().find(|file| file.location.as_ref().ends_with(".parquet")).unwrap();
                let bytes = shelf.objects.get(&data.location).await.unwrap().bytes().await.unwrap();
                if anew {
                    fs::write(folder.join(kind), &bytes).unwrap();
                }
                let kept = fs::read(folder.join(kind)).unwrap();
                assert!(kept == bytes, "{kind} is written in another way now: set UPDATE_CORPUS=1 once");
            });
        }
    }
}
