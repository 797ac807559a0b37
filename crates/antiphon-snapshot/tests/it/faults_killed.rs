//! A writer that is killed, and a disk that is full.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use antiphon_results::{
    BoxError, DualResponseError, Rows,
    snapshot::{RowSource, SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{SnapshotConfig, Snapshots};
use chrono::Utc;
use futures_util::{TryStreamExt as _, stream};

use crate::ingest_support::{id, s3_bucket, s3_keys, s3_options, s3_uploads, service};

/// What tells a process of tests that it is to write until it is killed, and where.
const ADDRESS: &str = "ANTIPHON_TEST_WRITE_UNTIL_KILLED";

/// Rows that do not compress, without end.
fn endless() -> RowSource {
    let mut state = 7_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let part = move |_| {
        let mut rows = Rows::new();
        for _ in 0..200 {
            let text = (0..64).fold(String::new(), |text, _| text + &format!("{:016x}", next()));
            rows.push_json(&format!(r#"{{"t":"{text}"}}"#)).unwrap();
        }
        Ok::<_, BoxError>(rows)
    };
    RowSource::rows(stream::iter((0..).map(part)))
}

fn config() -> SnapshotConfig {
    SnapshotConfig::default().with_chunk_rows(20_000).with_part_bytes(6 << 20)
}

/// Writes in a process of its own, which is this test once more.
fn spawn(test: &str, address: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact"])
        .env(ADDRESS, address)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until it is so.
async fn until(what: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !what().await {
        assert!(start.elapsed() < Duration::from_secs(30), "it never is");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn write(snapshots: &Snapshots) -> Result<(), DualResponseError> {
    let begun = snapshots.begin(&id("rs_killed"), endless(), SnapshotWriteOptions::default()).await?;
    begun.rest.await.map(drop)
}

/// What a killed writer left is found and removed by somebody else.
async fn found_and_removed(snapshots: &Snapshots) {
    assert!(matches!(snapshots.manifest(&id("rs_killed")).await, Err(DualResponseError::NotFound)));
    let found: Vec<_> = snapshots.ids(Utc::now() + Duration::from_mins(1)).try_collect().await.unwrap();
    assert_eq!(found, [id("rs_killed")]);
    snapshots.delete(&id("rs_killed")).await.unwrap();
    let found: Vec<_> = snapshots.ids(Utc::now() + Duration::from_mins(1)).try_collect().await.unwrap();
    assert_eq!(found, []);
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}

#[tokio::test]
async fn what_a_killed_writer_left_on_disk_is_found_and_removed() {
    if let Ok(address) = std::env::var(ADDRESS) {
        write(&Snapshots::open_with(&address, [], config()).unwrap()).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file://{}", folder.path().display());
    let test = "faults_killed::what_a_killed_writer_left_on_disk_is_found_and_removed";
    let mut child = spawn(test, &address);
    // What is not whole yet lies beside where it will be.
    let staged = || {
        let mut files = std::fs::read_dir(folder.path().join("all/rs_killed")).ok()?.flatten();
        files.find(|file| file.file_name().to_string_lossy().contains(".parquet#"))
    };
    until(async || staged().is_some_and(|file| file.metadata().is_ok_and(|staged| staged.len() > 0))).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(staged().is_some());
    found_and_removed(&Snapshots::open(&address).unwrap()).await;
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(feature = "aws")]
#[tokio::test]
async fn what_a_killed_writer_left_on_s3_is_found_and_removed() {
    let Some(url) = service("ANTIPHON_TEST_S3_URL") else { return };
    let open = |address: &str| Snapshots::open_with(address, s3_options(&url), config()).unwrap();
    if let Ok(address) = std::env::var(ADDRESS) {
        write(&open(&address)).await.unwrap();
    }
    let bucket = s3_bucket(&url, "killed").await;
    let address = format!("s3://{bucket}/snapshots");
    let test = "faults_killed::what_a_killed_writer_left_on_s3_is_found_and_removed";
    let mut child = spawn(test, &address);
    let snapshots = open(&address);
    // The upload is begun before its id is noted, and only what is noted can be removed.
    until(async || s3_keys(&url, &bucket).await.contains(".parquet.upload<")).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(s3_uploads(&url, &bucket).await, 1);
    found_and_removed(&snapshots).await;
    assert_eq!(s3_uploads(&url, &bucket).await, 0);
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path()) else { return };
    let snapshots =
        Snapshots::open_with(&format!("file://{}", folder.path().display()), [], config()).unwrap();
    let error = write(&snapshots).await.unwrap_err();
    assert!(matches!(error, DualResponseError::Snapshot(_)), "{error:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // There is room again.
    let few = RowSource::rows(stream::iter([Rows::from_json_array(r#"[{"a":1}]"#).map_err(Into::into)]));
    let begun = snapshots.begin(&id("rs_few"), few, SnapshotWriteOptions::default()).await.unwrap();
    assert_eq!(begun.rest.await.unwrap().rows, 1);
}

/// A disk of four mebibytes. Only root may have one.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    fn mount(folder: &'a Path) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "antiphon-test"])
            .arg(folder)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped: this process may not mount a small disk");
        None
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}
