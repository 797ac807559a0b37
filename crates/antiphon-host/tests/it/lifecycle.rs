//! Which revision is spoken with whom.

use std::time::Duration;

use antiphon::prelude::*;
use antiphon_host::{Endpoint, Error as HostError, Host, HostLimits, Lifecycle};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::support::endpoint;

fn server() -> Server {
    Server::builder("s", "1")
        .tool(Tool::new("hi", "Says hi", async |_: &Ctx, _: ()| -> Result<String> { Ok("hi".to_owned()) }))
        .build()
        .unwrap()
}

#[tokio::test]
async fn the_newest_revision_both_know_is_spoken() {
    for (lifecycle, revision) in [
        (Lifecycle::Auto, "2026-07-28"),
        (Lifecycle::Modern, "2026-07-28"),
        (Lifecycle::Legacy, "2025-11-25"),
    ] {
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint(&server())).await.unwrap();
        assert_eq!(connection.server().await.revision, revision);
    }
}

/// A server of old, written by hand: it takes `start` to start, answers `server/discover` with `discover`, and
/// knows `initialize` and one tool. It says which version it was offered.
fn old(start: Duration, discover: Value) -> Endpoint {
    Endpoint::new("old", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let discover = discover.clone();
        tokio::spawn(async move {
            tokio::time::sleep(start).await;
            let (reader, mut writer) = tokio::io::split(far);
            let mut lines = BufReader::new(reader).lines();
            let mut offered = Value::Null;
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let Some(id) = message.get("id") else { continue };
                let mut answer = json!({"jsonrpc": "2.0", "id": id});
                match message["method"].as_str().unwrap() {
                    "server/discover" => {
                        answer.as_object_mut().unwrap().extend(discover.as_object().unwrap().clone());
                    }
                    "initialize" => {
                        offered = message["params"]["protocolVersion"].clone();
                        answer["result"] = json!({"protocolVersion": offered, "capabilities": {"tools": {}},
                            "serverInfo": {"name": "old", "version": "1"}});
                    }
                    _ => answer["result"] = json!({"content": [{"type": "text", "text": offered}]}),
                }
                writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        });
        std::future::ready(Ok::<_, std::io::Error>(near))
    })
}

/// Longer than the SDK waits for a server to say what it speaks.
const LONG: Duration = Duration::from_secs(25);

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_long_to_start_is_asked_for_the_newest_all_the_same() {
    let slow = Endpoint::new("slow", || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            tokio::time::sleep(LONG).await;
            server().serve_stream(far).await
        });
        std::future::ready(Ok::<_, std::io::Error>(near))
    });
    let connection = Host::builder("h", "1").build().connect(slow).await.unwrap();
    assert_eq!(connection.server().await.revision, "2026-07-28");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_old_is_initialized_whatever_it_says_to_discovery_and_whenever() {
    for (start, discover) in
        [Duration::ZERO, LONG].into_iter().flat_map(|start| answers().map(|it| (start, it)))
    {
        let host = Host::builder("h", "1").build();
        let connection = host
            .connect(old(start, discover.clone()))
            .await
            .unwrap_or_else(|error| panic!("{discover} after {start:?}: {error:?}"));
        let result = connection.call("which", json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, "2025-11-25", "{discover} after {start:?}");
    }
}

/// What servers of old say to discovery.
fn answers() -> [Value; 4] {
    [
        json!({"error": {"code": -32601, "message": "Method not found"}}),
        json!({"error": {"code": -32600, "message": "Not initialized"}}),
        json!({"result": {}}),
        json!({"result": {"unrelated": true}}),
    ]
}

#[tokio::test]
async fn nobody_at_the_other_end_is_an_error_that_names_the_end() {
    let nowhere =
        Endpoint::new("nowhere", || std::future::ready(Err::<tokio::io::DuplexStream, _>("no such server")));
    let host = Host::builder("h", "1").with_limits(HostLimits::default()).build();
    let error = host.connect(nowhere).await.unwrap_err();
    assert!(matches!(&error, HostError::Connect { endpoint, .. } if endpoint == "nowhere"), "{error}");
    assert_eq!(error.to_string(), "could not connect to nowhere");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no such server");
}
