//! Snapshots on S3.

use std::{sync::Arc, time::Duration};

use antiphon_results::snapshot::{SnapshotStore as _, SnapshotWriteOptions};
use antiphon_snapshot::{
    SnapshotConfig, Snapshots,
    object_store::aws::{AmazonS3, AmazonS3Builder},
};
use futures_util::{StreamExt as _, stream};

use crate::{
    faults::{small, whole_or_not_at_all},
    ingest_support::{id, read, row_source, s3_bucket, s3_options, s3_uploads, service, write},
};

const URL: &str = "ANTIPHON_TEST_S3_URL";

pub(crate) fn store(url: &str, bucket: &str) -> AmazonS3 {
    let builder = AmazonS3Builder::new().with_bucket_name(bucket);
    s3_options(url)
        .into_iter()
        .fold(builder, |builder, (key, value)| builder.with_config(key.parse().unwrap(), value))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_snapshot_on_s3_is_read_by_who_did_not_write_it_and_at_a_signed_address() {
    let Some(url) = service(URL) else { return };
    let bucket = s3_bucket(&url, "round").await;
    let open = || {
        let address = format!("s3://{bucket}/a/b");
        Snapshots::open_with(&address, s3_options(&url), SnapshotConfig::default()).unwrap()
    };
    let rows = (0..20_000).map(|number| format!(r#"{{"n":{number},"t":"text {number}"}}"#));
    let written = write(&open(), "rs_round", row_source(rows)).await;
    let other = open();
    assert_eq!(other.manifest(&id("rs_round")).await.unwrap().digest, written.digest);
    assert_eq!(read(&other, "rs_round").await.len(), 20_000);
    let address = other.sign(&id("rs_round"), Duration::from_mins(1)).await.unwrap().unwrap();
    let bytes = reqwest::get(address).await.unwrap().error_for_status().unwrap().bytes().await.unwrap();
    assert_eq!(bytes.len() as u64, written.bytes);
    assert!(bytes.starts_with(b"PAR1"));
    assert!(other.sign(&id("rs_other"), Duration::from_mins(1)).await.is_err());
    let again = other.begin(&id("rs_round"), row_source(["{}"]), SnapshotWriteOptions::default()).await;
    assert!(again.is_err());
    let found: Vec<_> = other.ids(chrono::Utc::now() + Duration::from_mins(1)).collect().await;
    assert_eq!(found.len(), 1);
    other.delete(&id("rs_round")).await.unwrap();
    assert_eq!(other.usage(None).await.unwrap(), 0);
}

#[tokio::test]
async fn a_large_snapshot_goes_to_s3_in_parts_and_none_is_left() {
    let Some(url) = service(URL) else { return };
    let bucket = s3_bucket(&url, "parts").await;
    let config = SnapshotConfig::default().with_part_bytes(5 << 20).with_chunk_rows(8192);
    let snapshots = Snapshots::open_with(&format!("s3://{bucket}"), s3_options(&url), config).unwrap();
    let text = |number: u64| {
        let mut state = number | 1 << 40;
        let text = (0..32).fold(String::new(), |text, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text + &format!("{state:016x}")
        });
        format!(r#"{{"n":{number},"t":"{text}"}}"#)
    };
    let written = write(&snapshots, "rs_parts", row_source((0..40_000).map(text))).await;
    assert!(written.bytes > 2 * (5 << 20), "{}", written.bytes);
    assert_eq!(s3_uploads(&url, &bucket).await, 0);
    let page = antiphon_results::snapshot::SnapshotPage::new(39_999, 1);
    let rows = snapshots.page(&id("rs_parts"), &page).await.unwrap();
    assert_eq!(rows.get(0).unwrap(), text(39_999));
    snapshots.delete(&id("rs_parts")).await.unwrap();
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_that_fails_one_call_in_ten_gives_all_rows_or_none() {
    let Some(url) = service(URL) else { return };
    let bucket = s3_bucket(&url, "flaky").await;
    let store = Arc::new(store(&url, &bucket));
    // S3 takes no small parts.
    let config = small().with_part_bytes(5 << 20);
    let run = |seed| whole_or_not_at_all(Arc::clone(&store), seed, 10, config.clone());
    let outcomes: Vec<bool> = stream::iter(0..200).map(run).buffer_unordered(16).collect().await;
    assert!(outcomes.iter().filter(|well| **well).count() > 150, "so few failures are gone through");
    assert_eq!(s3_uploads(&url, &bucket).await, 0);
}
