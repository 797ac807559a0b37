use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// How many rows the set has.
pub(super) const ROWS: u64 = 847;

/// A server as the specification has it, with one set of 847 rows.
#[derive(Clone, Default)]
pub(super) struct Server {
    /// Whether it can send all rows in one answer.
    pub(super) ndjson: bool,
    /// Whether the limit counts for such an answer too.
    pub(super) ndjson_limited: bool,
    /// Whether the numbers of a page are in `pagination`.
    pub(super) nested: bool,
    /// The most rows a page has.
    pub(super) most: Option<u64>,
    /// What every page claims, whatever it has.
    pub(super) claims: Value,
    pub(super) seen: Arc<Mutex<Vec<(Method, HeaderMap, Value)>>>,
    pub(super) rows_sent: Arc<AtomicU64>,
    pub(super) deleted: Arc<AtomicBool>,
}

impl Server {
    /// Serves, and returns the base URL.
    pub(super) async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/resources", listener.local_addr().unwrap());
        let router = Router::new().route("/resources/{id}", any(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        base
    }

    pub(super) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The bodies of requests for rows.
    pub(super) fn asked(&self) -> Vec<Value> {
        self.seen.lock().unwrap().iter().map(|(_, _, body)| body.clone()).collect()
    }

    fn page(&self, asked: &Value) -> Response {
        let offset = asked["offset"].as_u64().unwrap_or(0);
        let limit = asked["limit"].as_u64().unwrap_or(100).min(self.most.unwrap_or(u64::MAX));
        let end = offset.saturating_add(limit).min(ROWS);
        let mut data: Vec<Value> = (offset..end).map(row).collect();
        if asked["sort"]["order"] == "desc" {
            data = (offset..end).map(|at| row(ROWS - 1 - at)).collect();
        }
        let has_next = end < ROWS;
        let next = has_next.then_some(end);
        let mut page = if self.nested {
            json!({"data": data, "pagination": {"total": ROWS, "skip": offset, "has_next": has_next}})
        } else {
            json!({
                "data": data, "total_count": ROWS, "returned_count": data.len(), "offset": offset,
                "has_next": has_next, "next_offset": next,
            })
        };
        for (name, value) in self.claims.as_object().into_iter().flatten() {
            page[name] = value.clone();
        }
        Json(page).into_response()
    }

    fn lines(&self, asked: &Value) -> Response {
        let offset = asked["offset"].as_u64().unwrap();
        let limit = if self.ndjson_limited { asked["limit"].as_u64().unwrap_or(100) } else { u64::MAX };
        let end = offset.saturating_add(limit).min(ROWS);
        let sent = Arc::clone(&self.rows_sent);
        let rows = stream::iter(offset..end).map(move |at| {
            sent.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from(format!("{}\n", row(at))))
        });
        ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(rows)).into_response()
    }
}

pub(super) fn row(at: u64) -> Value {
    json!({"id": at, "name": format!("row {at}")})
}

async fn answer(
    State(server): State<Server>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    server.seen.lock().unwrap().push((method.clone(), headers.clone(), asked.clone()));
    if id != "abc123" || server.deleted.load(Ordering::SeqCst) {
        let gone = json!({"error": "not_found", "message": "Resource not found or expired"});
        return (StatusCode::NOT_FOUND, Json(gone)).into_response();
    }
    match method.as_str() {
        "GET" => Json(json!({
            "status": "ready", "total_count": ROWS, "columns": [{"name": "id", "type": "number"}],
            "created_at": "2025-01-15T10:30:00Z", "expires_at": "2025-01-15T11:00:00Z", "access_count": 3,
        }))
        .into_response(),
        "POST" => {
            let accept = headers.get(header::ACCEPT).unwrap().to_str().unwrap();
            if server.ndjson && accept.contains("x-ndjson") {
                server.lines(&asked)
            } else {
                server.page(&asked)
            }
        }
        "PUT" if asked["pinned"] == false => {
            Json(json!({"status": "ready", "expires_at": "2025-01-15T12:00:00Z"})).into_response()
        }
        "PUT" if asked["expires_in"].is_u64() => {
            Json(json!({"status": "ready", "expires_at": "2025-01-15T13:00:00Z"})).into_response()
        }
        "PUT" => Json(json!({"status": "pinned", "expires_at": null})).into_response(),
        "DELETE" => {
            server.deleted.store(true, Ordering::SeqCst);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

/// What a server does that answers with bytes and not with sense.
#[derive(Clone)]
pub(super) enum Then {
    Close,
    /// Keeps the connection, and is silent.
    Wait,
}

/// A server that answers every request with these bytes.
pub(super) async fn raw(answer: impl Into<Vec<u8>>, then: Then) -> String {
    let answer = Arc::new(answer.into());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/resources/abc123", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (answer, then) = (Arc::clone(&answer), then.clone());
            tokio::spawn(async move {
                // Requests here are short: what comes first is all of it.
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(&answer).await;
                if matches!(then, Then::Wait) {
                    std::future::pending::<()>().await;
                }
                let _ = socket.shutdown().await;
                while socket.read(&mut request).await.is_ok_and(|read| read > 0) {}
            });
        }
    });
    url
}

/// An answer with this head and body.
pub(super) fn head(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n{body}")
}

/// An answer with JSON.
pub(super) fn json_answer(status: &str, body: &str) -> String {
    head(status, &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()), body)
}

/// An answer in chunks, each of which is given; the last one ends it only if it is empty.
pub(super) fn chunked(kind: &str, chunks: &[&str]) -> String {
    let chunks: Vec<_> = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
    head("200 OK", &format!("content-type: {kind}\r\ntransfer-encoding: chunked\r\n"), &chunks.concat())
}
