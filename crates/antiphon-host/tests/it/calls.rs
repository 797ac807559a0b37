//! What servers can be asked, and what they tell.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphon::{
    Level, Prompt, Resource,
    model::{ContentBlock, ResourceLink},
    prelude::*,
};
use antiphon_host::{Endpoint, Error as HostError, Event, Host, HostLimits};
use serde_json::json;

use crate::support::{BOTH, endpoint};

async fn blocks(_: &Ctx, _: ()) -> Result<antiphon::ToolOutput> {
    let mut output = antiphon::ToolOutput::text("text");
    output.content.push(ContentBlock::image("AA==", "image/png"));
    output.content.push(ContentBlock::audio("AA==", "audio/wav"));
    output.content.push(ContentBlock::resource_link(ResourceLink::new("file:///a", "a")));
    output.content.push(ContentBlock::embedded_text("file:///b", "b"));
    Ok(output)
}

async fn work(ctx: &Ctx, _: ()) -> Result<String> {
    for i in 1..=3 {
        ctx.progress(Progress::of(f64::from(i), 3.0));
        ctx.log(Level::Info, format!("step {i}"));
        tokio::task::yield_now().await;
    }
    Ok("worked".into())
}

async fn slow(ctx: &Ctx, _: ()) -> Result<String> {
    let noticed = ctx.state::<Arc<tokio::sync::Notify>>()?;
    let _guard = Told(Arc::clone(noticed));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    Ok("awake".into())
}

struct Told(Arc<tokio::sync::Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn server(noticed: &Arc<tokio::sync::Notify>) -> Server {
    Server::builder("calls", "1.0.0")
        .with_instructions("Be gentle")
        .with_state(Arc::clone(noticed))
        .tool(Tool::new("blocks", "Has all blocks", blocks))
        .tool(Tool::new("work", "Works", work))
        .tool(Tool::new("slow", "Never ends", slow))
        .prompt(Prompt::new("hello", "Says hello", async |_: &Ctx, _: ()| -> Result<String> {
            Ok("Hello!".to_owned())
        }))
        .resource(Resource::new("test://a", "a", async |_: &Ctx, _: ()| -> Result<String> {
            Ok("A".to_owned())
        }))
        .build()
        .unwrap()
}

#[tokio::test]
async fn everything_a_server_has_can_be_listed_and_read() {
    for lifecycle in BOTH {
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint(&server(&Arc::default()))).await.unwrap();
        let about = connection.server().await;
        assert_eq!(
            (about.name.as_deref(), about.instructions.as_deref()),
            (Some("calls"), Some("Be gentle"))
        );
        let names: Vec<_> = connection.tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["blocks", "work", "slow"]);
        assert_eq!(connection.prompts().await.unwrap().len(), 1);
        assert_eq!(connection.prompt("hello", json!({})).await.unwrap().messages.len(), 1);
        assert_eq!(connection.resources().await.unwrap().len(), 1);
        let read = connection.read("test://a").await.unwrap();
        assert_eq!(json!(read.contents)[0]["text"], "A");
    }
}

#[tokio::test]
async fn every_kind_of_block_is_surfaced_and_none_dropped() {
    for lifecycle in BOTH {
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint(&server(&Arc::default()))).await.unwrap();
        let result = connection.call("blocks", json!({})).await.unwrap();
        let kinds: Vec<String> =
            result.content.iter().map(|block| json!(block)["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource"]);
    }
}

#[tokio::test]
async fn progress_goes_to_its_call_and_the_log_to_the_listener() {
    for lifecycle in BOTH {
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let host = Host::builder("h", "1")
            .with_lifecycle(lifecycle)
            .with_events(move |event| {
                if let Event::Log { data, .. } = event {
                    lines.lock().unwrap().push(data);
                }
            })
            .build();
        let connection = host.connect(endpoint(&server(&Arc::default()))).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let progress = Arc::clone(&seen);
        let call = connection.call("work", json!({})).log_level("info");
        call.progress(move |step| progress.lock().unwrap().push((step.progress, step.total))).await.unwrap();
        assert_eq!(
            *seen.lock().unwrap(),
            [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))],
            "{lifecycle:?}"
        );
        assert_eq!(log.lock().unwrap().len(), 3, "{lifecycle:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    for lifecycle in BOTH {
        let noticed = Arc::new(tokio::sync::Notify::new());
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint(&server(&noticed))).await.unwrap();
        let call =
            tokio::time::timeout(Duration::from_millis(50), connection.call("slow", json!({})).into_future());
        assert!(call.await.is_err());
        tokio::time::timeout(Duration::from_secs(5), noticed.notified())
            .await
            .expect("the server hears of it");
        assert!(connection.call("work", json!({})).await.is_ok(), "the connection lives on");
    }
}

#[tokio::test]
async fn a_call_can_be_made_from_another_task() {
    let connection =
        Host::builder("h", "1").build().connect(endpoint(&server(&Arc::default()))).await.unwrap();
    let calling = connection.clone();
    let called = tokio::spawn(async move { calling.call("work", json!({})).await });
    assert!(called.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_call_that_takes_too_long_says_so() {
    let host = Host::builder("h", "1").build();
    let connection = host.connect(endpoint(&server(&Arc::default()))).await.unwrap();
    let error = connection.call("slow", json!({})).timeout(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(&error, HostError::Timeout { method, .. } if method == "tools/call"), "{error}");
}

#[tokio::test]
async fn a_subscribed_resource_tells_of_its_changes_until_it_is_unsubscribed() {
    for lifecycle in BOTH {
        let server = server(&Arc::default());
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint(&server)).await.unwrap();
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        connection.subscribe("test://a", move |uri| told.send(uri.to_owned()).unwrap()).await.unwrap();
        server.changes().resource("test://other");
        server.changes().resource("test://a");
        let uri = tokio::time::timeout(Duration::from_secs(5), heard.recv()).await.unwrap().unwrap();
        assert_eq!(uri, "test://a", "{lifecycle:?}");
        connection.unsubscribe("test://a").await.unwrap();
        server.changes().resource("test://a");
        connection.call("work", json!({})).await.unwrap();
        assert!(heard.try_recv().is_err(), "{lifecycle:?}");
    }
}

#[tokio::test]
async fn changed_lists_are_told() {
    for lifecycle in BOTH {
        let server = server(&Arc::default());
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let host = Host::builder("h", "1")
            .with_lifecycle(lifecycle)
            .with_events(move |event| told.send(event).unwrap())
            .build();
        let connection = host.connect(endpoint(&server)).await.unwrap();
        connection.tools().await.unwrap();
        server.remove_tool("slow");
        let event = tokio::time::timeout(Duration::from_secs(5), heard.recv()).await.unwrap().unwrap();
        assert_eq!(event, Event::ToolsChanged, "{lifecycle:?}");
        assert_eq!(connection.tools().await.unwrap().len(), 2);
    }
}

/// An endpoint whose pipes the test can cut.
fn fragile(server: &Server) -> (Endpoint, Arc<Mutex<Vec<tokio::task::AbortHandle>>>) {
    let (server, pipes) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let cut = Arc::clone(&pipes);
    let endpoint = Endpoint::new("fragile", move || {
        let (near, mut wire) = tokio::io::duplex(1 << 16);
        let (mut end, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        let piping = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut wire, &mut end).await });
        pipes.lock().unwrap().push(piping.abort_handle());
        std::future::ready(Ok::<_, std::io::Error>(near))
    });
    (endpoint, cut)
}

#[tokio::test]
async fn a_lost_connection_fails_what_was_under_way_and_is_made_again() {
    for lifecycle in BOTH {
        let (endpoint, pipes) = fragile(&server(&Arc::default()));
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let limits =
            HostLimits::default().with_reconnects(3, Duration::from_millis(1), Duration::from_millis(10));
        let host = Host::builder("h", "1")
            .with_lifecycle(lifecycle)
            .with_limits(limits)
            .with_events(move |event| seen.lock().unwrap().push(event))
            .build();
        let connection = host.connect(endpoint).await.unwrap();
        let (lost, ()) = tokio::join!(connection.call("slow", json!({})).into_future(), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            pipes.lock().unwrap().iter().for_each(tokio::task::AbortHandle::abort);
        });
        let error = lost.unwrap_err();
        assert!(matches!(error, HostError::Lost { .. }), "{lifecycle:?}: {error}");
        assert!(connection.call("work", json!({})).await.is_ok(), "{lifecycle:?}");
        assert!(events.lock().unwrap().contains(&Event::Reconnected));
    }
}
