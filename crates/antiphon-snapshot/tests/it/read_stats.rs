//! What is in the columns.

use antiphon_results::snapshot::{ColumnStats, SnapshotStore as _};
use serde_json::{Value, json};

use crate::read_support::{Disk, Shelves, every_kind, id, numbered, write};

fn of<'a>(stats: &'a [ColumnStats], name: &str) -> &'a ColumnStats {
    stats.iter().find(|column| column.name == name).unwrap()
}

#[tokio::test]
async fn columns_are_counted_measured_and_spread() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_set", vec![numbered(0..10_000)]).await;
        let stats = shelf.snapshots.stats(&id("rs_set")).await.unwrap();
        let ids = of(&stats, "id");
        assert_eq!((ids.nulls, &ids.min, &ids.max, ids.mean), (0, &json!(0), &json!(9_999), Some(4_999.5)));
        assert!(ids.distinct.unwrap().abs_diff(10_000) < 400 && ids.frequent.is_empty());
        assert!((20..=30).contains(&ids.histogram.len()));
        assert_eq!(ids.histogram.iter().map(|bin| bin.count).sum::<u64>(), 10_000);
        assert_eq!((&ids.histogram[0].from, &ids.histogram.last().unwrap().to), (&json!(0), &json!(9_999)));
        // Each bin holds what lies between its ends.
        for bin in &ids.histogram[..ids.histogram.len() - 1] {
            assert_eq!(bin.to.as_u64().unwrap() - bin.from.as_u64().unwrap(), bin.count);
        }
        let thirds = of(&stats, "third");
        assert_eq!(thirds.nulls, 2_000);
        assert_eq!(thirds.histogram.iter().map(|bin| bin.count).sum::<u64>(), 8_000);
        let names = of(&stats, "name");
        assert_eq!(names.nulls, 1_429);
        assert_eq!(names.min, json!("row \"1\", of many\n"));
        assert!(names.distinct.unwrap().abs_diff(8_571) < 400);
    }
}

#[tokio::test]
async fn few_values_are_counted_one_by_one() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        let batches = (0..40).map(|number| numbered(number % 4..number % 4 + 3)).collect();
        write(&shelf.snapshots, "rs_few", batches).await;
        let stats = shelf.snapshots.stats(&id("rs_few")).await.unwrap();
        let ids = of(&stats, "id");
        assert_eq!(ids.distinct, Some(6));
        let frequent: Vec<_> = ids.frequent.iter().map(|value| (value.value.clone(), value.count)).collect();
        let expected = [(2, 30), (3, 30), (1, 20), (4, 20), (0, 10), (5, 10)]
            .map(|(value, count)| (json!(value), count));
        assert_eq!(frequent, expected);
        assert_eq!(ids.histogram.len(), 6);
        assert_eq!(of(&stats, "name").frequent[0].value, json!("row \"2\", of many\n"));
    }
}

#[tokio::test]
async fn every_kind_of_column_has_a_profile() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_kinds", vec![every_kind()]).await;
        let stats = shelf.snapshots.stats(&id("rs_kinds")).await.unwrap();
        assert_eq!(stats.len(), 12);
        assert!(
            stats.iter().all(|column| column.nulls == if column.name == "real" { 2 } else { 1 }
                || column.name == "nothing")
        );
        assert_eq!(of(&stats, "nothing").nulls, 3);
        assert_eq!(of(&stats, "day").min, json!("1969-12-31"));
        assert_eq!(of(&stats, "moment").max, json!("2023-11-14T22:13:20.250Z"));
        assert_eq!(of(&stats, "big").histogram.iter().map(|bin| bin.count).sum::<u64>(), 2);
        assert_eq!(of(&stats, "truth").distinct, Some(2));
        assert_eq!(of(&stats, "bytes").min, Value::Null);
    }
}

#[tokio::test]
async fn profile_is_kept_for_others_and_found_out_again_if_it_is_damaged() {
    let disk = Disk::new();
    write(&disk.snapshots, "rs_set", vec![numbered(0..5_000)]).await;
    let (one, two) = (disk.replica(), disk.replica());
    let set = id("rs_set");
    let (first, second) = tokio::join!(one.stats(&set), two.stats(&set));
    let first = first.unwrap();
    assert_eq!(first, second.unwrap());
    let path = disk.path("rs_set", "stats.json");
    let kept: Vec<ColumnStats> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(kept, first);
    std::fs::write(&path, "[{}]").unwrap();
    assert_eq!(disk.replica().stats(&set).await.unwrap(), first);
}

#[tokio::test]
async fn set_without_rows_has_a_profile_without_values() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_none", vec![numbered(0..0)]).await;
        let stats = shelf.snapshots.stats(&id("rs_none")).await.unwrap();
        assert!(stats.iter().all(|column| column.distinct == Some(0) && column.histogram.is_empty()));
        assert_eq!(stats.len(), 3);
    }
}
