//! The programs of the tutorial, driven as its pages say: started, called, answered, killed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod drift;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use antiphon_host::{Connection, Endpoint, Error, Form, Host, HttpEndpoint, Shown, model::CallToolResult};
use antiphon_llm::{SCHEMA_TOOL, Scripted};
use antiphon_results::client::FetchAllOptions;
use antiphon_store::conformance::service;
use serde_json::{Value, json};

const DATABASE: &str = "ANTIPHON_TEST_POSTGRES_URL";
/// What `openssl rand -hex 32` might say.
const HEX: &str = "5f0c4e9b21d7a6885f0c4e9b21d7a6885f0c4e9b21d7a6885f0c4e9b21d7a688";

/// A process that does not outlive its test, and the address it says it listens on.
struct Running(Child, String);

impl Running {
    fn start(program: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.env("ADDRESS", "127.0.0.1:0").envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().last().unwrap_or_default().to_owned();
        assert!(address.contains("127.0.0.1:"), "it said: {line}");
        Self(child, address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A person who answers every form with this.
fn person(answer: Value) -> Host {
    let answering = move |_: Form| {
        let answer = answer.clone();
        async move { Shown::Accept(answer) }
    };
    Host::builder("reader", "1").with_forms(answering).build()
}

async fn open(host: &Host, program: &str) -> Connection {
    host.connect(Endpoint::command(program, [] as [&str; 0])).await.unwrap()
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

#[tokio::test]
async fn first_question_is_answered() {
    let host = person(json!({"name": "Ada", "urgent": true}));
    let desk = open(&host, env!("CARGO_BIN_EXE_1_ask")).await;
    let result = desk.call("file_ticket", json!({"problem": "No coffee"})).await.unwrap();
    assert_eq!(text(&result), "No coffee: we call Ada back today.");
}

#[tokio::test]
async fn model_is_asked_and_a_host_without_one_is_told() {
    let model = Scripted::new()
        .call(SCHEMA_TOOL, json!({"team": "Hardware", "urgency": 4}))
        .say("Somebody is on the way with coffee.");
    let host = Host::builder("reader", "1").with_model(model).build();
    let desk = open(&host, env!("CARGO_BIN_EXE_2_sample")).await;
    let result = desk.call("triage", json!({"problem": "No coffee"})).await.unwrap();
    assert_eq!(text(&result), "Hardware, urgency 4. Somebody is on the way with coffee.");

    let desk = open(&person(json!({})), env!("CARGO_BIN_EXE_2_sample")).await;
    let error = desk.call("triage", json!({"problem": "No coffee"})).await.unwrap_err();
    assert!(matches!(error, Error::Server { code: -32021, .. }), "{error:?}");
}

#[tokio::test]
async fn model_gets_a_preview_and_the_reader_every_row() {
    let desk = Running::start(env!("CARGO_BIN_EXE_3_rows"), &[]);
    let host = Host::builder("reader", "1").build();
    let server = host.connect(Endpoint::http(desk.1.as_str())).await.unwrap();
    let result = server.call("find_tickets", json!({})).await.unwrap();
    assert!(text(&result).starts_with("Found 847 results."), "{}", text(&result));
    let rows = server.dual_response(&result).unwrap().fetch_all(FetchAllOptions::new()).await.unwrap();
    assert_eq!(rows.len(), 847);
}

#[tokio::test]
async fn refund_outlives_the_process_that_began_it() {
    let Some(database) = service(DATABASE) else { return };
    let keys = format!("1={HEX}");
    let variables = [("STORE_URL", database.as_str()), ("SEAL_KEYS", keys.as_str())];
    let first = Running::start(env!("CARGO_BIN_EXE_4_task"), &variables);
    let host = person(json!({"approve": true}));
    let server = host.connect(Endpoint::http(first.1.as_str())).await.unwrap();
    let task = server.call("refund", json!({"order": 17, "cents": 2500})).as_task().await.unwrap();
    let id = task.id().unwrap().to_owned();
    while task.status().await.unwrap().status != antiphon_host::TaskStatus::InputRequired {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let number = format!("R{}", first.0.id());
    drop(first); // kill -9

    let second = Running::start(env!("CARGO_BIN_EXE_4_task"), &variables);
    let server = host.connect(Endpoint::http(second.1.as_str())).await.unwrap();
    let result = server.task(&id).wait().await.unwrap();
    assert_eq!(text(&result), format!("Refund {number}: 2500 cents are on their way."));
}

fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some((text.split(' ').nth(1)?.parse().ok()?, text))
}

#[tokio::test]
async fn desk_at_work_knows_its_caller_and_can_be_watched() {
    // Below the ports that the system gives to outgoing connections, so it stays free until the program listens.
    let mut addresses = (10_000..12_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let health = addresses.find(|address| TcpListener::bind(address).is_ok()).unwrap();
    // `printf %s "$KEY" | sha256sum`, for the key below.
    let (key, hash) = (HEX, "5fe11c56fcf863c15b6408150bfc43274b44a834c358ece226453781a5364be1");
    let desk = Running::start(
        env!("CARGO_BIN_EXE_5_production"),
        &[
            ("PUBLIC_URL", "https://desk.example.com/mcp"),
            ("NIGHTLY_KEY_SHA256", hash),
            ("STORE_URL", "memory:"),
            ("SEAL_KEYS", &format!("1={HEX}")),
            ("HEALTH_ADDRESS", &health.to_string()),
        ],
    );
    let until = Instant::now() + Duration::from_secs(20);
    while get(health, "/readyz").is_none_or(|(status, _)| status != 200) {
        assert!(Instant::now() < until, "it never was ready");
        std::thread::sleep(Duration::from_millis(50));
    }
    let url = format!("http://{}/mcp", desk.1);
    let host = person(json!({"urgent": false}));
    let error = host.connect(HttpEndpoint::new(&url)).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
    let server = host.connect(HttpEndpoint::new(&url).with_bearer(key)).await.unwrap();
    let result = server.call("file_ticket", json!({"problem": "No coffee"})).await.unwrap();
    assert_eq!(text(&result), "No coffee: we call nightly back this week.");
    let (_, figures) = get(health, "/metrics").unwrap();
    assert!(figures.contains("antiphon_runs_ended_total"), "{figures}");
}
