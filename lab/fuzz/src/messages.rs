//! JSON-RPC, as each transport takes it in.

use std::sync::OnceLock;

use antiphon::{http::HttpConfig, prelude::*};
use antiphon_transport::{fuzzing::judge, legacy_tasks};
use axum::{Router, body::Body, http::Request};
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tower::ServiceExt as _;

use crate::run;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

async fn echo(_: &Ctx, Text { text }: Text) -> Result<String> {
    Ok(text)
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Text>("Text?").await?.accepted()?.text)
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let tools = [Tool::new("echo", "Echoes", echo), Tool::new("ask", "Asks", ask)];
        Server::builder("fuzz", "1.0.0").tools(tools).build().expect("it is a server")
    })
}

/// The first byte says how the rest comes in: over WebSocket or HTTP+SSE, past the layer that revises, over a pipe,
/// over streamable HTTP.
pub fn messages(data: &[u8]) {
    let Some((way, bytes)) = data.split_first() else { return };
    match way % 5 {
        0 => judge(bytes),
        1 => revised(bytes),
        2 => run(over_a_pipe(bytes)),
        3 => run(over_http(bytes, "2025-11-25")),
        _ => run(over_http(bytes, "2026-07-28")),
    }
}

fn revised(bytes: &[u8]) {
    for revise in
        [legacy_tasks::server_in, legacy_tasks::server_out, legacy_tasks::client_in, legacy_tasks::client_out]
    {
        if let Some(revised) = revise(bytes) {
            // A byte order mark stays where it was: whether it is overlooked is for whoever reads the message next.
            let json = revised.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&revised);
            assert!(serde_json::from_slice::<IgnoredAny>(json).is_ok(), "what is revised is JSON");
        }
    }
    let _ = legacy_tasks::asks_for_capabilities(bytes);
}

const HELLO: &[u8] = br#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fuzz","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;
const LAST: &[u8] = b"\n{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}\n";

/// Whoever speaks MCP is answered, whatever was said before.
async fn over_a_pipe(bytes: &[u8]) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(server().serve_stream(far));
    let (reader, mut writer) = tokio::io::split(near);
    let written = async {
        for part in [HELLO, bytes, LAST] {
            if writer.write_all(part).await.is_err() {
                return;
            }
        }
        // Left open: a client that goes is not answered.
        std::future::pending::<()>().await;
    };
    let answered = async {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains("\"last\"") {
                return;
            }
        }
    };
    tokio::select! {
        () = written => {}
        () = answered => {}
    }
    serving.abort();
}

async fn over_http(bytes: &[u8], version: &str) {
    thread_local! {
        static APP: Router = server().router(HttpConfig::default().with_sessions(false));
    }
    let app = APP.with(Router::clone);
    let method = method(bytes);
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", method)
        .body(Body::from(bytes.to_vec()))
        .expect("it is a request");
    // A stream may go on for as long as somebody listens; that it begins is enough.
    let response = app.oneshot(request).await.expect("it cannot fail");
    assert!(response.status().as_u16() < 500, "{}", response.status());
}

/// What the body says it is, as the header must say it, too.
fn method(bytes: &[u8]) -> String {
    let message: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or("ping");
    method.chars().filter(char::is_ascii_graphic).collect()
}
