//! What an orchestrator asks, over a socket as it does.

use std::{sync::Arc, time::Duration};

use antiphon::{
    http::{Health, HttpConfig},
    prelude::*,
    seal::KeyRing,
    task::TaskPolicy,
    telemetry::{Prometheus, Telemetry},
};
use antiphon_store::{
    Backend, Memory, QueueConfig,
    flaky::{Flaky, FlakyConfig},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{builder, metrics::check};
use crate::tasks::quick;

/// Serves a server with its health, and returns where.
async fn serve(server: &Server, health: Health) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = HttpConfig::default().with_sessions(false);
    let app = server.router(config).merge(server.health_router(health));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// One HTTP exchange: its status, its headers and its body.
async fn exchange(address: std::net::SocketAddr, request: String) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    exchange(address, request).await
}

async fn ready(address: std::net::SocketAddr) -> (u16, Value) {
    let (status, _, body) = get(address, "/readyz").await;
    (status, serde_json::from_str(&body).unwrap())
}

async fn call(address: std::net::SocketAddr) -> u16 {
    let params = json!({
        "name": "keep", "arguments": {"given": "x"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        },
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: keep\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, head + &body).await.0
}

#[tokio::test]
async fn metrics_are_scraped_from_a_live_server() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let address = serve(&server, Health::default().with_metrics(&prometheus)).await;
    assert_eq!(call(address).await, 200);
    let (status, head, body) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("# TYPE antiphon_rounds_total counter"), "{body}");
    assert!(body.contains("# TYPE mcp_server_operation_duration_seconds histogram"), "{body}");
    assert!(body.contains("service_name=\"told\""), "{body}");
    check(
        &body,
        &[
            ("antiphon_rounds_total", &[("gen_ai_tool_name", "keep")], 1.0),
            ("mcp_server_operation_duration_seconds_count", &[("network_transport", "tcp")], 1.0),
        ],
    );
}

#[tokio::test]
async fn figures_are_served_only_where_they_are_given() {
    let server = builder(&KeyRing::random(), TaskPolicy::Never).build().unwrap();
    let address = serve(&server, Health::default()).await;
    assert_eq!(get(address, "/metrics").await.0, 404);
    assert_eq!(get(address, "/livez").await.0, 200);
    assert_eq!(ready(address).await, (200, json!({"status": "ready", "checks": {}})));
}

/// A backend whose store does this to every call.
fn backend(config: FlakyConfig) -> Backend {
    let memory = Memory::default().backend(QueueConfig::default());
    let mut backend = memory.clone();
    backend.store = Arc::new(Flaky::new(memory.store, config));
    backend
}

fn steady() -> FlakyConfig {
    FlakyConfig::seeded(1).with_refused(0).with_lost(0).with_unreported(0).with_delayed(0)
}

async fn with_store(config: FlakyConfig) -> (u16, Value, u16) {
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_backend(backend(config))
        .with_tasks(quick())
        .build()
        .unwrap();
    let address = serve(&server, Health::default().with_timeout(Duration::from_millis(300))).await;
    let (status, said) = ready(address).await;
    (status, said, get(address, "/livez").await.0)
}

#[tokio::test]
async fn a_replica_is_ready_when_its_store_and_its_queue_answer() {
    let (status, said, _) = with_store(steady()).await;
    assert_eq!((status, said), (200, json!({"status": "ready", "checks": {"queue": "ok", "store": "ok"}})));
}

#[tokio::test]
async fn a_replica_whose_store_fails_is_degraded_and_keeps_its_place() {
    let broken = steady().with_lost(1000);
    let (status, said, alive) = with_store(broken).await;
    assert_eq!((status, &said["status"], alive), (200, &json!("degraded"), 200), "{said}");
    assert_ne!(said["checks"]["store"], "ok");
    assert_eq!(said["checks"]["queue"], "ok");
}

#[tokio::test]
async fn a_call_that_needs_no_store_is_answered_while_the_store_is_away() {
    let broken = steady().with_lost(1000);
    let server =
        builder(&KeyRing::random(), TaskPolicy::Never).with_backend(backend(broken)).build().unwrap();
    let address = serve(&server, Health::default()).await;
    assert_eq!(call(address).await, 200);
}

#[tokio::test]
async fn a_store_that_does_not_answer_in_time_counts_as_gone() {
    let slow = steady().with_delayed(1000).with_delay(Duration::from_secs(3600));
    let (status, said, alive) = with_store(slow).await;
    assert_eq!((status, &said["checks"]["store"], alive), (200, &json!("timed out"), 200), "{said}");
    assert_eq!(said["status"], "degraded");
}

#[tokio::test]
async fn a_check_of_your_own_decides_too_and_its_words_stay_inside() {
    let server = builder(&KeyRing::random(), TaskPolicy::Never).build().unwrap();
    let health = Health::default()
        .with_check("model", || async { Ok::<(), String>(()) })
        .with_check("database", || async { Err("password `hunter2` refused") });
    let address = serve(&server, health).await;
    let (status, said) = ready(address).await;
    assert_eq!(
        (status, said),
        (503, json!({"status": "unready", "checks": {"database": "failed", "model": "ok"}}))
    );
}

#[tokio::test]
async fn a_crowd_of_probes_asks_the_parts_once() {
    let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let server = builder(&KeyRing::random(), TaskPolicy::Never).build().unwrap();
    let health = Health::default().with_check("counted", move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { Ok::<(), String>(()) }
    });
    let address = serve(&server, health).await;
    let probes = (0..20).map(|_| ready(address));
    let answers = futures_util::future::join_all(probes).await;
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_that_shuts_down_is_not_ready() {
    let server = builder(&KeyRing::random(), TaskPolicy::Never).build().unwrap();
    let address = serve(&server, Health::default()).await;
    server.shut_down();
    assert_eq!(ready(address).await, (503, json!({"status": "shutting down"})));
    assert_eq!(get(address, "/livez").await.0, 200);
}
