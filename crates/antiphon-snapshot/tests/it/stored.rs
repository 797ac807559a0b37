//! What servers of the first stored format wrote is read: `golden/stored-1` holds the records of two result sets, the files
//! of a snapshot with a sorted view and statistics, and a link. `UPDATE_STORED=1` writes the samples again; do that only
//! for a new format, into a new folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use antiphon_results::{Access, CreateOptions, LinkOptions, Rows, SharedStore, Source};
use antiphon_snapshot::Snapshots;
use antiphon_store::{Memory, QueueConfig};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::served::House;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden/stored-1");

/// A moment at which nothing has expired.
fn then() -> DateTime<Utc> {
    "2026-11-17T09:00:00Z".parse().unwrap()
}

async fn house(memory: &Memory, files: &Path) -> House {
    let snapshots = Snapshots::open(&format!("file://{}", files.display())).unwrap();
    let store = SharedStore::new(memory.backend(QueueConfig::default()));
    House::with(&snapshots, |options| options.with_store(store).with_clock(then)).await
}

#[tokio::test]
async fn samples_are_written_when_asked() {
    if std::env::var_os("UPDATE_STORED").is_none() {
        return;
    }
    let folder = PathBuf::from(FOLDER);
    let files = folder.join("files");
    fs::create_dir_all(&files).unwrap();
    let memory = Memory::default();
    let house = house(&memory, &files).await;
    let saved = house.numbers(3).await;
    house.settled(&saved).await;
    assert_eq!(house.json(&format!("{saved}/stats")).await.0, 200);
    assert_eq!(house.json(&format!("{saved}/rows?sort=-id")).await.0, 200);
    let mut rows = Rows::new();
    rows.push(&json!({"id": 1})).unwrap();
    let kept = house
        .server
        .create_response(CreateOptions::new("Kept", Source::rows(rows)))
        .await
        .unwrap()
        .resource_id;
    let link = house.server.mint_link(&saved, &Access::Program, LinkOptions::default()).await.unwrap();
    let link = link.url.split_once("?link=").unwrap().1.to_owned();
    fs::write(folder.join("sets.json"), json!({"saved": saved, "kept": kept, "link": link}).to_string())
        .unwrap();
    let store = memory.backend(QueueConfig::default()).store;
    let mut lines = String::new();
    for record in store.list("", None, 100).await.unwrap().items {
        lines += &json!({"key": record.key, "value": STANDARD.encode(&record.value)}).to_string();
        lines.push('\n');
    }
    fs::write(folder.join("records.jsonl"), lines).unwrap();
    let log = format!("results/rows/{kept}");
    let entries = store.read(&log, 0, 100).await.unwrap();
    let entries: Vec<String> = entries.iter().map(|entry| STANDARD.encode(entry)).collect();
    fs::write(folder.join("log.json"), json!({"log": log, "entries": entries}).to_string()).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn stored_result_sets_of_the_first_format_are_read() {
    let folder = PathBuf::from(FOLDER);
    let files = tempfile::tempdir().unwrap();
    copy(&folder.join("files"), files.path());
    let memory = Memory::default();
    let store = memory.backend(QueueConfig::default()).store;
    for line in fs::read_to_string(folder.join("records.jsonl")).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let value = STANDARD.decode(record["value"].as_str().unwrap()).unwrap();
        store.create(record["key"].as_str().unwrap(), value.into(), None).await.unwrap();
    }
    let log: Value = serde_json::from_slice(&fs::read(folder.join("log.json")).unwrap()).unwrap();
    let entries = log["entries"].as_array().unwrap().iter();
    let entries = entries.map(|entry| STANDARD.decode(entry.as_str().unwrap()).unwrap().into()).collect();
    store.append(log["log"].as_str().unwrap(), 0, entries).await.unwrap();
    let house = house(&memory, files.path()).await;
    let sets: Value = serde_json::from_slice(&fs::read(folder.join("sets.json")).unwrap()).unwrap();
    let (saved, kept) = (sets["saved"].as_str().unwrap(), sets["kept"].as_str().unwrap());

    let (status, page) = house.json(&format!("{saved}/rows?limit=1&offset=2")).await;
    assert_eq!((status, &page["data"]), (200, &json!([{"id": 2, "name": "row 2"}])), "{page}");
    let files_before = count(files.path());
    let (status, page) = house.json(&format!("{saved}/rows?sort=-id")).await;
    assert_eq!((status, &page["data"][0]["id"]), (200, &json!(2)), "{page}");
    assert_eq!(house.json(&format!("{saved}/stats")).await.0, 200);
    assert_eq!(count(files.path()), files_before, "the view and the statistics were made again");
    let (status, page) = house.json(&format!("{kept}/rows")).await;
    assert_eq!((status, &page["data"]), (200, &json!([{"id": 1}])), "{page}");

    let link = sets["link"].as_str().unwrap();
    house.server.open_link(link).unwrap();
    assert!(house.server.open_link(&link[1..]).is_err());
}

/// How many files there are.
fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}
