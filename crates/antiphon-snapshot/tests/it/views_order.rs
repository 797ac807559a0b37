//! Sorted views against a stable sort in plain Rust, for all types, both ways, with ties and with nothing.

use std::{cmp::Ordering, sync::Arc};

use antiphon_results::{
    Order, Sort,
    snapshot::{SnapshotPage, SnapshotStore as _, View},
};
use antiphon_snapshot::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use proptest::prelude::*;

use crate::{
    places::Places,
    sql_rows::{MIB, batch, colleges, id, opened, patient, rows, small, write},
};

/// A row: few different values, so that there are ties.
#[derive(Clone, Debug)]
struct Row {
    whole: Option<i64>,
    number: Option<f64>,
    text: Option<String>,
    flag: Option<bool>,
    day: Option<i32>,
    moment: Option<i64>,
    exact: Option<i128>,
}

const COLUMNS: [&str; 7] = ["whole", "number", "text", "flag", "day", "moment", "exact"];

impl Row {
    /// As the order says, with what is missing last whichever way.
    fn compare(&self, other: &Self, sort: &Sort) -> Ordering {
        fn by<T>(
            one: Option<&T>,
            other: Option<&T>,
            order: Order,
            compare: impl Fn(&T, &T) -> Ordering,
        ) -> Ordering {
            match (one, other) {
                (Some(one), Some(other)) if order == Order::Desc => compare(other, one),
                (Some(one), Some(other)) => compare(one, other),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            }
        }
        let order = sort.order;
        match &*sort.field {
            "whole" => by(self.whole.as_ref(), other.whole.as_ref(), order, Ord::cmp),
            "number" => {
                // What rows cannot show is missing from them.
                let shown = |row: &Self| row.number.filter(|number| number.is_finite());
                by(shown(self).as_ref(), shown(other).as_ref(), order, f64::total_cmp)
            }
            "text" => by(self.text.as_ref(), other.text.as_ref(), order, Ord::cmp),
            "flag" => by(self.flag.as_ref(), other.flag.as_ref(), order, Ord::cmp),
            "day" => by(self.day.as_ref(), other.day.as_ref(), order, Ord::cmp),
            "moment" => by(self.moment.as_ref(), other.moment.as_ref(), order, Ord::cmp),
            _ => by(self.exact.as_ref(), other.exact.as_ref(), order, Ord::cmp),
        }
    }
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop::sample::select(vec!["", "a", "A", "ä", "aa", "b", "日本", "\u{0}", "zz"]);
    let number = prop::sample::select(vec![
        0.0,
        -0.0,
        1.5,
        -1.5,
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
    ]);
    (
        prop::option::of(prop::sample::select(vec![i64::MIN, -1, 0, 1, i64::MAX])),
        prop::option::of(number),
        prop::option::of(text.prop_map(str::to_owned)),
        prop::option::of(any::<bool>()),
        prop::option::of(-3..3_i32),
        prop::option::of(-3..3_i64),
        prop::option::of(-3..3_i128),
    )
        .prop_map(|(whole, number, text, flag, day, moment, exact)| Row {
            whole,
            number,
            text,
            flag,
            day,
            moment,
            exact,
        })
}

fn sort() -> impl Strategy<Value = Vec<Sort>> {
    let one = (prop::sample::select(COLUMNS.to_vec()), any::<bool>()).prop_map(|(field, ascending)| {
        if ascending { Sort::ascending(field) } else { Sort::descending(field) }
    });
    prop::collection::vec(one, 1..=4)
}

fn columns(rows: &[Row]) -> Vec<(&'static str, ArrayRef)> {
    let exact = rows
        .iter()
        .map(|row| row.exact)
        .collect::<Decimal128Array>()
        .with_precision_and_scale(10, 2)
        .unwrap();
    vec![
        ("at", Arc::new(Int64Array::from_iter_values((0..).take(rows.len()))) as ArrayRef),
        ("whole", Arc::new(rows.iter().map(|row| row.whole).collect::<Int64Array>())),
        ("number", Arc::new(rows.iter().map(|row| row.number).collect::<Float64Array>())),
        ("text", Arc::new(rows.iter().map(|row| row.text.as_deref()).collect::<StringArray>())),
        ("flag", Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>())),
        ("day", Arc::new(rows.iter().map(|row| row.day).collect::<Date32Array>())),
        ("moment", Arc::new(rows.iter().map(|row| row.moment).collect::<TimestampMicrosecondArray>())),
        ("exact", Arc::new(exact)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sorted_view_is_the_stable_sort_of_the_rows(
        rows in prop::collection::vec(row(), 1..200),
        sort in sort(),
        chunk_rows in prop::sample::select(vec![7_usize, 64, 1000]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let config = small().with_chunk_rows(chunk_rows);
        let snapshots = opened(config);
        let found: Vec<usize> = runtime.block_on(async {
            write(&snapshots, "rs_sorted", vec![batch(columns(&rows))]).await;
            let view = View::sorted(sort.clone());
            let rows = crate::sql_rows::rows(&snapshots, "rs_sorted", &view).await;
            rows.iter().map(|row| usize::try_from(row["at"].as_u64().unwrap()).unwrap()).collect()
        });
        let mut expected: Vec<usize> = (0..rows.len()).collect();
        expected.sort_by(|one, other| {
            let compared = sort.iter().map(|sort| rows[*one].compare(&rows[*other], sort));
            compared.fold(Ordering::Equal, Ordering::then)
        });
        prop_assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn pages_of_any_size_show_one_order() {
    let mut places = Places::all();
    while let Some(place) = places.next().await {
        let snapshots = place.open_with(patient());
        write(&snapshots, "rs_pages", vec![colleges(20_000)]).await;
        let view = View::sorted([Sort::descending("state"), Sort::ascending("public")]);
        let all = rows(&snapshots, "rs_pages", &view).await;
        assert_eq!(all.len(), 20_000);
        for (offset, limit) in [(0, 1), (8_190, 5), (16_384, 700), (19_999, 10)] {
            let page = SnapshotPage::new(offset, limit).with_view(view.clone());
            let page: Vec<serde_json::Value> =
                snapshots.page(&id("rs_pages"), &page).await.unwrap().read().unwrap();
            let from = usize::try_from(offset).unwrap();
            let to = (from + usize::try_from(limit).unwrap()).min(all.len());
            assert_eq!(page, all[from..to]);
        }
        // The column that decides between equals is nobody's to see.
        assert_eq!(all[0].as_object().unwrap().len(), 11);
    }
}

/// A million rows of eight columns, some 120 MB, in a pool of 64 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_rows_are_sorted_in_a_small_pool() {
    let config = small().with_chunk_rows(65_536).with_query_time(std::time::Duration::from_mins(2));
    let folder = tempfile::tempdir().unwrap();
    let address = url::Url::from_directory_path(folder.path()).unwrap();
    let snapshots = antiphon_snapshot::Snapshots::open_with(address.as_str(), [], config).unwrap();
    // What is not sorted by may be the same in every part.
    let text = |salt: u64| -> ArrayRef {
        let mixed = |at: u64| (at + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 12;
        Arc::new(StringArray::from_iter_values((0..20_000).map(|at| format!("{:x} of {salt}", mixed(at)))))
    };
    let few =
        |most: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..20_000).map(|at| at % most))) };
    let same =
        [("a", text(1)), ("b", text(2)), ("c", text(3)), ("d", few(10)), ("e", few(100)), ("f", few(1000))];
    let part = |part: i64| {
        let range = part * 20_000..(part + 1) * 20_000;
        let mixed = |at: i64| at.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()) >> 20;
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone()));
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values(range.map(mixed)));
        batch([("id", id), ("key", key)].into_iter().chain(same.iter().cloned()).collect())
    };
    write(&snapshots, "rs_million", (0..50).map(part).collect()).await;
    let before = resident();
    let view = View::sorted([Sort::descending("key")]);
    assert_eq!(snapshots.prepare(&id("rs_million"), &view).await.unwrap(), 1_000_000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 256 * MIB, "it grew by {} MiB", grown / MIB);
    let mut last = i64::MAX;
    for offset in [0, 250_000, 500_000, 999_900] {
        let page = SnapshotPage::new(offset, 100).with_view(view.clone()).with_columns(["key"]);
        let page: Vec<serde_json::Value> =
            snapshots.page(&id("rs_million"), &page).await.unwrap().read().unwrap();
        assert_eq!(page.len(), 100);
        for row in page {
            let key = row["key"].as_i64().unwrap();
            assert!(key <= last);
            last = key;
        }
    }
}

/// How many bytes of memory this process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
