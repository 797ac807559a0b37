//! What servers of the first stored format wrote is read: `golden/stored-1` holds the records, logs and jobs that the example
//! `deployed` left in its store, byte for byte. Every backend stores the same bytes.

use antiphon::{
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{RunSummary, TaskConfig, TaskStatus},
};
use antiphon_store::{Backend, Memory, NewJob, QueueConfig};
use base64::Engine as _;
use serde_json::Value;

const RECORDS: &str = include_str!("golden/stored-1/records.jsonl");
const LOGS: &str = include_str!("golden/stored-1/logs.jsonl");
const JOBS: &str = include_str!("golden/stored-1/jobs.jsonl");

fn samples(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn bytes(sample: &Value, field: &str) -> bytes::Bytes {
    base64::engine::general_purpose::STANDARD.decode(sample[field].as_str().unwrap()).unwrap().into()
}

/// A store as it was left.
async fn left() -> Backend {
    let backend = Memory::default().backend(QueueConfig::default());
    for record in samples(RECORDS) {
        backend.store.create(record["key"].as_str().unwrap(), bytes(&record, "value"), None).await.unwrap();
    }
    for entry in samples(LOGS) {
        let at = entry["number"].as_u64().unwrap();
        backend.store.append(entry["log"].as_str().unwrap(), at, vec![bytes(&entry, "entry")]).await.unwrap();
    }
    for job in samples(JOBS) {
        let new = NewJob::new(job["id"].as_str().unwrap(), bytes(&job, "payload"));
        backend.queue.push(job["queue"].as_str().unwrap(), new).await.unwrap();
    }
    backend
}

fn server(backend: Backend, workers: usize) -> Server {
    let seal = SealConfig::default().with_keys(KeyRing::new(1, [0xaa; 32]));
    let tasks = TaskConfig::default().with_workers(workers);
    let builder = Server::builder("onboarding", "1.0.0").with_backend(backend).with_seal(seal);
    builder.with_tasks(tasks).build().unwrap()
}

#[tokio::test]
async fn stored_tasks_of_the_first_format_are_read() {
    let server = server(left().await, 0);
    let runs = server.runs().unwrap().list(None, None, 100).await.unwrap().runs;
    let status = |id: &str| {
        let named = |run: &&RunSummary| run.run.starts_with("anyone/") && run.run.contains(id);
        runs.iter().find(named).map(|run| run.status)
    };
    assert_eq!(status("795cf64c890bcc25"), Some(TaskStatus::Working), "{runs:?}");
    assert_eq!(status("9cbb5f559861d056"), Some(TaskStatus::InputRequired), "{runs:?}");
    assert_eq!(status("3204d04ae1bf272b"), Some(TaskStatus::Completed), "{runs:?}");
    for run in &runs {
        assert!(server.runs().unwrap().inspect(&run.run).await.unwrap().is_some(), "{run:?}");
    }
}

/// A record above 256 KiB is stored in pieces: its own value names them.
#[tokio::test]
async fn stored_task_in_pieces_is_read() {
    let backend = Memory::default().backend(QueueConfig::default());
    let whole =
        samples(RECORDS).find(|it| it["key"] == "tasks/anyone/3204d04ae1bf272ba0c6648af6d2fadb").unwrap();
    let value = bytes(&whole, "value");
    // Every value begins with the number of its write, then says whether it is whole (0) or in pieces (1).
    let (number, sealed) = (value.slice(..16), value.slice(17..));
    let named = [&number, &[1][..], br#"{"name":"f00d","count":2}"#].concat();
    backend.store.create(whole["key"].as_str().unwrap(), named.into(), None).await.unwrap();
    let half = sealed.len() / 2;
    for (at, piece) in [sealed.slice(..half), sealed.slice(half..)].into_iter().enumerate() {
        let piece = [&number[..], &piece[..]].concat();
        backend.store.create(&format!("pieces/f00d/{at}"), piece.into(), None).await.unwrap();
    }
    let server = server(backend, 0);
    let runs = server.runs().unwrap().list(None, None, 100).await.unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [TaskStatus::Completed]);
}

#[cfg(feature = "http")]
#[tokio::test]
async fn stored_session_of_the_first_format_is_known() {
    use antiphon::http::HttpConfig;
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    let app = server(left().await, 0).router(HttpConfig::default());
    for (session, status) in [("26mmh8hiqvqnw9r2g2swdzs35rb24xvkutnn53gp", 200), ("another", 404)] {
        let request = Request::builder()
            .method("POST")
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .header("mcp-session-id", session)
            .body(Body::from(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
            .unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{session}");
    }
}
