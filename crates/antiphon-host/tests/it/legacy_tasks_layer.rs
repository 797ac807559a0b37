//! What a server of 2025-11-25 says of tasks, which the SDK drops, reaches the host.

use antiphon_host::{Connection, Endpoint, Host, Lifecycle};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// What a server written by hand answers.
fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
            "serverInfo": {"name": "tasks", "version": "1"},
        }),
        "tools/list" => json!({"tools": [
            {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
        ]}),
        _ => {
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "what?"}}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

async fn connect(endpoint: impl Into<Endpoint>) -> Connection {
    Host::builder("h", "1").with_lifecycle(Lifecycle::Legacy).build().connect(endpoint).await.unwrap()
}

async fn check(connection: &Connection) {
    let capabilities = connection.server().await.capabilities;
    assert_eq!(
        capabilities["experimental"]["antiphon/tasks"],
        json!({"requests": {"tools": {"call": {}}}}),
        "{capabilities}"
    );
    let tools = connection.tools().await.unwrap();
    assert_eq!(json!(tools[0].meta), json!({"antiphon/execution": {"taskSupport": "required"}}));
}

#[tokio::test]
async fn it_is_heard_over_a_stream() {
    let endpoint = Endpoint::stream("tasks", || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(far);
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(answer) = answer(&serde_json::from_str(&line).unwrap()) {
                    writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
                }
            }
        });
        std::future::ready(Ok::<_, std::io::Error>(near))
    });
    check(&connect(endpoint).await).await;
}

#[cfg(all(feature = "process", unix))]
#[tokio::test]
async fn it_is_heard_from_a_child() {
    let line = |method: &str, id: u32| answer(&json!({"id": id, "method": method})).unwrap().to_string();
    // It reads `initialize`, its end, `tools/list`, and answers by hand; ids count from 0.
    let script = format!(
        "read x; echo '{}'; read x; read x; echo '{}'; read x",
        line("initialize", 0),
        line("tools/list", 1)
    );
    check(&connect(Endpoint::command("sh", ["-c", &script])).await).await;
}

#[cfg(feature = "http")]
mod web {
    use std::sync::{Arc, Mutex};

    use antiphon_host::HttpEndpoint;
    use axum::{
        Json, Router,
        http::{HeaderMap, StatusCode, header},
        response::{IntoResponse as _, Response},
        routing::post,
    };

    use super::*;

    type Asked = Arc<Mutex<Vec<(String, HeaderMap)>>>;

    /// Serves over HTTP, by events or by plain JSON, and keeps what was asked.
    async fn serve(events: bool, asked: Asked) -> String {
        let answering = move |headers: HeaderMap, Json(message): Json<Value>| {
            let asked = Arc::clone(&asked);
            async move {
                asked
                    .lock()
                    .unwrap()
                    .push((message["method"].as_str().unwrap_or_default().to_owned(), headers));
                respond(events, &message)
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let app = Router::new().route("/mcp", post(answering));
        tokio::spawn(async move { axum::serve(listener, app).await });
        url
    }

    fn respond(events: bool, message: &Value) -> Response {
        let session = [("mcp-session-id", "s")];
        match answer(message) {
            None => StatusCode::ACCEPTED.into_response(),
            Some(answer) if events => {
                let kind = [(header::CONTENT_TYPE, "text/event-stream")];
                (session, kind, format!(": hello\n\nid: 1\ndata: {answer}\n\n")).into_response()
            }
            Some(answer) => (session, Json(answer)).into_response(),
        }
    }

    #[tokio::test]
    async fn it_is_heard_over_http() {
        for events in [true, false] {
            let asked = Asked::default();
            let endpoint = HttpEndpoint::new(serve(events, Arc::clone(&asked)).await)
                .with_bearer("t0k3n")
                .with_header("x-api-key", "k");
            check(&connect(endpoint).await).await;
            let asked = asked.lock().unwrap();
            let count = |name: &str| asked.iter().filter(|(method, _)| method == name).count();
            assert_eq!((count("initialize"), count("tools/list")), (1, 1), "events: {events}");
            for (method, headers) in asked.iter() {
                assert_eq!(headers["authorization"], "Bearer t0k3n", "{method}");
                assert_eq!(headers["x-api-key"], "k", "{method}");
                assert_eq!(headers["content-type"], "application/json", "{method}");
            }
            let list = asked.iter().find(|(method, _)| method == "tools/list").unwrap();
            assert_eq!(list.1["mcp-session-id"], "s");
            assert_eq!(list.1["mcp-protocol-version"], "2025-11-25");
        }
    }
}
