use antiphon::Server;
use antiphon::transport::websocket::{self, WebSocketConfig};
use antiphon_host::{
    Approval, Connection, Endpoint, Event, Form, Host, Page, Result, Root, Shown, model::CallToolResult,
};
use antiphon_llm::Model;
use axum::Router;
use serde_json::json;

async fn board(_: Form) -> Shown {
    Shown::Cancel
}

async fn dialog(_: Form) -> Shown {
    Shown::Cancel
}

async fn browser(_: Page) -> bool {
    false
}

fn status_bar(_: Event) {}

fn bar(_: f64) {}

fn keep(_: Option<&str>) {}

// ANCHOR: host
fn my_chat(model: impl Model, ask_me: impl Approval) -> Host {
    Host::builder("my-chat", "1.0.0")
        .with_model(model) // answers sampling requests
        .with_approval(ask_me) // the user approves them
        .with_form("pickMove", board) // your own form for one question key
        .with_forms(dialog) // all other forms
        .with_pages(browser) // web pages: sign in, pay
        .with_roots([Root::new("file:///home/ada/project")])
        .with_events(status_bar) // logs, changes, reconnects
        .build()
}

async fn play(host: &Host) -> Result<CallToolResult> {
    let server = host.connect(Endpoint::http("https://mcp.example.com/mcp")).await?;
    server.call("play", json!({"level": 2})).progress(|p| bar(p.progress)).await
}
// ANCHOR_END: host

// ANCHOR: task
async fn report(server: &Connection) -> Result<CallToolResult> {
    let task = server.call("report", json!({"year": 2026})).as_task().await?;
    keep(task.id()); // the ID is enough to continue later
    task.wait().await // polls or listens, answers questions, reconnects
}

/// After a restart, from another process.
async fn report_again(server: &Connection, id: &str) -> Result<CallToolResult> {
    server.task(id).wait().await
}
// ANCHOR_END: task

// ANCHOR: websocket
fn over_websocket(server: Server) -> Router {
    websocket::router(WebSocketConfig::default().with_tasks(true), move |transport| {
        let server = server.clone();
        async move {
            let _ = server.serve_transport(transport).await;
        }
    })
}
// ANCHOR_END: websocket
