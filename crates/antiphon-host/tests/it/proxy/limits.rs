//! Limits, cancellation and credentials.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use antiphon::prelude::*;
use antiphon_host::{Endpoint, Event, Form, HttpEndpoint, Lifecycle, Proxy, Shown};
use serde_json::json;
use tokio::sync::mpsc;

use super::{BOTH, config, front, listen, revisions, server, text, until, user};
use crate::support::endpoint;

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
        // The transport of this test does not carry the tasks of 2025-11-25.
        let tools: &[&str] =
            if behind == Lifecycle::Modern { &["sleep", "sleep_as_task"] } else { &["sleep"] };
        for tool in tools {
            let (server, seen) = server::server();
            let second = Duration::from_secs(1);
            let limits = config(behind).with_timeout(second).with_task_timeout(second);
            let front = front(&endpoint(&server), limits).await;
            let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
            let (result, ()) = tokio::join!(
                connection.call(tool, json!({})).into_future(),
                until(|| seen.sleepers.load(Ordering::SeqCst) == 1)
            );
            let result = result.unwrap();
            assert_eq!(result.is_error, Some(true), "{tool} {lifecycle:?} {behind:?}");
            assert!(text(&result).contains("did not answer `tools/call` within 1s"), "{}", text(&result));
            until(|| seen.sleepers.load(Ordering::SeqCst) == 0).await;
        }
    }
}

#[tokio::test]
async fn a_question_over_the_limit_closes_its_call() {
    for lifecycle in BOTH {
        let (server, _) = server::server();
        let limits = config(Lifecycle::Legacy).with_max_bytes(200).with_max_connections(1);
        let front = front(&endpoint(&server), limits.with_timeout(Duration::from_secs(2))).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let result = connection.call("greet", json!({})).await.unwrap();
        assert!(text(&result).contains("more than the limit of 200"), "{}", text(&result));
        // The call would keep the only connection until the answer timeout.
        let result = connection.call("credentials", json!({})).await.unwrap();
        assert_eq!((result.is_error == Some(true), text(&result)), (false, ""), "{lifecycle:?}");
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
async fn a_followed_list_does_not_replace_the_tools_of_the_server() {
    /// The loop of the guide.
    async fn follow(proxy: Proxy, mut changes: mpsc::UnboundedReceiver<()>, server: Server) {
        let mut added: Vec<String> = Vec::new();
        loop {
            let tools = proxy.tools().await.unwrap();
            added = server
                .update(|items| {
                    for name in &added {
                        items.remove_tool(name);
                    }
                    let mut names = Vec::new();
                    for tool in tools {
                        if !items.tools().any(|name| name == tool.name()) {
                            names.push(tool.name().to_owned());
                            items.add_tool(tool);
                        }
                    }
                    names
                })
                .unwrap();
            if changes.recv().await.is_none() {
                return;
            }
        }
    }
    async fn own(_: &Ctx, _: ()) -> Result<String> {
        Ok("own".into())
    }
    async fn foreign(_: &Ctx, _: ()) -> Result<String> {
        Ok("foreign".into())
    }
    let foreign = |name: &str| Tool::new(name, "Says a word", foreign);
    for (lifecycle, behind) in revisions() {
        let far = Server::builder("behind", "1").tool(foreign("other")).build().unwrap();
        let report = Tool::new("report", "Says a word", own);
        let near = Server::builder("front", "1").tool(report).build().unwrap();
        let (changed, changes) = mpsc::unbounded_channel();
        let config = config(behind).with_events(move |event| {
            if event == Event::ToolsChanged {
                let _ = changed.send(());
            }
        });
        let proxy = Proxy::connect_with(endpoint(&far), config).await.unwrap();
        let following = tokio::spawn(follow(proxy, changes, near.clone()));
        let connection = user("Ada", lifecycle).build().connect(endpoint(&near)).await.unwrap();
        let listed = async |expected: &[&str]| {
            for _ in 0..500 {
                let tools = connection.tools().await.unwrap();
                let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
                names.sort_unstable();
                if names == expected {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("{expected:?} are not listed: {lifecycle:?} {behind:?}");
        };
        listed(&["other", "report"]).await;
        far.add_tool(foreign("report")).unwrap();
        far.add_tool(foreign("third")).unwrap();
        listed(&["other", "report", "third"]).await;
        assert_eq!(text(&connection.call("report", json!({})).await.unwrap()), "own");
        assert_eq!(text(&connection.call("other", json!({})).await.unwrap()), "foreign");
        far.remove_tool("report");
        far.remove_tool("other");
        listed(&["report", "third"]).await;
        assert_eq!(text(&connection.call("report", json!({})).await.unwrap()), "own");
        following.abort();
    }
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
