//! `antiphon results export` from a server that writes files, and that fails on purpose.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{ground::Folder, support};

type Asked = std::collections::HashMap<String, String>;

/// What a server does with the next request for an export, before it is well again.
#[derive(Clone)]
enum Fault {
    /// Sends so many bytes and breaks off.
    Cut(usize),
    /// Sends so many bytes and then nothing more.
    Hang(usize),
    /// Is not ready yet.
    NotReady,
    /// Answers with this status.
    Status(StatusCode),
    /// Sends all of something else, whatever part was asked for.
    Changed,
    /// Knows no parts: sends all of the same.
    Whole,
    /// Sends to this address.
    Elsewhere(String),
}

/// A server with one set, whose exports have these faults, one after the other.
#[derive(Clone)]
struct Faulty {
    faults: Arc<Mutex<Vec<Fault>>>,
    /// Which parts were asked for, and on which condition.
    asked: mpsc::UnboundedSender<(Asked, HeaderMap)>,
}

const ROWS: u64 = 40_000;

fn lines() -> Bytes {
    let lines: Vec<String> =
        (0..ROWS).map(|id| format!("{{\"id\":{id},\"name\":\"School {id}\"}}\n")).collect();
    lines.concat().into()
}

async fn manifest() -> Json<Value> {
    Json(json!({
        "id": "rs_1", "status": "ready", "rows": ROWS, "exact": true,
        "columns": [{"name": "id", "type": "integer"}, {"name": "name", "type": "string"}],
        "formats": ["ndjson", "csv", "parquet"],
    }))
}

async fn export(State(faulty): State<Faulty>, Query(asked): Query<Asked>, headers: HeaderMap) -> Response {
    let _ = faulty.asked.send((asked, headers.clone()));
    let fault = {
        let mut faults = faulty.faults.lock().unwrap();
        (!faults.is_empty()).then(|| faults.remove(0))
    };
    let (all, tag) = match fault {
        Some(Fault::Changed) => (Bytes::from_static(b"{\"id\":1}\n"), "\"other\""),
        _ => (lines(), "\"same\""),
    };
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let holds = headers.get(header::IF_RANGE).is_some_and(|condition| condition == tag);
    let start: usize = match (&fault, range) {
        (Some(Fault::Whole | Fault::Changed), _) | (_, None) => 0,
        (_, Some(range)) if holds => range["bytes=".len()..].trim_end_matches('-').parse().unwrap(),
        _ => 0,
    };
    let rest = all.slice(start..);
    let cut = |bytes: usize| rest.slice(..bytes.min(rest.len()));
    let body = match fault {
        Some(Fault::NotReady) => {
            let body = Json(json!({"error": "not_ready", "message": "later", "code": "RESOURCE_NOT_READY"}));
            return (StatusCode::ACCEPTED, [(header::RETRY_AFTER, "0")], body).into_response();
        }
        Some(Fault::Status(status)) => return status.into_response(),
        Some(Fault::Elsewhere(place)) => {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response();
        }
        Some(Fault::Cut(bytes)) => {
            // The connection ends a moment after the bytes: both at once, and they might never be sent.
            let end = futures_util::stream::once(async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(io::Error::other("cut"))
            });
            Body::from_stream(futures_util::stream::iter([Ok(cut(bytes))]).chain(end))
        }
        Some(Fault::Hang(bytes)) => Body::from_stream(
            futures_util::stream::iter([Ok::<_, io::Error>(cut(bytes))])
                .chain(futures_util::stream::pending()),
        ),
        _ => Body::from(rest.clone()),
    };
    let status = if start > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let part = format!("bytes {start}-{}/{}", all.len() - 1, all.len());
    let mut answer = (status, [(header::ETAG, tag)], body).into_response();
    if start > 0 {
        answer.headers_mut().insert(header::CONTENT_RANGE, part.parse().unwrap());
    }
    answer.headers_mut().insert(header::CONTENT_LENGTH, rest.len().into());
    answer
}

/// Serves a set with these faults. Says where it is, and what it was asked for.
async fn serve(faults: &[Fault]) -> (String, mpsc::UnboundedReceiver<(Asked, HeaderMap)>) {
    let (tx, rx) = mpsc::unbounded_channel();
    let faulty = Faulty { faults: Arc::new(Mutex::new(faults.to_vec())), asked: tx };
    let router = Router::new()
        .route("/r/rs_1/manifest", get(manifest))
        .route("/r/rs_1/export", get(export))
        .with_state(faulty);
    (support::serve_router(router).await + "/r/rs_1", rx)
}

fn ranges(rx: &mut mpsc::UnboundedReceiver<(Asked, HeaderMap)>) -> Vec<String> {
    let range = |headers: &HeaderMap| {
        headers.get(header::RANGE).map_or("all", |range| range.to_str().unwrap()).to_owned()
    };
    std::iter::from_fn(|| rx.try_recv().ok()).map(|(_, headers)| range(&headers)).collect()
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(folder: &Folder, file: &str) -> Vec<u8> {
    std::fs::read(folder.path().join(file)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_that_breaks_is_gone_on_with_where_it_was() {
    let folder = Folder::new();
    let faults =
        [Fault::NotReady, Fault::Cut(100_000), Fault::Status(StatusCode::SERVICE_UNAVAILABLE), Fault::Cut(5)];
    let (url, mut asked) = serve(&faults).await;
    let ended = folder.run(&["results", "export", &url, "-o", "all.ndjson"]).await;
    assert_eq!((ended.code, &*ended.err), (Some(0), "40,000 rows are in all.ndjson\n"));
    assert!(read(&folder, "all.ndjson") == lines(), "not the same bytes");
    assert_eq!(ranges(&mut asked), ["all", "all", "bytes=100000-", "bytes=100000-", "bytes=100005-"]);
    assert_eq!(names(&folder), ["all.ndjson"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_export_is_the_same_on_standard_output_and_as_an_array() {
    let folder = Folder::new();
    let (url, _asked) = serve(&[Fault::Cut(333_333), Fault::Whole]).await;
    let piped = folder.run(&["results", "export", &url, "-o", "-"]).await;
    assert_eq!(piped.code, Some(0), "{}", piped.err);
    assert!(piped.out.as_bytes() == lines(), "not the same bytes");
    let (url, _asked) = serve(&[Fault::Cut(77_777)]).await;
    let array = folder.run(&["results", "export", &url, "-o", "all.json"]).await;
    assert_eq!(array.err, "40,000 rows are in all.json\n");
    let rows: Vec<Value> = serde_json::from_slice(&read(&folder, "all.json")).unwrap();
    assert_eq!((rows.len(), &rows[39_999]["name"]), (40_000, &json!("School 39999")));
    let (url, _asked) = serve(&[Fault::Cut(333_333), Fault::Changed]).await;
    let mixed = folder.run(&["results", "export", &url]).await;
    assert!(mixed.code == Some(1) && mixed.err.contains("has changed; export again"), "{}", mixed.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_interrupted_is_resumed_and_nothing_comes_twice() {
    let folder = Folder::new();
    let (url, mut asked) = serve(&[Fault::Hang(200_000)]).await;
    let mut child = support::command(&folder);
    child.args(["results", "export", &format!("{url}?link=secret"), "-o", "all.ndjson"]);
    let child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
    asked.recv().await.unwrap();
    let part = folder.path().join("all.ndjson.part");
    let id = child.id().unwrap().to_string();
    while !std::fs::metadata(&part).is_ok_and(|part| part.len() > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::process::Command::new("kill").args(["-INT", &id]).status().await.unwrap();
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("--resume"), "{ended:?}");
    let came = std::fs::metadata(&part).unwrap().len();
    assert!((1..=200_000).contains(&came), "{came}");
    let note = String::from_utf8(read(&folder, "all.ndjson.part.json")).unwrap();
    assert!(note.contains("\\\"same\\\"") && !note.contains("secret"), "{note}");

    let other =
        folder.run(&["results", "export", &url, "-o", "all.ndjson", "--resume", "--sort", "id"]).await;
    assert!(other.code == Some(2) && other.err.contains("part of another export"), "{other:?}");
    let resumed = folder.run(&["results", "export", &url, "-o", "all.ndjson", "--resume"]).await;
    assert_eq!((resumed.code, &*resumed.err), (Some(0), "40,000 rows are in all.ndjson\n"));
    assert!(read(&folder, "all.ndjson") == lines(), "not the same bytes");
    assert_eq!(ranges(&mut asked), [format!("bytes={came}-")]);
    assert_eq!(names(&folder), ["all.ndjson"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn part_of_something_else_is_not_gone_on_with() {
    let folder = Folder::new();
    let (url, mut asked) = serve(&[Fault::Changed]).await;
    folder.write("all.ndjson.part", "{\"id\":0,\"name\"");
    let note = json!({"set": url, "request": "format=ndjson", "etag": "\"old\"", "total": 9_999});
    folder.write("all.ndjson.part.json", &note.to_string());
    let resumed = folder.run(&["results", "export", &url, "-o", "all.ndjson", "--resume"]).await;
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert!(resumed.err.contains("starts again"), "{resumed:?}");
    assert_eq!(read(&folder, "all.ndjson"), b"{\"id\":1}\n");
    assert_eq!(ranges(&mut asked), ["bytes=14-"]);
    // Without anything to go on with, it begins.
    let fresh = folder.run(&["results", "export", &url, "-o", "new.ndjson", "--resume"]).await;
    assert_eq!(fresh.code, Some(0), "{fresh:?}");
    assert_eq!(names(&folder), ["all.ndjson", "new.ndjson"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_breaks_again_and_again_leaves_a_part_and_no_file() {
    let folder = Folder::new();
    let broken = Fault::Status(StatusCode::SERVICE_UNAVAILABLE);
    let faults = [&[Fault::Cut(1_000)][..], &vec![broken; 5]].concat();
    let (url, _asked) = serve(&faults).await;
    let ended = folder.run(&["results", "export", &url, "-o", "all.ndjson"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("503") && ended.err.contains("--resume"), "{ended:?}");
    assert_eq!(names(&folder), ["all.ndjson.part", "all.ndjson.part.json"]);
    // What is refused at once leaves nothing.
    let (url, _asked) = serve(&[Fault::Status(StatusCode::BAD_GATEWAY)]).await;
    let refused = folder.run(&["results", "export", &url, "-o", "none.csv"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(names(&folder), ["all.ndjson.part", "all.ndjson.part.json"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_kept_elsewhere_is_fetched_with_leave_and_without_our_token() {
    let folder = Folder::new();
    let (elsewhere, mut stored) = serve(&[Fault::Cut(50_000)]).await;
    let place = format!("{elsewhere}/export?signed=1");
    let again = Fault::Elsewhere(place);
    let (url, _asked) = serve(&[again.clone(), again.clone(), again]).await;
    let arguments = ["results", "export", &url, "-o", "all.parquet", "--token", "secret"];
    let refused = folder.run(&arguments).await;
    let origin = elsewhere.strip_suffix("/r/rs_1").unwrap();
    assert!(
        refused.code == Some(2) && refused.err.contains(&format!("add `--origin {origin}`")),
        "{refused:?}"
    );
    assert!(stored.try_recv().is_err(), "it was gone to");
    let fetched = folder.run(&[&arguments[..], &["--origin", origin]].concat()).await;
    assert_eq!((fetched.code, &*fetched.err), (Some(0), "40,000 rows are in all.parquet\n"));
    assert!(read(&folder, "all.parquet") == lines(), "not the same bytes");
    let seen: Vec<_> = std::iter::from_fn(|| stored.try_recv().ok()).collect();
    assert_eq!(seen.len(), 2);
    for (asked, headers) in seen {
        assert_eq!(asked["signed"], "1");
        assert!(!headers.contains_key(header::AUTHORIZATION), "our token went elsewhere");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wanted_is_said_as_the_server_understands_it() {
    let folder = Folder::new();
    let (url, mut asked) = serve(&[]).await;
    let wanted =
        ["--filter", "name~bern", "--filter", "id in (1,2)", "--sort", "-id,name", "--columns", "name,id"];
    let arguments = [&["results", "export", &url, "-o", "some.csv"][..], &wanted].concat();
    assert_eq!(folder.run(&arguments).await.code, Some(0));
    let (query, _) = asked.recv().await.unwrap();
    assert_eq!((&*query["format"], &*query["sort"], &*query["columns"]), ("csv", "-id,name", "name,id"));
    assert_eq!(
        serde_json::from_str::<Value>(&query["filter"]).unwrap(),
        json!([{"column": "name", "op": "contains", "value": "bern"}, {"column": "id", "op": "in", "value": [1, 2]}])
    );
    for (arguments, part) in [
        (&["--format", "xlsx"][..], "cannot write xlsx; use one of ndjson, csv, parquet"),
        (&["--columns", "zebra"], "column `zebra` does not exist; the columns are id, name"),
        (&["--filter", "id=many"], "column `id` has numbers, and `many` is not a number"),
        (&["--filter", "id"], "is not null"),
        (&["--sort", "a,b,c,d,e"], "by 4 columns"),
        (&["--resume"], "--output"),
        (&["--resume", "-o", "x.json"], "--format ndjson"),
    ] {
        let wrong = folder.run(&[&["results", "export", &url], arguments].concat()).await;
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
        assert!(wrong.err.contains(part), "{wrong:?}");
    }
}
