//! What callers do not learn: the address of the server behind the proxy, and the data of other callers.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use antiphon::{Server, http::HttpConfig};
use antiphon_host::{Connection, Endpoint, Event, Lifecycle};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    sync::{mpsc, oneshot},
};

use super::{config, front, revisions, server, text, until, user};
use crate::support::endpoint;

#[tokio::test]
async fn the_address_of_a_server_is_in_no_list_and_in_no_error() {
    for (lifecycle, behind) in revisions() {
        let (far, _) = server::server();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            far.serve_listener(listener, HttpConfig::default(), stopped).await
        });
        let limits = config(behind).with_max_bytes(10_000).with_timeout(Duration::from_secs(2));
        let far = Endpoint::http(format!("http://{address}/mcp?key=SECRET"));
        let front = front(&far, limits.with_uris("hidden://")).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let mut told = vec![
            format!("{:?}", connection.server().await),
            format!("{:?}", connection.tools().await.unwrap()),
            format!("{:?}", connection.prompts().await.unwrap()),
            format!("{:?}", connection.resources().await.unwrap()),
        ];
        let templates = connection.resource_templates().await.unwrap();
        assert_eq!(templates.iter().filter(|template| template.name == "behind").count(), 1);
        told.push(format!("{templates:?}"));
        let large = connection.call("large", json!({})).await.unwrap();
        assert!(text(&large).contains("the proxied server `behind`"), "{}", text(&large));
        told.push(format!("{large:?}"));
        drop(stop);
        tokio::time::timeout(Duration::from_secs(20), serving).await.unwrap().unwrap().unwrap();
        // The first call can use a connection that was open. The second call opens one.
        for _ in 0..2 {
            let failed = connection.call("fail", json!({})).await.unwrap();
            assert!(text(&failed).contains("the proxied server `behind`"), "{}", text(&failed));
            told.push(format!("{failed:?}"));
        }
        told.push(format!("{:?}", connection.prompt("hello", json!({"name": "Ada"})).await.unwrap_err()));
        told.push(format!("{:?}", connection.read("hidden://1").await.unwrap_err()));
        for told in told {
            assert!(!told.contains("SECRET") && !told.contains(&address), "{lifecycle:?} {behind:?}: {told}");
        }
    }
}

/// An endpoint for `server`. The proxy receives each line that is sent to the sender, as if the server had sent it.
fn with_lines(server: &Server) -> (Endpoint, mpsc::UnboundedSender<String>) {
    let (line, lines) = mpsc::unbounded_channel::<String>();
    let (server, added) = (server.clone(), Mutex::new(Some(lines)));
    let endpoint = Endpoint::new("in-process", move || {
        let (near, middle) = tokio::io::duplex(1 << 20);
        let (inner, far) = tokio::io::duplex(1 << 20);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        let (mut from_proxy, mut to_proxy) = tokio::io::split(middle);
        let (from_server, mut to_server) = tokio::io::split(inner);
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_proxy, &mut to_server).await;
            let _ = to_server.shutdown().await;
        });
        // All calls to a 2026-07-28 server use the first connection.
        let mut added = added.lock().unwrap().take().unwrap();
        let mut sent = BufReader::new(from_server).lines();
        tokio::spawn(async move {
            loop {
                let line = tokio::select! {
                    Ok(Some(line)) = sent.next_line() => line,
                    Some(line) = added.recv() => line,
                    else => return,
                };
                if to_proxy.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        std::future::ready(Ok::<_, std::io::Error>(near))
    });
    (endpoint, line)
}

/// A log message, as a server sends it.
fn log(text: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}})
        .to_string()
}

type Told = Arc<Mutex<Vec<String>>>;

/// A listener that notes the log messages.
fn note(told: &Told) -> impl Fn(Event) + Send + Sync + use<> {
    let told = Arc::clone(told);
    move |event| {
        if let Event::Log { data, .. } = event {
            told.lock().unwrap().push(data.as_str().unwrap_or_default().to_owned());
        }
    }
}

/// A server behind the proxy that logs, and two callers.
struct World {
    seen: server::Seen,
    line: mpsc::UnboundedSender<String>,
    ada: Connection,
    bob: Connection,
    /// The log messages that Bob received.
    told: Told,
    /// The log messages that the listener of the proxy received.
    events: Told,
}

impl World {
    async fn new() -> Self {
        let (server, seen) = server::server();
        let (far, line) = with_lines(&server);
        let (told, events) = (Told::default(), Told::default());
        let front = front(&far, config(Lifecycle::Modern).with_events(note(&events))).await;
        let ada = user("Ada", Lifecycle::Modern).build().connect(endpoint(&front)).await.unwrap();
        let bob = user("Bob", Lifecycle::Modern).with_events(note(&told)).build();
        let bob = bob.connect(endpoint(&front)).await.unwrap();
        Self { seen, line, ada, bob, told, events }
    }

    /// Waits until `sleepers` tools sleep behind the proxy.
    async fn sleep(&self, sleepers: usize) {
        until(|| self.seen.sleepers.load(Ordering::SeqCst) == sleepers).await;
    }

    /// Calls a tool for Ada that sleeps, and returns the call.
    async fn ada_calls(&self, tool: &'static str) -> tokio::task::JoinHandle<()> {
        let ada = self.ada.clone();
        let call = tokio::spawn(async move {
            let _ = ada.call(tool, json!({})).log_level("debug").await;
        });
        self.sleep(1).await;
        call
    }

    /// Returns the log messages that Bob receives, if the server logs `text` during his call. `others` tools of other
    /// callers sleep at the same time.
    async fn bob_hears(&self, text: &str, others: usize) -> Vec<String> {
        let bob = self.bob.clone();
        let call = tokio::spawn(async move {
            let _ = bob.call("sleep", json!({})).log_level("debug").await;
        });
        self.sleep(others + 1).await;
        self.line.send(log(text)).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        call.abort();
        self.sleep(others).await;
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn log_messages_of_a_cancelled_call_do_not_reach_the_next_caller() {
    let world = World::new().await;
    let call = world.ada_calls("sleep").await;
    call.abort();
    world.sleep(0).await;
    // The server can still log for the cancelled call.
    assert!(world.bob_hears("about Ada", 0).await.is_empty());
    // Bob's call was cancelled, too. After the timeout, the log messages are those of the only call again.
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(world.bob_hears("about Bob", 0).await, ["about Bob"]);
    assert!(world.events.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn log_messages_during_two_calls_reach_nobody() {
    for tool in ["sleep", "sleep_as_task"] {
        let world = World::new().await;
        let _call = world.ada_calls(tool).await;
        assert!(world.bob_hears("about Ada", 1).await.is_empty(), "{tool}");
        assert!(world.events.lock().unwrap().is_empty(), "{tool}");
    }
}
