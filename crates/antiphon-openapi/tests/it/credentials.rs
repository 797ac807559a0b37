//! Credentials reach the API, and no model.

use antiphon::{
    http::HttpConfig,
    testing::{Client, Revision},
};
use antiphon_openapi::{Credential, HeaderName, HttpLimits, OpenApi};
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use crate::api::{Api, call, serve, text};

const SECRET: &str = "s3cret-value";

fn guarded(api: &Api, scheme: Value) -> OpenApi {
    let mut document = json!({
        "openapi": "3.0.3",
        "security": [{"key": []}],
        "paths": {"/a": {"get": {"operationId": "getA", "parameters": [
            {"name": "api_key", "in": "query", "schema": {"type": "string"}},
            {"name": "X-Key", "in": "header", "schema": {"type": "string"}},
        ]}}},
        "components": {"securitySchemes": {}},
    });
    document["components"]["securitySchemes"]["key"] = scheme;
    OpenApi::from_value(document).unwrap().with_base_url(&api.url)
}

#[tokio::test]
async fn the_security_scheme_decides_where_a_credential_goes() {
    let token = || Credential::token(SECRET);
    for (scheme, credential, header, value) in [
        (json!({"type": "apiKey", "in": "header", "name": "X-Key"}), token(), "x-key", SECRET.to_owned()),
        (
            json!({"type": "apiKey", "in": "cookie", "name": "sid"}),
            token(),
            "cookie",
            "sid=s3cret-value".into(),
        ),
        (json!({"type": "http", "scheme": "bearer"}), token(), "authorization", format!("Bearer {SECRET}")),
        (json!({"type": "oauth2", "flows": {}}), token(), "authorization", format!("Bearer {SECRET}")),
        (
            json!({"type": "http", "scheme": "Basic"}),
            Credential::basic("ada", "pw"),
            "authorization",
            "Basic YWRhOnB3".into(),
        ),
    ] {
        let api = Api::ok().await;
        let openapi = guarded(&api, scheme).with_credential("key", credential);
        let talk = call(&serve(&openapi), "get_a", json!({})).await;
        assert!(!talk.is_error(), "{}", talk.text());
        assert_eq!(api.only().header(header), value);
    }
}

#[tokio::test]
async fn a_credential_is_in_no_schema_result_or_error() {
    let api = Api::start(|received| text(200, &received.target)).await;
    let scheme = json!({"type": "apiKey", "in": "query", "name": "api_key"});
    let openapi = guarded(&api, scheme).with_credential("key", Credential::token(SECRET));
    let server = serve(&openapi);
    let mut client = Client::connect(&server, Revision::V2025_11_25).await.unwrap();
    let tools = client.request("tools/list", json!({})).await.unwrap();
    assert!(!tools.to_string().contains("api_key"), "{tools}");
    let talk = client.call("get_a", json!({})).await.unwrap();
    assert_eq!(api.only().target, format!("/a?api_key={SECRET}"));
    assert!(!talk.result.to_string().contains(SECRET), "{}", talk.result);
    // The model cannot replace the credential.
    assert!(client.call("get_a", json!({"api_key": "mine"})).await.unwrap().is_error());
    assert_eq!(api.received().len(), 1);

    // The error of the HTTP client contains no URL.
    let nowhere = guarded(&api, json!({"type": "apiKey", "in": "query", "name": "api_key"}))
        .with_base_url("http://127.0.0.1:1")
        .with_credential("key", Credential::token(SECRET));
    let talk = call(&serve(&nowhere), "get_a", json!({})).await;
    assert!(talk.is_error() && !talk.text().contains(SECRET), "{}", talk.text());
}

#[tokio::test]
async fn an_encoded_credential_is_in_no_result_or_error() {
    let secret = "s3/cr+t=";
    let forms = ["s3/cr+t=", "s3\\/cr", "s3%2Fcr%2Bt%3D", "czMvY3IrdD0="];
    for status in [200, 500] {
        for (content_type, body) in [
            ("text/plain", "key s3/cr+t="),
            ("text/plain", "/a?api_key=s3%2Fcr%2Bt%3D"),
            ("text/plain", "czMvY3IrdD0="),
            ("text/plain", r#"{"key": "s3\/cr+t="}"#),
            ("application/json", r#"{"key": "s3\/cr\u002bt=", "other": 1}"#),
            ("application/json", r#"{"keys": [{"s3/cr+t=": {"url": "/a?api_key=s3%2Fcr%2Bt%3D"}}]}"#),
            // Not complete, as a long error response is.
            ("application/json", r#"{"key": "s3\/cr+t=", "oth"#),
        ] {
            let api = Api::start(move |_| {
                let status = axum::http::StatusCode::from_u16(status).unwrap();
                (status, [("content-type", content_type)], body).into_response()
            })
            .await;
            let scheme = json!({"type": "apiKey", "in": "query", "name": "api_key"});
            let openapi = guarded(&api, scheme).with_credential("key", Credential::token(secret));
            let talk = call(&serve(&openapi), "get_a", json!({})).await;
            assert_eq!(talk.is_error(), status == 500);
            let texts = [talk.text(), talk.result["structuredContent"].to_string()];
            for text in &texts {
                assert!(!forms.iter().any(|form| text.contains(form)), "{body}: {text}");
            }
            assert!(talk.text().contains("[credential]"), "{body}: {}", talk.text());
        }
    }
}

#[tokio::test]
async fn no_part_of_a_credential_is_at_the_end_of_a_cut_error() {
    let api = Api::start(|_| text(500, format!("0123456789{SECRET} and more"))).await;
    let scheme = json!({"type": "apiKey", "in": "query", "name": "api_key"});
    let openapi = guarded(&api, scheme)
        .with_credential("key", Credential::token(SECRET))
        .with_limits(HttpLimits::new().with_error_bytes(20));
    let talk = call(&serve(&openapi), "get_a", json!({})).await;
    assert_eq!(talk.text(), "GET /a failed with HTTP 500: 0123456789");
}

#[test]
fn parameters_of_all_security_schemes_are_no_arguments() {
    let parameters = json!([
        {"name": "api_key", "in": "query", "schema": {"type": "string"}},
        {"name": "q", "in": "query", "schema": {"type": "string"}},
    ]);
    let document = json!({
        "openapi": "3.1.0",
        "servers": [{"url": "https://api.example.com"}],
        "security": [{"key": []}, {"oauth": []}],
        "paths": {
            "/a": {"get": {"parameters": parameters}},
            "/b": {"get": {"parameters": parameters, "servers": [{"url": "https://other.example"}]}},
        },
        "components": {"securitySchemes": {
            "key": {"type": "apiKey", "in": "query", "name": "api_key"},
            "oauth": {"type": "oauth2", "flows": {}},
        }},
    });
    let openapi = OpenApi::from_value(document).unwrap();
    for openapi in [
        openapi.clone().with_credential("key", Credential::token(SECRET)),
        openapi.clone().with_credential("oauth", Credential::token(SECRET)),
        openapi,
    ] {
        let tools = openapi.tools().unwrap().tools;
        assert_eq!(tools.len(), 2);
        for tool in tools {
            let properties = &tool.definition().input_schema["properties"];
            assert_eq!(*properties, json!({"q": {"type": "string"}}), "{}", tool.name());
        }
    }
}

#[tokio::test]
async fn an_object_with_free_fields_cannot_replace_a_credential() {
    for (place, scheme) in [
        ("query", json!({"type": "apiKey", "in": "query", "name": "api_key"})),
        ("cookie", json!({"type": "apiKey", "in": "cookie", "name": "api_key"})),
    ] {
        let api = Api::ok().await;
        let mut document = json!({
            "openapi": "3.0.3",
            "security": [{"key": []}],
            "paths": {"/a": {"get": {"operationId": "getA", "parameters": [
                {"name": "filter", "in": place, "schema": {"type": "object"}},
            ]}}},
            "components": {"securitySchemes": {}},
        });
        document["components"]["securitySchemes"]["key"] = scheme;
        let openapi = OpenApi::from_value(document).unwrap().with_base_url(&api.url);
        let openapi = openapi.with_credential("key", Credential::token(SECRET));
        let arguments = json!({"filter": {"api_key": "mine", "color": "red"}});
        let talk = call(&serve(&openapi), "get_a", arguments).await;
        assert!(!talk.is_error(), "{}", talk.text());
        let received = api.only();
        match place {
            "query" => assert_eq!(received.target, format!("/a?color=red&api_key={SECRET}")),
            _ => assert_eq!(received.header("cookie"), format!("color=red; api_key={SECRET}")),
        }
    }
}

#[tokio::test]
async fn without_a_credential_the_report_has_a_warning() {
    let api = Api::ok().await;
    let openapi = guarded(&api, json!({"type": "http", "scheme": "bearer"}));
    let warnings = openapi.tools().unwrap().report.warnings;
    assert!(warnings.iter().any(|it| it.text.contains("`key` has no credential")), "{warnings:?}");
}

#[tokio::test]
async fn a_function_returns_a_token_for_each_call() {
    let api = Api::ok().await;
    let openapi = guarded(&api, json!({"type": "openIdConnect"})).with_credential(
        "key",
        Credential::from_fn(|caller| async move {
            Ok(format!("for-{}", caller.principal.as_deref().unwrap_or("nobody")))
        }),
    );
    call(&serve(&openapi), "get_a", json!({})).await;
    assert_eq!(api.only().header("authorization"), "Bearer for-nobody");

    let failing = guarded(&api, json!({"type": "openIdConnect"})).with_credential(
        "key",
        Credential::from_fn(|_| async { Err(antiphon::Error::tool("sign in first")) }),
    );
    let talk = call(&serve(&failing), "get_a", json!({})).await;
    assert!(talk.is_error());
    assert_eq!(talk.text(), "sign in first");
    assert_eq!(api.received().len(), 1);
}

#[tokio::test]
async fn the_token_of_the_caller_is_only_passed_on_from_the_named_header() {
    let api = Api::start(|_| axum::Json(json!({"ok": true})).into_response()).await;
    let credential = Credential::from_caller_header(HeaderName::from_static("x-api-token"));
    let openapi =
        guarded(&api, json!({"type": "http", "scheme": "bearer"})).with_credential("key", credential);
    let server = serve(&openapi);
    // Not over HTTP: there is no header.
    let talk = call(&server, "get_a", json!({})).await;
    assert!(talk.is_error() && talk.text().contains("`x-api-token`"), "{}", talk.text());
    assert!(api.received().is_empty());

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = server.router(HttpConfig::default());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "get_a",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    let response = reqwest::Client::new()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "get_a")
        .header("authorization", "Bearer of-the-mcp-server")
        .header("x-api-token", "callers-own")
        .body(message.to_string())
        .send()
        .await
        .unwrap();
    let body = response.text().await.unwrap();
    assert!(body.contains(r#""ok""#), "{body}");
    assert_eq!(api.only().header("authorization"), "Bearer callers-own");
}
