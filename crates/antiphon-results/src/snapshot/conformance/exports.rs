//! Contract tests for exports.

use serde_json::Value;

use super::{
    super::{ByteRange, ExportFormat, ExportRequest, SnapshotStore},
    fixture::{Snapshots, export, id, rows},
};
use crate::error::DualResponseError;

/// Returns the formats that this store supports.
async fn formats(store: &dyn SnapshotStore) -> Vec<ExportFormat> {
    let mut formats = Vec::new();
    for format in ExportFormat::ALL {
        match store.export(&id("rs_set"), &ExportRequest::new(format)).await {
            Err(DualResponseError::Unsupported(_)) => {}
            export => {
                export.unwrap();
                formats.push(format);
            }
        }
    }
    formats
}

/// Tests that an export of a snapshot has the same rows as the pages of the snapshot.
pub async fn export_is_the_pages(snapshots: &Snapshots) {
    let store = snapshots.filled(3_000).await;
    let lines = export(&*store, ExportRequest::new(ExportFormat::Ndjson), None).await.unwrap();
    let found: Vec<Value> = lines
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(found, rows(0..3_000));
    let table = export(&*store, ExportRequest::new(ExportFormat::Csv), None).await.unwrap();
    assert_eq!(table.split_inclusive(|&byte| byte == b'\n').count(), 3_001);
}

/// Tests that consecutive byte ranges of an export together are the whole file, in every format. A store that does not
/// support byte ranges returns the whole file, and no length.
pub async fn ranges_are_parts_of_the_whole(snapshots: &Snapshots) {
    let store = snapshots.filled(2_000).await;
    for format in formats(&*store).await {
        let request = ExportRequest::new(format);
        let whole = export(&*store, request.clone(), None).await.unwrap();
        let total = whole.len() as u64;
        let fresh = snapshots.open().await;
        let some = Some(ByteRange::From { first: 1, last: Some(2) });
        if store.export(&id("rs_set"), &request.clone().with_range(some)).await.unwrap().length.is_none() {
            assert!(export(&*fresh, request, some).await.unwrap() == whole, "{format:?}");
            continue;
        }
        let mut parts = Vec::new();
        let step = total / 5 + 1;
        for first in (0..total).step_by(usize::try_from(step).unwrap()) {
            let range = ByteRange::From { first, last: Some(first + step - 1) };
            parts.extend(export(&*fresh, request.clone(), Some(range)).await.unwrap());
        }
        assert!(parts == whole, "{format:?}");
        let last = export(&*fresh, request.clone(), Some(ByteRange::Last(10))).await.unwrap();
        assert!(whole.ends_with(&last) && last.len() == 10, "{format:?}");
        let beyond = ByteRange::From { first: total, last: None };
        let error = export(&*fresh, request, Some(beyond)).await.unwrap_err();
        assert!(matches!(error, DualResponseError::Invalid(_)), "{format:?}: {error:?}");
    }
}

/// Tests that every handle to the store exports the same bytes with the same tag.
pub async fn export_is_the_same_from_every_opening(snapshots: &Snapshots) {
    let one = snapshots.filled(2_000).await;
    let two = snapshots.open().await;
    for format in formats(&*one).await {
        let request = ExportRequest::new(format);
        let tags = (
            one.export(&id("rs_set"), &request).await.unwrap().tag,
            two.export(&id("rs_set"), &request).await.unwrap().tag,
        );
        assert_eq!(tags.0, tags.1, "{format:?}");
        let bytes = export(&*one, request.clone(), None).await.unwrap();
        assert!(bytes == export(&*two, request, None).await.unwrap(), "{format:?}");
    }
}

/// Tests that the exports of all chunks together contain all rows.
pub async fn chunks_are_exported_alone(snapshots: &Snapshots) {
    let store = snapshots.filled(3_000).await;
    let request = ExportRequest::new(ExportFormat::Ndjson);
    let whole = export(&*store, request.clone(), None).await.unwrap();
    let chunks = store.manifest(&id("rs_set")).await.unwrap().chunks;
    let mut parts = Vec::new();
    for chunk in &chunks {
        parts.extend(export(&*store, request.clone().with_chunk(Some(chunk.index)), None).await.unwrap());
    }
    assert!(parts == whole);
    let beyond = request.with_chunk(Some(chunks.len() as u64));
    assert!(matches!(export(&*store, beyond, None).await, Err(DualResponseError::Invalid(_))));
}

/// Tests that the statistics of a snapshot match its rows, and that every handle to the store returns the same
/// statistics.
pub async fn stats_count_what_is_there(snapshots: &Snapshots) {
    let store = snapshots.filled(1_000).await;
    let stats = store.stats(&id("rs_set")).await.unwrap();
    let nulls: Vec<_> = stats.iter().map(|column| (column.name.as_str(), column.nulls)).collect();
    assert_eq!(nulls, [("id", 0), ("group", 0), ("text", 200)]);
    assert_eq!((&stats[0].min, &stats[0].max), (&Value::from(0), &Value::from(999)));
    assert_eq!(snapshots.open().await.stats(&id("rs_set")).await.unwrap(), stats);
}
