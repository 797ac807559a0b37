//! Pages.

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{SnapshotId, SnapshotPage, SnapshotStore as _},
};
use antiphon_snapshot::Snapshots;
use proptest::prelude::*;

use crate::read_support::{Shelves, every_kind, id, numbered, write};

const ROWS: i64 = 10_000;

async fn fill(snapshots: &Snapshots) {
    let batches = (0..10).map(|number| numbered(number * 1_000..(number + 1) * 1_000)).collect();
    assert_eq!(write(snapshots, "rs_set", batches).await.rows, 10_000);
}

#[test]
fn page_is_the_same_rows_whatever_its_size() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut shelves = Shelves::new();
    while let Some(shelf) = runtime.block_on(shelves.next()) {
        runtime.block_on(fill(&shelf.snapshots));
        let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(offset in 0..11_000_u64, limit in prop_oneof![0..300_u64, 2_000..7_000_u64])| {
            runtime.block_on(async {
                let page = SnapshotPage::new(offset, limit).with_columns(["id"]);
                let rows = shelf.snapshots.page(&id("rs_set"), &page).await.unwrap();
                let end = (offset + limit).min(ROWS as u64);
                let expected: Vec<_> = (offset..end).map(|row| format!("{{\"id\":{row}}}")).collect();
                assert_eq!(rows.iter().collect::<Vec<_>>(), expected);
            });
        });
    }
}

#[tokio::test]
async fn ends_of_numbers_are_no_pages_or_the_last() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        for (offset, limit, expected) in [
            (0, 0, 0),
            (u64::MAX, u64::MAX, 0),
            (10_000, 1, 0),
            (9_999, u64::MAX, 1),
            (2_999, 2, 2),
            (0, u64::MAX, 10_000),
        ] {
            let rows = shelf.snapshots.page(&id("rs_set"), &SnapshotPage::new(offset, limit)).await.unwrap();
            assert_eq!(rows.len(), expected, "{limit} from {offset}");
        }
    }
}

#[tokio::test]
async fn columns_come_in_the_order_asked_for() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let page = SnapshotPage::new(8, 1).with_columns(["third", "id"]);
        let rows = shelf.snapshots.page(&id("rs_set"), &page).await.unwrap();
        assert_eq!(rows.as_json(), r#"{"third":2.6666666666666665,"id":8}"#);
    }
}

#[tokio::test]
async fn unknown_column_is_named() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        for (columns, word) in [(["id", "nam"], "`nam`"), (["id", "id"], "twice")] {
            let page = SnapshotPage::new(0, 1).with_columns(columns);
            let error = shelf.snapshots.page(&id("rs_set"), &page).await.unwrap_err();
            assert!(matches!(&error, DualResponseError::Invalid(text) if text.contains(word)), "{error:?}");
        }
    }
}

#[tokio::test]
async fn page_stops_when_it_is_large_enough() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let page = |bytes| SnapshotPage::new(5, 5_000).with_max_bytes(bytes);
        let all = shelf.snapshots.page(&id("rs_set"), &page(usize::MAX)).await.unwrap();
        for bytes in [0, 1, 100, 1_000, 100_000, all.bytes() - 1, all.bytes()] {
            let rows = shelf.snapshots.page(&id("rs_set"), &page(bytes)).await.unwrap();
            assert!(!rows.is_empty() && (rows.bytes() <= bytes || rows.len() == 1));
            assert!(rows == all.slice(0, rows.len()));
            let next = all.slice(0, rows.len() + 1);
            assert!(rows.len() == all.len() || next.bytes() > bytes, "one more would have fitted");
        }
    }
}

#[tokio::test]
async fn every_kind_of_value_is_written_as_the_wire_has_it() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_kinds", vec![every_kind()]).await;
        let rows = shelf.replica().page(&id("rs_kinds"), &SnapshotPage::new(0, 10)).await.unwrap();
        let expected = [
            concat!(
                r#"{"big":9223372036854775807,"truth":true,"real":0.1,"money":12345678901234567890123456.7890,"#,
                r#""day":"2022-01-08","local":"2023-11-14T22:13:20.250","moment":"2023-11-14T22:13:20.250Z","#,
                r#""text":"=1+1","bytes":"AP8=","json":{"b": [1, 2]},"parts":{"a":1,"é":"x"},"nothing":null}"#
            ),
            concat!(
                r#"{"big":-9223372036854775808,"truth":false,"real":null,"money":-0.5000,"#,
                r#""day":"1969-12-31","local":"1969-12-31T23:59:59.999999","moment":"1969-12-31T23:59:59.999999Z","#,
                "\"text\":\"\u{2028}\\\"\\\\\\u0001\\r\\n,🎉\",",
                r#""bytes":"","json":"not json","parts":{"a":null,"é":"ü"},"nothing":null}"#
            ),
            concat!(
                r#"{"big":null,"truth":null,"real":null,"money":null,"day":null,"local":null,"moment":null,"#,
                r#""text":null,"bytes":null,"json":null,"parts":null,"nothing":null}"#
            ),
        ];
        assert_eq!(rows.iter().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn set_of_another_tenant_is_not_found() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let other = SnapshotId::new(&Owner::nobody().with_tenant("other"), "rs_set");
        let error = shelf.snapshots.page(&other, &SnapshotPage::new(0, 1)).await.unwrap_err();
        assert!(matches!(error, DualResponseError::NotFound), "{error:?}");
    }
}

#[tokio::test]
async fn chunks_of_the_manifest_are_the_rows() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        fill(&shelf.snapshots).await;
        let manifest = shelf.replica().manifest(&id("rs_set")).await.unwrap();
        let mut rows = 0;
        for (index, chunk) in manifest.chunks.iter().enumerate() {
            assert_eq!((chunk.index, chunk.row_offset), (index as u64, rows));
            assert!(chunk.row_count > 0 && chunk.row_count <= 3_000 && chunk.bytes > 0);
            rows += chunk.row_count;
        }
        assert_eq!((rows, manifest.rows), (10_000, 10_000));
    }
}
