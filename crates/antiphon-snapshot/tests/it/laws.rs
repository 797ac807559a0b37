//! The laws of a snapshot store, on every object store that runs here.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use antiphon_results::snapshot::SnapshotStore;
use antiphon_snapshot::{SnapshotConfig, Snapshots};

/// Small chunks and pages, so that a thousand rows have several.
fn config() -> SnapshotConfig {
    SnapshotConfig::default().with_chunk_rows(1_000).with_page_rows(128)
}

mod memory {
    use super::*;

    /// What is in memory is shared by handles and by nothing else.
    static SPACES: LazyLock<Mutex<HashMap<String, Snapshots>>> = LazyLock::new(Mutex::default);

    async fn open(space: String) -> Option<Arc<dyn SnapshotStore>> {
        let mut spaces = SPACES.lock().unwrap();
        let snapshots =
            spaces.entry(space).or_insert_with(|| Snapshots::open_with("memory:", [], config()).unwrap());
        Some(Arc::new(snapshots.clone()))
    }

    antiphon_results::snapshot_store_laws!(open);
}

mod file {
    use super::*;

    async fn open(space: String) -> Option<Arc<dyn SnapshotStore>> {
        // A law may open a space more than once, and none knows when it is the last time.
        let address = format!("file://{}/laws/{space}", env!("CARGO_TARGET_TMPDIR"));
        Some(Arc::new(Snapshots::open_with(&address, [], config()).unwrap()))
    }

    antiphon_results::snapshot_store_laws!(open);
}

/// A server that speaks S3, at the address in `ANTIPHON_TEST_S3_URL`.
#[cfg(feature = "aws")]
mod s3 {
    use antiphon_store::conformance::service;

    use super::*;

    const BUCKET: &str = "antiphon-laws";

    async fn open(space: String) -> Option<Arc<dyn SnapshotStore>> {
        let endpoint = service("ANTIPHON_TEST_S3_URL")?;
        // Whoever is second finds that the bucket is there, which is as good.
        let made = reqwest::Client::new().put(format!("{endpoint}/{BUCKET}")).send().await;
        made.expect("the test server takes connections");
        let options = [
            ("aws_endpoint", endpoint.as_str()),
            ("aws_allow_http", "true"),
            ("aws_region", "us-east-1"),
            ("aws_access_key_id", "test"),
            ("aws_secret_access_key", "test"),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(Arc::new(Snapshots::open_with(&format!("s3://{BUCKET}/{space}"), options, config()).unwrap()))
    }

    antiphon_results::snapshot_store_laws!(open);
}
