//! Files that are damaged, and files that were made to do damage: an error, never a panic, never another row.

use antiphon_results::{
    DualResponseError,
    snapshot::{ExportFormat, ExportRequest, SnapshotPage, SnapshotStore as _},
};
use sha2::{Digest as _, Sha256};

use crate::read_support::{Disk, bytes, id, numbered, write};

/// Reads all there is, in every way there is.
async fn read(disk: &Disk) -> Result<Vec<String>, DualResponseError> {
    let snapshots = disk.replica();
    let rows = snapshots.page(&id("rs_set"), &SnapshotPage::new(0, u64::MAX)).await?;
    snapshots.stats(&id("rs_set")).await?;
    for format in [ExportFormat::Ndjson, ExportFormat::Parquet] {
        bytes(snapshots.export(&id("rs_set"), &ExportRequest::new(format)).await?).await?;
    }
    Ok(rows.iter().map(str::to_owned).collect())
}

async fn filled() -> (Disk, Vec<u8>, Vec<String>) {
    let disk = Disk::new();
    write(&disk.snapshots, "rs_set", vec![numbered(0..400)]).await;
    let stored = std::fs::read(disk.data("rs_set")).unwrap();
    let rows = read(&disk).await.unwrap();
    std::fs::remove_file(disk.path("rs_set", "stats.json")).unwrap();
    (disk, stored, rows)
}

/// Stores other bytes, and a manifest that agrees with them: whoever did this may write where we do.
pub(crate) fn forge(disk: &Disk, stored: &[u8]) {
    std::fs::write(disk.data("rs_set"), stored).unwrap();
    let path = disk.path("rs_set", "manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let digest = Sha256::digest(stored)
        .iter()
        .fold(String::from("sha-256:"), |text, byte| format!("{text}{byte:02x}"));
    manifest["digest"] = digest.into();
    manifest["bytes"] = stored.len().into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    let _ = std::fs::remove_file(disk.path("rs_set", "stats.json"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flipped_byte_is_never_another_row() {
    let (disk, stored, _) = filled().await;
    for at in (0..stored.len()).step_by(97) {
        let mut damaged = stored.clone();
        damaged[at] ^= 0x41;
        std::fs::write(disk.data("rs_set"), damaged).unwrap();
        let error = read(&disk).await.unwrap_err();
        assert!(matches!(error, DualResponseError::Snapshot(_)), "byte {at}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_that_ends_early_is_an_error() {
    let (disk, stored, _) = filled().await;
    for length in [0, 1, 8, 12, stored.len() / 2, stored.len() - 1] {
        std::fs::write(disk.data("rs_set"), &stored[..length]).unwrap();
        let error = read(&disk).await.unwrap_err();
        assert!(matches!(error, DualResponseError::Snapshot(_)), "{length} bytes: {error:?}");
    }
    std::fs::remove_file(disk.data("rs_set")).unwrap();
    let error = read(&disk).await.unwrap_err();
    assert!(matches!(error, DualResponseError::Snapshot(_)), "a manifest without rows: {error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_file_is_an_error_or_rows_and_never_a_panic() {
    let (disk, stored, _) = filled().await;
    // The digest agrees, so what is in the pages is believed; what holds them together must hold.
    for at in (0..stored.len()).step_by(97) {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = stored.clone();
            damaged[at] ^= flip;
            forge(&disk, &damaged);
            if let Ok(rows) = read(&disk).await {
                assert_eq!(rows.len(), 400, "byte {at} changed how many rows there are");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn footer_that_claims_too_much_is_refused() {
    let (disk, stored, _) = filled().await;
    let end = stored.len();
    for claim in [u32::MAX, 64 * 1024 * 1024 + 1, u32::try_from(end).unwrap(), 0] {
        let mut forged = stored.clone();
        forged[end - 8..end - 4].copy_from_slice(&claim.to_le_bytes());
        forge(&disk, &forged);
        assert!(read(&disk).await.is_err(), "a footer of {claim} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_manifest_is_an_error_or_says_the_same() {
    let (disk, _, rows) = filled().await;
    let path = disk.path("rs_set", "manifest.json");
    let text = std::fs::read(&path).unwrap();
    for at in 0..text.len() {
        let mut damaged = text.clone();
        damaged[at] ^= 0x41;
        std::fs::write(&path, damaged).unwrap();
        if let Ok(found) = disk.replica().page(&id("rs_set"), &SnapshotPage::new(0, u64::MAX)).await {
            assert!(found.iter().eq(rows.iter()), "byte {at}");
        }
    }
    for forged in ["", "{}", "null", &"[".repeat(100_000)] {
        std::fs::write(&path, forged).unwrap();
        assert!(matches!(read(&disk).await.unwrap_err(), DualResponseError::Snapshot(_)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_are_too_deep_are_refused() {
    use std::sync::Arc;

    use antiphon_snapshot::arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, StructArray},
        datatypes::{DataType, Field, Schema},
    };

    let (disk, _, _) = filled().await;
    let mut array: ArrayRef = Arc::new(Int64Array::from(vec![1; 400]));
    for _ in 0..100 {
        let field = Field::new("in", array.data_type().clone(), true);
        array = Arc::new(StructArray::new(vec![field].into(), vec![array], None));
    }
    assert!(matches!(array.data_type(), DataType::Struct(_)));
    let schema = Arc::new(Schema::new(vec![Field::new("id", array.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).unwrap();
    let mut stored = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut stored, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    forge(&disk, &stored);
    assert!(matches!(read(&disk).await.unwrap_err(), DualResponseError::Snapshot(_)));
}
