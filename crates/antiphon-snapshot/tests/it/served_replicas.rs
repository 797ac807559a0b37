//! Several servers over one store, none of which wrote what it serves; and rows that are got without any of them.

use antiphon_results::{
    CreateOptions, SharedStore,
    client::{DualResponseClient, DualResponseClientError, DualResponseClientOptions, ExportOptions},
    snapshot::{ExportFormat, RetrievalMode},
};
use antiphon_snapshot::{SnapshotConfig, Snapshots};
use antiphon_store::{Backend, Memory, QueueConfig};
use futures_util::TryStreamExt as _;
use serde_json::json;

use crate::{
    ingest_support::service,
    served::{House, numbers},
};

fn space() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    bytes.iter().fold(String::from("served"), |text, byte| format!("{text}{byte:02x}"))
}

/// A bucket of its own, if there is an S3 to have it on: its endpoint, and what to open it with.
async fn bucket() -> Option<(String, String, Vec<(String, String)>)> {
    let endpoint = service("ANTIPHON_TEST_S3_URL")?;
    let bucket = space();
    let made = reqwest::Client::new().put(format!("{endpoint}/{bucket}")).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
    let options = [
        ("endpoint", endpoint.as_str()),
        ("allow_http", "true"),
        ("region", "us-east-1"),
        ("access_key_id", "test"),
        ("secret_access_key", "test"),
    ];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Some((format!("s3://{bucket}/results"), endpoint, options))
}

#[tokio::test]
async fn a_replica_serves_what_another_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("file://{}", folder.path().display());
    let memory = Memory::default();
    let replica = async || {
        let snapshots = Snapshots::open(&address).unwrap();
        let store = SharedStore::new(Backend::new(
            memory.store(),
            memory.queue(QueueConfig::default()),
            memory.bus(),
        ));
        House::with(&snapshots, |options| options.with_store(store)).await
    };
    let (writer, reader) = (replica().await, replica().await);
    let id = writer.numbers(2000).await;
    let (status, page) = reader.json(&format!("{id}/rows?offset=1999")).await;
    assert_eq!((status, &page["data"]), (200, &json!([{"id": 1999, "name": "row 1999"}])));
    assert!(reader.server.delete_resource(&id).await.unwrap());
    assert_eq!(writer.json(&format!("{id}/rows")).await.0, 404);
}

#[tokio::test]
async fn three_replicas_over_one_bucket_serve_the_same_bytes() {
    let (Some((address, _, s3)), Some(redis)) = (bucket().await, service("ANTIPHON_TEST_REDIS_URL")) else {
        return;
    };
    let name = space();
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let snapshots = Snapshots::open_with(&address, s3.clone(), SnapshotConfig::default()).unwrap();
        let backend = Backend::connect(&redis, &name, QueueConfig::default()).await.unwrap();
        replicas.push(House::with(&snapshots, |options| options.with_store(SharedStore::new(backend))).await);
    }
    let id = replicas[0].numbers(3000).await;
    let mut seen = Vec::new();
    for replica in &replicas[1..] {
        let (_, manifest) = replica.json(&format!("{id}/manifest")).await;
        let (_, page) = replica.json(&format!("{id}/rows?offset=2990")).await;
        let export = replica.get(&format!("{id}/export?format=ndjson")).send().await.unwrap();
        let tag = export.headers()["etag"].clone();
        seen.push((manifest["digest"].clone(), page, tag, export.bytes().await.unwrap()));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(seen[0].1["returned_count"], 10);
}

#[tokio::test]
async fn the_stored_file_is_got_from_the_bucket_itself() {
    let Some((address, endpoint, s3)) = bucket().await else { return };
    let snapshots = Snapshots::open_with(&address, s3, SnapshotConfig::default()).unwrap();
    let house = House::with(&snapshots, |options| options.with_retrieval(RetrievalMode::Direct)).await;
    let response = house.server.create_response(CreateOptions::new("x", numbers(3000))).await.unwrap();
    let id = &response.resource_id;
    let answer = house.get(&format!("{id}/export?format=parquet")).send().await.unwrap();
    assert_eq!(answer.status(), 307);
    let place = answer.headers()["location"].to_str().unwrap().to_owned();
    assert!(place.starts_with(&endpoint), "{place}");
    let file = reqwest::get(&place).await.unwrap().bytes().await.unwrap();
    let (_, manifest) = house.json(&format!("{id}/manifest")).await;
    assert_eq!(manifest["bytes"], file.len());
    assert_eq!(reqwest::get(manifest["url"].as_str().unwrap()).await.unwrap().bytes().await.unwrap(), file);
    assert!(manifest["url_expires_at"].is_string());
    // What is asked about, or is not the stored file, goes through the server.
    let head = house.http.head(format!("{}/{id}/export?format=parquet", house.base)).send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(house.get(&format!("{id}/export?format=csv")).send().await.unwrap().status(), 200);

    let client = |options: DualResponseClientOptions| {
        let client = DualResponseClient::new(options.with_base_url(&house.base)).unwrap();
        client.parse(&response.to_mcp_tool_result()).unwrap()
    };
    let refused = client(DualResponseClientOptions::new());
    let refused = refused.export(ExportFormat::Parquet, &ExportOptions::new()).await;
    assert!(matches!(refused, Err(DualResponseClientError::RedirectRefused { .. })), "{refused:?}");
    let allowed = client(DualResponseClientOptions::new().allow_origin(&endpoint));
    let download = allowed.export(ExportFormat::Parquet, &ExportOptions::new()).await.unwrap();
    let tag = download.tag().unwrap().to_owned();
    let got: Vec<u8> = download.map_ok(|bytes| bytes.to_vec()).try_concat().await.unwrap();
    assert!(got == file);
    let rest = allowed.export(ExportFormat::Parquet, &ExportOptions::new().resuming(100, tag)).await.unwrap();
    let rest: Vec<u8> = rest.map_ok(|bytes| bytes.to_vec()).try_concat().await.unwrap();
    assert!(rest == file[100..]);
}
