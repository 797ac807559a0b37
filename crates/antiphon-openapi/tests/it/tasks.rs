//! Calls as tasks, which the server retries.

use std::time::Duration;

use antiphon_openapi::{HttpLimits, OpenApi};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use crate::api::{Api, call_task, document, serve_tasks, silence, text};

/// An operation of an API that does not answer within the time limit.
fn impatient(api: &Api, method: &str, parameters: Value) -> OpenApi {
    let mut operation = json!({"operationId": "change"});
    operation["parameters"] = parameters;
    document(json!({"/a": {method: operation}}))
        .with_base_url(&api.url)
        .with_limits(HttpLimits::new().with_timeout(Duration::from_millis(200)))
}

#[tokio::test]
async fn a_task_does_not_repeat_a_request_whose_outcome_is_unknown() {
    for method in ["post", "put", "patch", "delete"] {
        let api = Api::start(|_| silence()).await;
        let (_, result) =
            call_task(&serve_tasks(&impatient(&api, method, json!([]))), "change", json!({})).await;
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.to_string().contains("may have executed the request"), "{result}");
        assert_eq!(api.received().len(), 1, "{method}");
    }
}

fn redirect(status: u16, location: &'static str) -> Response {
    (StatusCode::from_u16(status).unwrap(), [(header::LOCATION, location)]).into_response()
}

#[tokio::test]
async fn a_redirect_after_a_request_with_effects_is_not_followed() {
    for status in [301, 302, 303] {
        for location in ["/b", "https://elsewhere.example/b"] {
            let api = Api::start(move |_| redirect(status, location)).await;
            let server = serve_tasks(&impatient(&api, "post", json!([])));
            let (_, result) = call_task(&server, "change", json!({})).await;
            assert_eq!(result["isError"], true, "{result}");
            let result = result.to_string();
            assert!(result.contains(&format!("HTTP {status}")), "{result}");
            assert!(result.contains("may have executed the request"), "{result}");
            assert_eq!(api.received().len(), 1, "{status} {location}");
        }
    }
}

#[tokio::test]
async fn a_redirect_that_repeats_a_request_is_followed() {
    for status in [307, 308] {
        let api = Api::start(move |received| match received.target.as_str() {
            "/a" => redirect(status, "/b"),
            _ => text(201, ""),
        })
        .await;
        let server = serve_tasks(&impatient(&api, "post", json!([])));
        let (_, result) = call_task(&server, "change", json!({})).await;
        assert!(result.to_string().contains("HTTP 201"), "{result}");
        let received = api.received();
        let sent: Vec<(&str, &str)> =
            received.iter().map(|it| (it.method.as_str(), it.target.as_str())).collect();
        assert_eq!(sent, [("POST", "/a"), ("POST", "/b")]);
    }
}

#[tokio::test]
async fn a_task_repeats_a_request_that_the_api_can_recognize() {
    let header = json!([{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}]);
    let api = Api::start(|_| silence()).await;
    let (_, result) = call_task(&serve_tasks(&impatient(&api, "post", header)), "change", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    let received = api.received();
    let keys: Vec<&str> = received.iter().map(|it| it.header("idempotency-key")).collect();
    assert_eq!(keys.len(), 3);
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn a_task_repeats_a_request_without_effects() {
    let api = Api::start(|_| silence()).await;
    let (_, result) = call_task(&serve_tasks(&impatient(&api, "get", json!([]))), "change", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(api.received().len(), 3);
}

#[tokio::test]
async fn the_journal_contains_the_response_of_a_request_with_effects() {
    for (method, journal) in [("post", vec![("step request", "done")]), ("get", Vec::new())] {
        let api = Api::ok().await;
        let server = serve_tasks(&impatient(&api, method, json!([])));
        let (id, result) = call_task(&server, "change", json!({})).await;
        assert_eq!(result["structuredContent"], json!({"ok": true}));
        let run = server.runs().unwrap().inspect(&format!("anyone/{id}")).await.unwrap().unwrap();
        let entries: Vec<(&str, &str)> =
            run.journal.iter().map(|entry| (entry.op.as_str(), entry.outcome)).collect();
        assert_eq!(entries, journal, "{method}");
        assert_eq!(api.received().len(), 1);
    }
}
