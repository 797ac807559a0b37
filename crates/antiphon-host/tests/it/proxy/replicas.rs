//! Runs that another process continues, and requests that come late.

use std::{sync::atomic::Ordering, time::Duration};

use antiphon::{
    Server,
    seal::{KeyRing, SealConfig},
};
use antiphon_host::{Connection, Lifecycle, Proxy, ProxyConfig};
use serde_json::{Value, json};

use super::{config, server, user};
use crate::support::endpoint;

/// One of several replicas of the server in front.
async fn replica(behind: &Server, config: ProxyConfig) -> Connection {
    let proxy = Proxy::connect_with(endpoint(behind), config).await.unwrap();
    let seal = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]));
    let front = proxy.add_to(Server::builder("front", "1.0.0").with_seal(seal)).await.unwrap();
    let host = user("Ada", Lifecycle::Modern).build();
    host.connect(endpoint(&front.build().unwrap())).await.unwrap()
}

/// Calls a tool that asks who Ada is, and returns the next request, with the answer.
pub(super) async fn asked(replica: &Connection, tool: &str) -> Value {
    let result = replica.request("tools/call", json!({"name": tool, "arguments": {}})).await.unwrap();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let asks = result["inputRequests"].as_object().unwrap();
    let (key, request) = asks.iter().next().unwrap();
    assert_eq!(request["params"]["message"], "Who are you?");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    json!({
        "name": tool, "arguments": {},
        "requestState": result["requestState"], "inputResponses": {key: answer},
    })
}

pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn another_replica_continues_a_call_to_a_server_of_2026() {
    let (behind, seen) = server::server();
    let one = replica(&behind, config(Lifecycle::Modern)).await;
    let two = replica(&behind, config(Lifecycle::Modern)).await;
    let answered = asked(&one, "greet").await;
    let result = two.request("tools/call", answered).await.unwrap();
    assert_eq!(text(&result), "Hello, Ada!");
    assert_eq!(seen.greetings.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn another_replica_cannot_continue_a_call_to_a_server_of_2025() {
    let (behind, seen) = server::server();
    let one = replica(&behind, config(Lifecycle::Legacy)).await;
    let two = replica(&behind, config(Lifecycle::Legacy)).await;
    let answered = asked(&one, "greet").await;
    let refused = two.request("tools/call", answered.clone()).await.unwrap();
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains("cannot be continued: it uses MCP 2025-11-25"), "{refused}");
    assert_eq!(seen.greetings.load(Ordering::SeqCst), 0);
    // The replica that has the call continues it.
    assert_eq!(text(&one.request("tools/call", answered).await.unwrap()), "Hello, Ada!");
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_result_and_the_tool_runs_once() {
    let (behind, seen) = server::server();
    let front = replica(&behind, config(Lifecycle::Legacy)).await;
    let answered = asked(&front, "greet").await;
    let (one, two) = tokio::join!(
        front.request("tools/call", answered.clone()),
        front.request("tools/call", answered.clone())
    );
    assert_eq!((text(&one.unwrap()), text(&two.unwrap())), ("Hello, Ada!", "Hello, Ada!"));
    let mut changed = answered;
    let key = changed["inputResponses"].as_object().unwrap().keys().next().unwrap().clone();
    changed["inputResponses"][key] = json!({"action": "accept", "content": {"name": "Eve"}});
    let later = front.request("tools/call", changed).await.unwrap();
    assert_eq!(text(&later), "Hello, Ada!", "the first answer counts");
    assert_eq!(seen.greetings.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_waits_for_the_caller_as_long_as_an_answer_can() {
    let (behind, _) = server::server();
    let front = replica(&behind, config(Lifecycle::Legacy)).await;
    let answered = asked(&front, "impatient").await;
    // The tool ends after 10 seconds. The caller has 15 minutes.
    tokio::time::sleep(Duration::from_secs(14 * 60)).await;
    let result = front.request("tools/call", answered.clone()).await.unwrap();
    assert_eq!((result["isError"] == true, text(&result)), (false, "nobody"));
    // A repeated request gets the same result for a minute.
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(text(&front.request("tools/call", answered.clone()).await.unwrap()), "nobody");
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    let refused = front.request("tools/call", answered).await.unwrap();
    assert!(text(&refused).contains("cannot be continued"), "{refused}");
}
