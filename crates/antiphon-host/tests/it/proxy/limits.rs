//! Limits, cancellation and credentials.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use antiphon::{Server, http::HttpConfig, prelude::*};
use antiphon_host::{Endpoint, Event, Form, HttpEndpoint, Lifecycle, Proxy, Shown};
use serde_json::json;
use tokio::net::TcpListener;

use super::{config, front, revisions, server, text, user};
use crate::support::endpoint;

/// Waits until `done` returns true.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it takes too long");
}

#[tokio::test]
async fn a_result_over_the_limit_is_an_error() {
    for (lifecycle, behind) in revisions() {
        let (server, _) = server::server();
        let front = front(&endpoint(&server), config(behind).with_max_bytes(10_000)).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let result = connection.call("large", json!({})).await.unwrap();
        assert_eq!(result.is_error, Some(true));
        assert!(text(&result).contains("more than the limit of 10000"), "{}", text(&result));
        assert_eq!(text(&connection.call("greet", json!({})).await.unwrap()), "Hello, Ada!");
    }
}

#[tokio::test]
async fn a_server_that_works_too_long_is_cancelled() {
    for (lifecycle, behind) in revisions() {
        let (server, seen) = server::server();
        let front = front(&endpoint(&server), config(behind).with_timeout(Duration::from_secs(1))).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let result = connection.call("sleep", json!({})).await.unwrap();
        assert_eq!(result.is_error, Some(true));
        assert!(text(&result).contains("did not answer `tools/call` within 1s"), "{}", text(&result));
        until(|| seen.sleepers.load(Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_behind_the_proxy() {
    for (lifecycle, behind) in revisions() {
        let (server, seen) = server::server();
        let front = front(&endpoint(&server), config(behind)).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let mut call = connection.call("sleep", json!({})).into_future();
        tokio::select! {
            _ = &mut call => panic!("it does not end"),
            () = until(|| seen.sleepers.load(Ordering::SeqCst) == 1) => {}
        }
        drop(call);
        until(|| seen.sleepers.load(Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_refused() {
    // The call to a 2025-11-25 server is open, and the run in front of it is suspended.
    let (server, seen) = server::server();
    let limits = config(Lifecycle::Legacy).with_answer_timeout(Duration::from_millis(100));
    let front = front(&endpoint(&server), limits).await;
    let slow = user("Ada", Lifecycle::Modern).with_forms(|_: Form| async {
        tokio::time::sleep(Duration::from_millis(800)).await;
        Shown::Accept(json!({"name": "Ada"}))
    });
    let connection = slow.build().connect(endpoint(&front)).await.unwrap();
    let result = connection.call("greet", json!({})).await.unwrap();
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).contains("the answer took longer than 100ms"), "{}", text(&result));
    assert_eq!(seen.greetings.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn calls_wait_for_a_connection_and_a_waiting_user_does_not_occupy_one_of_2026() {
    let (server, _) = server::server();
    let one = config(Lifecycle::Modern).with_max_connections(1).with_timeout(Duration::from_secs(2));
    let front = front(&endpoint(&server), one).await;
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let (answer, answered) = tokio::sync::watch::channel(false);
    let waiting = user("Ada", Lifecycle::Modern).with_forms(move |_: Form| {
        asked.send(()).unwrap();
        let mut answered = answered.clone();
        async move {
            answered.wait_for(|answered| *answered).await.unwrap();
            Shown::Accept(json!({"name": "Ada"}))
        }
    });
    let waiting = waiting.build().connect(endpoint(&front)).await.unwrap();
    let first = tokio::spawn(async move { waiting.call("greet", json!({})).await.unwrap() });
    is_asked.recv().await.unwrap();
    let other = user("Bob", Lifecycle::Modern).build().connect(endpoint(&front)).await.unwrap();
    assert_eq!(text(&other.call("greet", json!({})).await.unwrap()), "Hello, Bob!");
    answer.send_replace(true);
    assert_eq!(text(&first.await.unwrap()), "Hello, Ada!");
}

#[tokio::test]
async fn a_changed_list_is_an_event_and_can_be_read_again() {
    for (_, behind) in revisions() {
        let server = Server::builder("behind", "1").build().unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let config = config(behind).with_events(move |event| heard.lock().unwrap().push(event));
        let tool =
            |name: &str| Tool::new(name, "Does nothing", async |_: &Ctx, _: ()| -> Result<()> { Ok(()) });
        server.add_tool(tool("one")).unwrap();
        let proxy = Proxy::connect_with(endpoint(&server), config).await.unwrap();
        assert_eq!(proxy.tools().await.unwrap().len(), 1);
        server.add_tool(tool("two")).unwrap();
        until(|| events.lock().unwrap().contains(&Event::ToolsChanged)).await;
        let names: Vec<_> = proxy.tools().await.unwrap().iter().map(|tool| tool.name().to_owned()).collect();
        assert_eq!(names, ["one", "two"]);
    }
}

#[tokio::test]
async fn credentials_of_the_caller_stay_in_front_of_the_proxy() {
    async fn listen(server: Server) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
        });
        url
    }
    for (lifecycle, behind) in revisions() {
        let far = listen(server::server().0).await;
        let secret = |url: &str| HttpEndpoint::new(url).with_bearer("secret").with_header("cookie", "a=b");
        let host = user("Ada", lifecycle).build();
        let direct = host.connect(secret(&far)).await.unwrap();
        assert_eq!(text(&direct.call("credentials", json!({})).await.unwrap()), "authorization cookie");
        let near = listen(front(&Endpoint::http(far), config(behind)).await).await;
        let connection = host.connect(secret(&near)).await.unwrap();
        assert_eq!(text(&connection.call("credentials", json!({})).await.unwrap()), "");
    }
}
