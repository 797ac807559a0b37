//! Calls over MCP become HTTP requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use antiphon::testing::{Client, Revision};
use antiphon_openapi::{HttpLimits, OpenApi};
use axum::{http::header, response::IntoResponse as _};
use serde_json::json;

use crate::api::{Api, call, document, serve, text};

fn get_a() -> serde_json::Value {
    json!({"/a": {"get": {"operationId": "getA"}}})
}

#[tokio::test]
async fn arguments_go_where_the_document_puts_them() {
    let api = Api::ok().await;
    let openapi = document(json!({"/pets/{id}/toys": {"post": {
        "operationId": "addToy",
        "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
            {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
            {"name": "filter", "in": "query", "style": "deepObject", "explode": true, "schema": {"type": "object"}},
            {"name": "X-Trace", "in": "header", "schema": {"type": "integer"}},
            {"name": "lang", "in": "cookie", "schema": {"type": "string"}},
        ],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {
            "type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        }}}},
    }}}))
    .with_base_url(format!("{}/v1/", api.url));
    let arguments = json!({
        "id": "a/b c", "tags": ["x", "y&z"], "filter": {"color": "red"}, "X-Trace": 7, "lang": "de", "name": "Ball",
    });
    let server = serve(&openapi);
    for revision in Revision::BOTH {
        let mut client = Client::connect(&server, revision).await.unwrap();
        let talk = client.call("add_toy", arguments.clone()).await.unwrap();
        assert_eq!(talk.result["structuredContent"], json!({"ok": true}));
    }
    let received = &api.received()[0];
    assert_eq!(received.method, "POST");
    assert_eq!(received.target, "/v1/pets/a%2Fb%20c/toys?tags=x&tags=y%26z&filter[color]=red");
    assert_eq!(received.header("x-trace"), "7");
    assert_eq!(received.header("cookie"), "lang=de");
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.body, r#"{"name":"Ball"}"#);
}

#[tokio::test]
async fn invalid_arguments_send_nothing() {
    let api = Api::ok().await;
    let openapi = document(json!({"/pets/{id}": {"get": {
        "operationId": "getPet",
        "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
    }}}))
    .with_base_url(&api.url);
    let server = serve(&openapi);
    for arguments in
        [json!({}), json!({"id": 7}), json!({"id": ".."}), json!({"id": "a", "host": "evil.example"})]
    {
        assert!(call(&server, "get_pet", arguments).await.is_error());
    }
    assert!(api.received().is_empty());
}

#[tokio::test]
async fn forms_are_sent_as_forms() {
    let api = Api::ok().await;
    let openapi = document(json!({"/charges": {"post": {
        "operationId": "charge",
        "requestBody": {"required": true, "content": {"application/x-www-form-urlencoded": {
            "encoding": {
                "metadata": {"style": "deepObject", "explode": true},
                "tags": {"explode": false},
                "odd": {"style": "matrix"},
            },
            "schema": {"type": "object", "properties": {
                "amount": {"type": "integer"},
                "metadata": {"type": "object"},
                "tags": {"type": "array"},
                "odd": {"type": "array"},
            }},
        }}},
    }}}))
    .with_base_url(&api.url);
    let warnings = openapi.tools().unwrap().report.warnings;
    assert!(warnings.len() == 1 && warnings[0].text.contains("`odd` has an unknown style"), "{warnings:?}");
    let arguments = json!({"amount": 5, "metadata": {"order": "7"}, "tags": ["a", "b"], "odd": [1, 2]});
    call(&serve(&openapi), "charge", arguments).await;
    let received = api.only();
    assert_eq!(received.body, "amount=5&metadata[order]=7&tags=a,b&odd=1&odd=2");
    assert_eq!(received.header("content-type"), "application/x-www-form-urlencoded");
}

#[tokio::test]
async fn failures_of_the_api_are_tool_errors_with_a_limit() {
    let api = Api::start(|_| text(422, "x".repeat(10_000))).await;
    let openapi =
        document(get_a()).with_base_url(&api.url).with_limits(HttpLimits::new().with_error_bytes(100));
    let talk = call(&serve(&openapi), "get_a", json!({})).await;
    assert!(talk.is_error());
    assert_eq!(talk.text(), format!("GET /a failed with HTTP 422: {}", "x".repeat(100)));
}

#[tokio::test]
async fn large_and_slow_responses_are_tool_errors() {
    let api = Api::start(|_| text(200, "x".repeat(10_000))).await;
    let limits = HttpLimits::new().with_response_bytes(9_999);
    let openapi = document(get_a()).with_base_url(&api.url).with_limits(limits);
    let talk = call(&serve(&openapi), "get_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("larger than 9999 bytes"), "{}", talk.text());

    // A listener that accepts connections and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let limits = HttpLimits::new().with_timeout(Duration::from_millis(200));
    let openapi = document(get_a()).with_base_url(url).with_limits(limits);
    let talk = call(&serve(&openapi), "get_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("did not answer within 200ms"), "{}", talk.text());
}

#[tokio::test]
async fn a_large_response_to_a_request_with_effects_does_not_advise_a_second_request() {
    let api = Api::start(|_| text(201, "x".repeat(10_000))).await;
    let openapi = document(json!({"/a": {"post": {"operationId": "makeA"}}}))
        .with_base_url(&api.url)
        .with_limits(HttpLimits::new().with_response_bytes(9_999));
    let talk = call(&serve(&openapi), "make_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("larger than 9999 bytes"), "{}", talk.text());
    assert!(talk.text().contains("may have executed the request"), "{}", talk.text());
    assert!(!talk.text().contains("request fewer"), "{}", talk.text());
    assert_eq!(api.received().len(), 1);
}

#[tokio::test]
async fn redirects_stay_on_the_server() {
    let other = Api::ok().await;
    let elsewhere = other.url.clone();
    let api = Api::start(move |received| match received.target.as_str() {
        "/a" => (axum::http::StatusCode::FOUND, [(header::LOCATION, "/b".to_owned())]).into_response(),
        "/b" => (axum::http::StatusCode::FOUND, [(header::LOCATION, elsewhere.clone())]).into_response(),
        _ => text(404, "no"),
    })
    .await;
    let talk = call(&serve(&document(get_a()).with_base_url(&api.url)), "get_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("HTTP 302"), "{}", talk.text());
    assert_eq!(api.received().len(), 2);
    assert!(other.received().is_empty());
}

#[tokio::test]
async fn a_server_of_the_document_must_be_public() {
    let document = json!({
        "openapi": "3.0.0", "servers": [{"url": "https://127.0.0.1:9"}], "paths": get_a(),
    });
    let talk = call(&serve(&OpenApi::from_value(document).unwrap()), "get_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("not public"), "{}", talk.text());
    let document = json!({
        "openapi": "3.0.0", "servers": [{"url": "https://localhost:9"}], "paths": get_a(),
    });
    let talk = call(&serve(&OpenApi::from_value(document).unwrap()), "get_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("not on the public internet"), "{}", talk.text());
}

#[tokio::test]
async fn binary_responses_are_content_blocks() {
    let bytes = [0xff, 0xd8, 0x00];
    let api = Api::start(move |received| {
        let kind = if received.target == "/a" { "image/jpeg" } else { "application/zip" };
        ([(header::CONTENT_TYPE, kind)], bytes.to_vec()).into_response()
    })
    .await;
    let paths = json!({"/a": {"get": {"operationId": "getA"}}, "/b": {"get": {"operationId": "getB"}}});
    let server = serve(&document(paths).with_base_url(&api.url));
    let image = call(&server, "get_a", json!({})).await;
    assert_eq!(
        image.result["content"][0],
        json!({"type": "image", "data": "/9gA", "mimeType": "image/jpeg"})
    );
    let archive = call(&server, "get_b", json!({})).await;
    assert_eq!(archive.result["content"][0]["resource"]["blob"], "/9gA");
}

#[tokio::test]
async fn the_server_fills_the_idempotency_key() {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let api = Api::start(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        text(201, "")
    })
    .await;
    let parameter =
        json!([{"name": "Idempotency-Key", "in": "header", "required": true, "schema": {"type": "string"}}]);
    let openapi = document(json!({"/a": {"post": {"operationId": "make", "parameters": parameter}}}))
        .with_base_url(&api.url);
    let tools = openapi.tools().unwrap().tools;
    assert_eq!(tools[0].definition().input_schema["properties"], json!({}));
    let server = serve(&openapi);
    let first = call(&server, "make", json!({})).await;
    assert_eq!(first.text(), "POST /a succeeded with HTTP 201 and no content");
    call(&server, "make", json!({})).await;
    let received = api.received();
    let keys: Vec<&str> = received.iter().map(|it| it.header("idempotency-key")).collect();
    assert!(keys.iter().all(|key| !key.is_empty()) && keys[0] != keys[1], "{keys:?}");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}
