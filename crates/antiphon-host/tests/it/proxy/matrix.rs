//! Every kind of message through the proxy: {stdio, HTTP} × {2025-11-25, 2026-07-28}, in front and behind.
//!
//! Over stdio, each server is a process: this test program, started again. Over HTTP, each server has a listener.

use std::{
    fmt,
    io::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphon::{Server, task::TaskConfig};
use antiphon_host::{Connection, Endpoint, Error, Event, Host, Lifecycle, Proxy, model::CallToolResult};
use serde_json::json;

use super::{BOTH, config, listen, server, text, user};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

/// One side of the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Side {
    transport: Transport,
    revision: Lifecycle,
}

impl Side {
    fn all() -> impl Iterator<Item = Self> {
        let transports = [Transport::Stdio, Transport::Http];
        transports.into_iter().flat_map(|transport| BOTH.map(|revision| Self { transport, revision }))
    }

    fn is_modern(self) -> bool {
        self.revision == Lifecycle::Modern
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = if self.is_modern() { "2026-07-28" } else { "2025-11-25" };
        write!(f, "{:?} {revision}", self.transport)
    }
}

/// What passes through the proxy.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Form,
    Rounds,
    Url,
    UrlRequired,
    Sample,
    Progress,
    Task,
    Large,
    /// The client cannot show forms.
    NoForms,
}

const KINDS: [Kind; 9] = [
    Kind::Form,
    Kind::Rounds,
    Kind::Url,
    Kind::UrlRequired,
    Kind::Sample,
    Kind::Progress,
    Kind::Task,
    Kind::Large,
    Kind::NoForms,
];

/// Tells this program to be a server.
const SERVE: &str = "ANTIPHON_PROXY_SERVE";

/// This program as a server over stdio, with the role `behind`, or `front` and the server behind it.
fn program(role: String) -> Endpoint {
    Endpoint::child("program", move || {
        let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
        // With several threads, the test harness prints the name of a test after the test.
        command.args([
            "--exact",
            "proxy::matrix::this_program_is_a_server",
            "--nocapture",
            "--test-threads=2",
        ]);
        command.env(SERVE, &role);
        command
    })
}

#[tokio::test]
async fn this_program_is_a_server() {
    let Ok(role) = std::env::var(SERVE) else {
        let connection = Host::builder("h", "1").build().connect(program("behind".into())).await.unwrap();
        assert_eq!(connection.server().await.name.as_deref(), Some("behind"));
        return;
    };
    let serving = match role.split_once(' ') {
        None => server::server().0,
        Some((revision, behind)) => {
            let endpoint = match behind {
                "program" => program("behind".into()),
                url => Endpoint::http(url),
            };
            let revision = if revision == "modern" { Lifecycle::Modern } else { Lifecycle::Legacy };
            front(endpoint, revision).await
        }
    };
    serving.serve_stdio().await.unwrap();
}

async fn front(behind: Endpoint, revision: Lifecycle) -> Server {
    let proxy = Proxy::connect_with(behind, config(revision)).await.unwrap();
    let tasks = TaskConfig::default().with_poll_interval(Duration::from_millis(50));
    proxy.add_to(Server::builder("front", "1.0.0").with_tasks(tasks)).await.unwrap().build().unwrap()
}

/// Starts a server behind and a server in front of it.
async fn start(in_front: Side, behind: Side) -> Endpoint {
    let far = match behind.transport {
        Transport::Stdio => "program".to_owned(),
        Transport::Http => listen(server::server().0).await,
    };
    match in_front.transport {
        Transport::Stdio => {
            let revision = if behind.is_modern() { "modern" } else { "legacy" };
            program(format!("{revision} {far}"))
        }
        Transport::Http => {
            let far = if far == "program" { program("behind".into()) } else { Endpoint::http(far) };
            Endpoint::http(listen(front(far, behind.revision).await).await)
        }
    }
}

type Told = Arc<Mutex<Vec<String>>>;

/// A user who notes what they are told, and who visits web pages or not.
async fn connect(endpoint: &Endpoint, in_front: Side, told: &Told, visits: bool) -> Connection {
    let log = Arc::clone(told);
    let listener = move |event: Event| {
        if let Event::Log { level, logger, data } = event {
            log.lock().unwrap().push(format!("{level} {} {data}", logger.unwrap_or_default()));
        }
    };
    let host = user("Ada", in_front.revision).with_events(listener);
    let host = if visits { host } else { host.with_pages(|_| std::future::ready(false)) };
    let connection = host.build().connect(endpoint.clone()).await.unwrap();
    if !in_front.is_modern() {
        connection.set_log_level("info").await.unwrap();
    }
    connection
}

async fn call(connection: &Connection, tool: &str, told: &Told) -> Result<CallToolResult, Error> {
    let progress = Arc::clone(told);
    let heard = move |step: antiphon_host::Progress| {
        let message = step.message.unwrap_or_default();
        progress.lock().unwrap().push(format!("{} of {:?} {message}", step.progress, step.total));
    };
    connection.call(tool, json!({})).progress(heard).log_level("info").await
}

/// Returns the outcome of a cell in one line.
async fn outcome(kind: Kind, endpoint: &Endpoint, in_front: Side) -> String {
    let told = Told::default();
    let connection = match kind {
        Kind::NoForms => {
            let host = Host::builder("client", "1").with_lifecycle(in_front.revision).build();
            host.connect(endpoint.clone()).await.unwrap()
        }
        Kind::UrlRequired => connect(endpoint, in_front, &told, false).await,
        _ => connect(endpoint, in_front, &told, true).await,
    };
    let tool = match kind {
        Kind::Form | Kind::NoForms => "greet",
        Kind::Rounds => "interview",
        Kind::Url => "visit",
        Kind::UrlRequired => "guarded",
        Kind::Sample => "sample",
        Kind::Progress => "work",
        Kind::Task => "task",
        Kind::Large => "large",
    };
    let result = match call(&connection, tool, &told).await {
        Ok(result) => result,
        Err(error) => return format!("error {:?}", error.code()),
    };
    if result.is_error == Some(true) {
        return "tool error".into();
    }
    match kind {
        Kind::Progress => {
            // In a session over HTTP, log messages have a stream of their own.
            for _ in 0..100 {
                if told.lock().unwrap().len() >= 3 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let mut told = told.lock().unwrap().clone();
            told.sort();
            told.join(", ")
        }
        Kind::Task => {
            let is_told = told.lock().unwrap().iter().any(|line| line.ends_with("thinking"));
            format!("{}, progress: {is_told}", text(&result))
        }
        Kind::Large => {
            let value = serde_json::to_value(&result).unwrap();
            let uri = value["content"][2]["uri"].as_str().unwrap().to_owned();
            let linked = serde_json::to_value(connection.read(&uri).await.unwrap()).unwrap();
            format!(
                "{} bytes, {}, {}, {}, {}",
                text(&result).len(),
                value["content"][1]["type"],
                value["structuredContent"],
                value["_meta"]["example.com/origin"],
                linked["contents"][0]["text"],
            )
        }
        _ => text(&result).to_owned(),
    }
}

/// Returns the outcome that the specification demands.
fn expected(kind: Kind, in_front: Side, behind: Side) -> String {
    match kind {
        Kind::Form => "Hello, Ada!".into(),
        Kind::Rounds => "Ada Ada Ada four".into(),
        Kind::Url => "agreed true".into(),
        // Only 2025-11-25 has this error. 2026-07-28 has a tool error instead.
        Kind::UrlRequired if in_front.is_modern() || behind.is_modern() => "tool error".into(),
        Kind::UrlRequired => "error Some(-32042)".into(),
        Kind::Sample => "four".into(),
        Kind::Progress => r#"1 of Some(2.0) first half, 2 of Some(2.0) , info worker {"half":"way"}"#.into(),
        Kind::Task => "Ada, then, progress: true".into(),
        Kind::Large => {
            let rows = r#"{"rows":3}"#;
            format!("{} bytes, \"image\", {rows}, \"behind\", \"the rows of all rows\"", server::LARGE)
        }
        // A 2026-07-28 server returns an error code for a client that lacks a capability.
        Kind::NoForms if behind.is_modern() => "error Some(-32021)".into(),
        Kind::NoForms => "tool error".into(),
    }
}

#[tokio::test]
async fn concurrent_calls_to_a_program_continue_in_the_process_that_asked() {
    for behind in BOTH {
        let front = front(program("behind".into()), behind).await;
        let calls = (0..4).map(|number| {
            let front = crate::support::endpoint(&front);
            async move {
                let name = format!("user {number}");
                let connection = user(&name, Lifecycle::Modern).build().connect(front).await.unwrap();
                let result = connection.call("interview", json!({})).await.unwrap();
                assert_eq!(text(&result), format!("{name} {name} {name} four"), "{behind:?}");
            }
        });
        futures_util::future::join_all(calls).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_kind_of_message_passes_on_every_combination() {
    let pairs = Side::all().flat_map(|in_front| Side::all().map(move |behind| (in_front, behind)));
    let worlds = pairs.map(|(in_front, behind)| {
        tokio::spawn(async move {
            let endpoint = start(in_front, behind).await;
            let mut cells = Vec::new();
            for kind in KINDS {
                let limit = Duration::from_secs(60);
                let outcome = tokio::time::timeout(limit, outcome(kind, &endpoint, in_front)).await;
                let outcome = outcome.unwrap_or_else(|_| "no answer".into());
                cells.push((kind, outcome, expected(kind, in_front, behind)));
            }
            (in_front, behind, cells)
        })
    });
    let mut matrix = format!("{:<17} {:<17}", "in front", "behind");
    for kind in KINDS {
        matrix = format!("{matrix} {:<11}", format!("{kind:?}"));
    }
    let mut wrong = Vec::new();
    for world in worlds.collect::<Vec<_>>() {
        let (in_front, behind, cells) = world.await.unwrap();
        matrix = format!("{matrix}\n{:<17} {:<17}", in_front.to_string(), behind.to_string());
        for (kind, outcome, expected) in cells {
            let is_refusal = expected.starts_with("error") || expected == "tool error";
            let cell = match outcome == expected {
                true if is_refusal => "refused",
                true => "passes",
                false => "FAILS",
            };
            matrix = format!("{matrix} {cell:<11}");
            if outcome != expected {
                wrong.push(format!(
                    "{kind:?}, {in_front} before {behind}: `{outcome}` instead of `{expected}`"
                ));
            }
        }
    }
    writeln!(std::io::stderr(), "{matrix}").unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
