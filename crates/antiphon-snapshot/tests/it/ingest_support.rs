//! What tests of writing share.

use antiphon_results::{
    ColumnDefinition, ColumnType, Owner, Rows,
    snapshot::{RowSource, SnapshotId, SnapshotPage, SnapshotStore as _, SnapshotWriteOptions, Written},
};
use antiphon_snapshot::Snapshots;
use futures_util::stream;
use serde_json::{Map, Value};

pub(crate) fn id(set: &str) -> SnapshotId {
    SnapshotId::new(&Owner::nobody(), set)
}

/// These rows, some at a time.
pub(crate) fn row_source(texts: impl IntoIterator<Item = impl Into<String>>) -> RowSource {
    let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
    let parts: Vec<_> = texts
        .chunks(1000)
        .map(|texts| {
            let mut rows = Rows::new();
            for text in texts {
                rows.push_json(text).unwrap();
            }
            Ok(rows)
        })
        .collect();
    RowSource::rows(stream::iter(parts))
}

/// Writes a snapshot to its end.
pub(crate) async fn write(snapshots: &Snapshots, set: &str, row_source: RowSource) -> Written {
    let begun = snapshots.begin(&id(set), row_source, SnapshotWriteOptions::default()).await.unwrap();
    begun.rest.await.unwrap()
}

/// All rows of a snapshot, each value as it is meant: JSON that is kept as text is read.
pub(crate) async fn read(snapshots: &Snapshots, set: &str) -> Vec<Map<String, Value>> {
    let manifest = snapshots.manifest(&id(set)).await.unwrap();
    let mut all = Vec::new();
    while (all.len() as u64) < manifest.rows {
        let page = SnapshotPage::new(all.len() as u64, 10_000);
        let rows = snapshots.page(&id(set), &page).await.unwrap();
        assert!(!rows.is_empty());
        all.extend(rows.read::<Map<String, Value>>().unwrap());
    }
    for row in &mut all {
        for column in &manifest.columns {
            let value = row.entry(column.name.clone()).or_insert(Value::Null);
            if column.kind == ColumnType::Json
                && let Value::String(text) = value
                && let Ok(inner) = serde_json::from_str(text)
            {
                *value = inner;
            }
        }
    }
    all
}

/// A column's name and kind.
pub(crate) fn kinds(columns: &[ColumnDefinition]) -> Vec<(&str, &str)> {
    columns.iter().map(|column| (column.name.as_str(), column.kind.name())).collect()
}

/// Where a service is. Without it a test says that it skips; in CI that is an error.
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
pub(crate) fn service(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set, and CI tests the real thing");
        eprintln!("skipped: {variable} is not set; `cargo xtask services env` tells what to set");
    }
    url
}

/// What has to be told to talk to the S3 of tests.
pub(crate) fn s3_options(url: &str) -> Vec<(String, String)> {
    let options = [
        ("endpoint", url),
        ("allow_http", "true"),
        ("region", "us-east-1"),
        ("access_key_id", "antiphon"),
        ("secret_access_key", "antiphon"),
    ];
    options.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
}

/// An empty bucket of the S3 of tests.
pub(crate) async fn s3_bucket(url: &str, name: &str) -> String {
    let bucket = format!("{name}-{}", std::process::id());
    let client = reqwest::Client::new();
    let made = client.put(format!("{url}/{bucket}")).send().await.unwrap();
    assert!(made.status().is_success(), "{}", made.status());
    bucket
}

/// What lies in a bucket, as the service lists it.
pub(crate) async fn s3_keys(url: &str, bucket: &str) -> String {
    reqwest::get(format!("{url}/{bucket}?list-type=2")).await.unwrap().text().await.unwrap()
}

/// The uploads of a bucket that are neither finished nor removed.
pub(crate) async fn s3_uploads(url: &str, bucket: &str) -> usize {
    let list = reqwest::get(format!("{url}/{bucket}?uploads")).await.unwrap().text().await.unwrap();
    assert!(list.contains("ListMultipartUploadsResult"), "{list}");
    list.matches("<Upload>").count()
}
