//! The behaviours, by the names the seeds of this project gave them.

use std::{
    collections::BTreeSet,
    future::IntoFuture as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphon_host::{Defaults, Error, Event, Form, HostLimits, Page, Root, Shown};
use antiphon_llm::{Block, Reply, Request, Scripted};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::world::{Transport, World, within};

fn text(result: &antiphon_host::model::CallToolResult) -> String {
    result.content.iter().filter_map(|block| Some(block.as_text()?.text.clone())).collect()
}

/// A model that repeats what it was asked last.
fn echo() -> Scripted {
    Scripted::new().otherwise(|request: &Request| {
        Ok(Reply::new("echo", request.messages.last().map(antiphon_llm::Message::text).unwrap_or_default()))
    })
}

pub(crate) async fn says_who_it_is(world: World) {
    let connection = world.plain().await;
    let server = connection.server().await;
    assert_eq!(server.name.as_deref(), Some("contract"));
    assert_eq!(server.instructions.as_deref(), Some("instructions"));
    assert_eq!(server.revision.replace('-', "_"), world.revision.name());
}

pub(crate) async fn prompts(world: World) {
    let connection = world.plain().await;
    assert_eq!(connection.prompts().await.unwrap().len(), 1);
    let prompt = connection.prompt("prompt", json!({"name": "Ada"})).await.unwrap();
    assert_eq!(json!(prompt)["messages"][0]["content"]["text"], "Hello, Ada!");
}

pub(crate) async fn resources_and_templates(world: World) {
    let connection = world.plain().await;
    assert_eq!(connection.resources().await.unwrap().len(), 1);
    assert_eq!(connection.resource_templates().await.unwrap().len(), 1);
    let read = connection.read("test://text").await.unwrap();
    assert_eq!(json!(read)["contents"][0]["text"], "the text");
    let read = connection.read("test://number/7").await.unwrap();
    assert_eq!(json!(read)["contents"][0]["text"], "number 7");
    assert!(connection.read("test://nothing").await.unwrap_err().code().is_some());
}

pub(crate) async fn completions(world: World) {
    let connection = world.plain().await;
    let reference = json!({"type": "ref/resource", "uri": "test://number/{name}"});
    let completed = connection.complete(reference, "name", "").await.unwrap();
    assert_eq!(completed.completion.values, ["1", "2"]);
}

pub(crate) async fn tools(world: World) {
    let connection = world.plain().await;
    assert!(connection.tools().await.unwrap().len() > 10);
    let result = connection.call("reverse", json!({"input": "foobar"})).await.unwrap();
    assert_eq!(text(&result), "raboof");
    let result = connection.call("reverseStructured", json!({"input": "foobar"})).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({"foo": "raboof"})));
    assert_eq!(serde_json::from_str::<Value>(&text(&result)).unwrap(), json!({"foo": "raboof"}));
}

pub(crate) async fn every_block_survives(world: World) {
    let result = world.plain().await.call("blocks", json!({})).await.unwrap();
    let blocks = json!(result.content);
    let kinds: Vec<_> =
        blocks.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource"]);
    assert_eq!(
        blocks[3],
        json!({"type": "resource_link", "uri": "file:///a", "name": "a", "description": "An a", "mimeType": "text/plain"})
    );
}

pub(crate) async fn a_tool_error_is_a_result(world: World) {
    let connection = world.plain().await;
    let result = connection.call("fail", json!({})).await.unwrap();
    assert_eq!((result.is_error, text(&result).as_str()), (Some(true), "no luck"));
    // A tool that throws gives an error the client can match, and the connection stays usable.
    let result = connection.call("panics", json!({})).await.unwrap();
    assert_eq!(result.is_error, Some(true));
    assert!(connection.call("no_such_tool", json!({})).await.unwrap_err().code().is_some());
    assert_eq!(text(&connection.call("reverse", json!({"input": "abc"})).await.unwrap()), "cba");
}

pub(crate) async fn receives_list_change_notifications(world: World) {
    let (told, mut heard) = mpsc::unbounded_channel();
    let connection = world.connect(world.host().with_events(move |event| drop(told.send(event)))).await;
    let mut missing = vec![Event::ToolsChanged, Event::PromptsChanged, Event::ResourcesChanged];
    // A 2025-11-25 client over HTTP opens the stream for these after the handshake, and what is said
    // before that it does not hear. So it is said until it is heard.
    within(async {
        while !missing.is_empty() {
            connection.call("announce", json!({})).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            while let Ok(event) = heard.try_recv() {
                missing.retain(|expected| *expected != event);
            }
        }
    })
    .await;
}

pub(crate) async fn can_do_sampling(world: World) {
    let connection = world.connect(world.host().with_model(echo())).await;
    for _ in 0..2 {
        assert_eq!(text(&connection.call("sample", json!({})).await.unwrap()), "One? Two?");
    }
    // A reply may be one block or several.
    let several =
        Scripted::new().otherwise(|_| Ok(Reply::new("m", vec![Block::text("a"), Block::text("b")])));
    let connection = world.connect(world.host().with_model(several)).await;
    assert_eq!(text(&connection.call("sample", json!({})).await.unwrap()), "a\nb a\nb");
}

pub(crate) async fn several_calls_in_one_reply_keep_their_order(world: World) {
    let model = Scripted::new().otherwise(|request: &Request| {
        assert_eq!(request.tools.len(), 2);
        let call = |id: &str, name: &str| Block::tool_use(id, name, json!({}));
        Ok(Reply::new("m", vec![call("1", "right"), call("2", "left"), call("3", "right")]))
    });
    let connection = world.connect(world.host().with_model(model)).await;
    let result = connection.call("calls", json!({})).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({"calls": ["right", "left", "right"]})));
}

pub(crate) async fn can_do_form_elicitation(world: World) {
    for (shown, expected) in [
        (Shown::Accept(json!({"name": "Ada"})), "accept Ada"),
        (Shown::Decline, "decline"),
        (Shown::Cancel, "cancel"),
    ] {
        let host = world.host().with_forms(move |form: Form| {
            assert_eq!((form.message.as_str(), form.fields[0].name.as_str()), ("Who are you?", "name"));
            std::future::ready(shown.clone())
        });
        let connection = world.connect(host).await;
        assert_eq!(text(&connection.call("ask", json!({})).await.unwrap()), expected);
    }
}

/// Opens a web page, as a browser would: no MCP client has anything to do with it.
async fn browse(url: String) {
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

pub(crate) async fn can_do_url_elicitation(world: World) {
    let (told, mut heard) = mpsc::unbounded_channel();
    let (sent, mut visited) = mpsc::unbounded_channel();
    let host = world.host().with_events(move |event| drop(told.send(event))).with_pages(move |page: Page| {
        drop(sent.send(page));
        std::future::ready(true)
    });
    let connection = world.connect(host).await;
    assert_eq!(text(&connection.call("visit", json!({})).await.unwrap()), "agreed true");
    let page = within(visited.recv()).await.unwrap();
    // The call is over when the user comes to the page, and the host is told all the same.
    browse(page.url).await;
    if world.revision.is_modern() {
        // 2026-07-28 has no such notification.
        connection.tools().await.unwrap();
        assert!(heard.try_recv().is_err());
        return;
    }
    let complete = Event::PageComplete { elicitation_id: page.elicitation_id.unwrap() };
    assert_eq!(within(heard.recv()).await, Some(complete), "and of the unknown id nothing is told");
}

pub(crate) async fn a_page_that_was_declined_is_never_complete(world: World) {
    let (told, mut heard) = mpsc::unbounded_channel();
    let (sent, mut visited) = mpsc::unbounded_channel();
    let host = world.host().with_events(move |event| drop(told.send(event))).with_pages(move |page: Page| {
        drop(sent.send(page.url));
        std::future::ready(false)
    });
    let connection = world.connect(host).await;
    assert_eq!(text(&connection.call("visit", json!({})).await.unwrap()), "agreed false");
    browse(within(visited.recv()).await.unwrap()).await;
    // The changes that come after it are heard of, and nothing before.
    if !world.revision.is_modern() {
        connection.call("announce", json!({})).await.unwrap();
        let event = within(heard.recv()).await;
        assert!(!matches!(event, None | Some(Event::PageComplete { .. })), "{event:?}");
    }
}

pub(crate) async fn what_was_not_declared_is_not_asked(world: World) {
    let connection = world.plain().await;
    for tool in ["sample", "ask", "visit", "roots"] {
        match connection.call(tool, json!({})).await {
            Ok(result) => assert_eq!(result.is_error, Some(true), "{tool}"),
            Err(error) => assert_eq!(error.code(), Some(-32021), "{tool}: {error}"),
        }
    }
}

pub(crate) async fn url_elicitation_required_is_typed_and_retried(world: World) {
    // A person who will not go: the error says where they were wanted.
    let connection = world.connect(world.host().with_pages(|_: Page| std::future::ready(false))).await;
    let answer = connection.call("guarded", json!({})).await;
    if world.revision.is_modern() {
        // 2026-07-28 has no such error: a tool says so in words.
        assert_eq!(answer.unwrap().is_error, Some(true));
        return;
    }
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Some(-32042));
    let Error::PagesRequired(pages) = error else { panic!("{error}") };
    assert_eq!(
        (pages[0].message.as_str(), pages[0].elicitation_id.as_deref()),
        ("Authorization required", Some("test-elicitation-123"))
    );
    assert!(pages[0].url.ends_with("/done/test-elicitation-123"), "{}", pages[0].url);
    // One who goes: the page is done with them, the server says so, and the call is made again.
    let (told, mut heard) = mpsc::unbounded_channel();
    let host = world.host().with_events(move |event| drop(told.send(event))).with_pages(move |page: Page| {
        tokio::spawn(browse(page.url));
        std::future::ready(true)
    });
    let connection = world.connect(host).await;
    assert_eq!(text(&within(connection.call("guarded", json!({})).into_future()).await.unwrap()), "come in");
    let complete = Event::PageComplete { elicitation_id: "test-elicitation-123".into() };
    assert_eq!(within(heard.recv()).await, Some(complete), "and of the unknown id nothing is told");
}

pub(crate) async fn receives_progress(world: World) {
    let connection = world.plain().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&seen);
    let call = connection.call("work", json!({}));
    call.progress(move |step| progress.lock().unwrap().push((step.progress, step.total))).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [(1.0, Some(2.0)), (2.0, Some(2.0))]);
}

pub(crate) async fn receives_logs_of_its_level(world: World) {
    let (told, mut heard) = mpsc::unbounded_channel();
    let connection = world.connect(world.host().with_events(move |event| drop(told.send(event)))).await;
    if world.revision.is_modern() {
        // Each request says what it wants; a level for all is refused.
        world.sends_foreign("logging/setLevel");
        assert_eq!(connection.set_log_level("info").await.unwrap_err().code(), Some(-32601));
    } else {
        connection.set_log_level("info").await.unwrap();
    }
    connection.call("work", json!({})).log_level("info").await.unwrap();
    // In a session over HTTP the log comes on a stream of its own, and may come after the answer.
    let mut lines = Vec::new();
    while lines.is_empty() {
        let event = tokio::time::timeout(Duration::from_secs(10), heard.recv()).await;
        if let Event::Log { data, .. } = event.expect("there is a line of log").expect("the host is there") {
            lines.push(data);
        }
    }
    while let Ok(event) = heard.try_recv() {
        if let Event::Log { data, .. } = event {
            lines.push(data);
        }
    }
    assert_eq!(lines, [json!("half-way")]);
}

pub(crate) async fn cancellation_reaches_the_tool(world: World) {
    let connection = world.plain().await;
    let call = connection.call("sleep", json!({})).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    // Over stdio and the like the news travels behind the next request at the latest.
    for _ in 0..100 {
        if text(&connection.call("was_cancelled", json!({})).await.unwrap()) == "true" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the tool never heard of it");
}

pub(crate) async fn roots_are_asked_for(world: World) {
    let host = world.host().with_roots([Root::new("file:///home"), Root::new("file:///work")]);
    let connection = world.connect(host).await;
    assert_eq!(text(&connection.call("roots", json!({})).await.unwrap()), "file:///home file:///work");
}

pub(crate) async fn can_subscribe_to_resource_updates(world: World) {
    let connection = world.plain().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    connection.subscribe("test://text", move |uri| drop(told.send(uri.to_owned()))).await.unwrap();
    connection.call("touch", json!({"uri": "test://other"})).await.unwrap();
    connection.call("touch", json!({"uri": "test://text"})).await.unwrap();
    assert_eq!(within(heard.recv()).await.as_deref(), Some("test://text"), "for the subscribed uri only");
}

pub(crate) async fn can_unsubscribe_from_resource_updates(world: World) {
    let connection = world.plain().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    connection.subscribe("test://text", move |uri| drop(told.send(uri.to_owned()))).await.unwrap();
    connection.call("touch", json!({"uri": "test://text"})).await.unwrap();
    within(heard.recv()).await.unwrap();
    connection.unsubscribe("test://text").await.unwrap();
    connection.call("touch", json!({"uri": "test://text"})).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(heard.try_recv().is_err(), "no callback afterwards");
}

pub(crate) async fn large_messages(world: World) {
    let connection = world.plain().await;
    let input = "x".repeat(1 << 20);
    let result = within(connection.call("reverse", json!({"input": input})).into_future()).await.unwrap();
    assert_eq!(text(&result).len(), 1 << 20);
}

pub(crate) async fn a_thousand_calls_that_ask_do_not_cross(world: World) {
    let host = world
        .host()
        .with_model(echo())
        .with_limits(HostLimits::default().with_concurrent_asks(8))
        .with_forms(|form: Form| std::future::ready(Shown::Accept(json!({"name": form.message}))));
    let connection = world.connect(host).await;
    let calls = (0..1000).map(|n| {
        let connection = connection.clone();
        async move { text(&connection.call("nested", json!({"n": n})).await.unwrap()) }
    });
    let answers: Vec<String> = tokio::time::timeout(
        Duration::from_secs(120),
        futures_util::StreamExt::collect(futures_util::StreamExt::buffered(
            futures_util::stream::iter(calls),
            100,
        )),
    )
    .await
    .expect("a thousand calls end");
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(*answer, format!("{n}: sample {n} name {n}"));
    }
    assert_eq!(answers.iter().collect::<BTreeSet<_>>().len(), 1000);
}

pub(crate) async fn a_request_of_the_other_revision_is_refused(world: World) {
    let connection = world.plain().await;
    let foreign = if world.revision.is_modern() { "resources/subscribe" } else { "subscriptions/listen" };
    let params =
        if world.revision.is_modern() { json!({"uri": "test://text"}) } else { json!({"notifications": {}}) };
    world.sends_foreign(foreign);
    let error = connection.request(foreign, params).await.unwrap_err();
    assert!(matches!(error.code(), Some(-32601 | -32600)), "{error}");
}

/// Defaults of forms are filled in where nobody else answers.
pub(crate) async fn forms_without_defaults_are_declined_by_a_host_without_a_person(world: World) {
    let connection = world.connect(world.host().with_forms(Defaults)).await;
    assert_eq!(text(&connection.call("ask", json!({})).await.unwrap()), "decline");
}

pub(crate) async fn a_foreign_origin_is_refused(world: World) {
    let Some(address) = world.address else {
        // A pipe has no origin; whoever holds it was given it.
        assert!(matches!(world.transport, Transport::InProcess | Transport::Stdio));
        return;
    };
    let path = match world.transport {
        Transport::WebSocket => "/ws",
        Transport::Sse => "/sse",
        _ => "/mcp",
    };
    for (origin, refused) in [("https://evil.example", true), ("http://localhost:1234", false)] {
        let status = within(crate::raw::status_of(address, path, world.transport, origin)).await;
        assert_eq!(status == 403, refused, "{origin}: {status}");
    }
}

pub(crate) async fn a_connection_that_breaks_is_resumed_or_the_call_is_said_to_be_lost(world: World) {
    let connection = world.plain().await;
    let tool = if world.transport == Transport::Stdio { "vanish" } else { "nap" };
    let (answer, ()) = tokio::join!(within(connection.call(tool, json!({})).into_future()), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.cut();
    });
    // Only the streams of 2025-11-25 over HTTP have places to go on from.
    if world.transport == Transport::Http && !world.revision.is_modern() {
        assert_eq!(text(&answer.unwrap()), "rested");
    } else {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    }
    // And the next call connects again.
    let result = within(connection.call("reverse", json!({"input": "abc"})).into_future()).await.unwrap();
    assert_eq!(text(&result), "cba");
}
