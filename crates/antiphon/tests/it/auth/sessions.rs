//! A session of 2025-11-25 is of whoever began it, with a backend and without.

use antiphon::{ServerBuilder, http::HttpConfig, testing::Revision};
use antiphon_store::{Memory, QueueConfig};
use axum::Router;
use http::{Method, StatusCode};
use serde_json::json;

use super::{Answer, authority::Authority, caller::Caller, send, signer::Signer, tools, trusting};

/// The same server, with its sessions in its own memory and in a store.
async fn worlds() -> (Vec<Router>, Signer, Authority) {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let serve = |with: &dyn Fn(ServerBuilder) -> ServerBuilder| {
        let auth = trusting(&authority).build().unwrap();
        with(tools().with_auth(auth)).build().unwrap().router(HttpConfig::default())
    };
    let alone = serve(&|builder| builder);
    let backed = serve(&|builder| builder.with_backend(Memory::default().backend(QueueConfig::default())));
    (vec![alone, backed], signer, authority)
}

fn assert_not_there(answer: &Answer, about: &str) {
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "{about}: {}", answer.body);
    assert_eq!(answer.body, "Not Found: Session not found", "{about}");
}

#[tokio::test]
async fn session_of_somebody_else_is_not_there_for_any_kind_of_request() {
    let (apps, signer, authority) = worlds().await;
    let token = |who: &str| signer.sign(&authority.claims_of(who, "use"));
    for app in &apps {
        let ada = Caller::new(app, &token("ada"), Revision::V2025_11_25).await;
        let eve = ada.with(&token("eve"));
        let never = Caller { session: Some("never".into()), ..eve.clone() };
        for caller in [&eve, &never] {
            assert_not_there(
                &caller.send("tools/call", json!({"name": "whoami", "arguments": {}})).await,
                "a call",
            );
            assert_not_there(&caller.send("ping", json!({})).await, "a ping");
            assert_not_there(&caller.send("notifications/cancelled", json!({})).await, "a notification");
            let stream = caller.plain(Method::GET, "/mcp", None);
            assert_not_there(&send(app, with_stream(stream)).await, "a stream");
            assert_not_there(&send(app, caller.plain(Method::DELETE, "/mcp", None)).await, "an end");
            let answer =
                caller.plain(Method::POST, "/mcp", Some(json!({"jsonrpc": "2.0", "id": 0, "result": {}})));
            assert_not_there(&send(app, with_stream(answer)).await, "an answer");
        }
        // It is still Ada's, with whichever token of hers.
        let answer = ada.with(&token("ada")).call("whoami").await;
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().ends_with("#ada ada"), "{answer}");
        let ended = send(app, ada.plain(Method::DELETE, "/mcp", None)).await;
        assert_eq!(ended.status, StatusCode::OK, "{}", ended.body);
        assert_not_there(&ada.send("ping", json!({})).await, "over");
    }
}

fn with_stream(mut request: http::Request<axum::body::Body>) -> http::Request<axum::body::Body> {
    let accept = "application/json, text/event-stream".parse().unwrap();
    request.headers_mut().insert("accept", accept);
    request
}

/// An `initialize` begins a session whatever version it names, so naming a version without sessions is no way around.
#[tokio::test]
async fn naming_a_revision_without_sessions_is_no_way_into_one() {
    let (apps, signer, authority) = worlds().await;
    let token = |who: &str| signer.sign(&authority.claims_of(who, "use"));
    for app in &apps {
        let ada = Caller::new(app, &token("ada"), Revision::V2025_11_25).await;
        let eve = ada.with(&token("eve"));
        let hello = json!({"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        for method in [None, Some("initialize")] {
            let mut request = eve.request("initialize", hello.clone());
            let headers = request.headers_mut();
            headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
            if let Some(method) = method {
                headers.insert("mcp-method", method.parse().unwrap());
            }
            assert_not_there(&send(app, request).await, "an `initialize` of a new revision");
        }
        // Everything else of a new revision has no session, whatever its headers say, as the specification wants.
        let mut request = Caller { revision: Revision::V2026_07_28, ..eve.clone() }
            .request("tools/call", json!({"name": "whoami", "arguments": {}}));
        request.headers_mut().insert("mcp-session-id", ada.session.as_deref().unwrap().parse().unwrap());
        let answer = send(app, request).await;
        assert!(answer.text().ends_with("#eve eve"), "{}", answer.body);
        assert_eq!(answer.headers.get("mcp-session-id"), None);
        // Whoever has no session yet may begin one so.
        let mut request = Caller { session: None, ..eve.clone() }.request("initialize", hello);
        request.headers_mut().insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
        let begun = send(app, request).await;
        let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let eve = Caller { session: Some(session), ..eve };
        assert_eq!(eve.send("notifications/initialized", json!({})).await.status, StatusCode::ACCEPTED);
        let answer = eve.call("whoami").await;
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().ends_with("#eve eve"), "{answer}");
        assert_not_there(&eve.with(&token("ada")).send("ping", json!({})).await, "hers now");
    }
}

/// The guard is for servers that know their callers; others are as they were.
#[tokio::test]
async fn session_of_nobody_in_particular_is_anybodys() {
    let app = tools().build().unwrap().router(HttpConfig::default());
    let first = Caller::new(&app, "whatever", Revision::V2025_11_25).await;
    assert_eq!(first.with("another").call("whoami").await["result"]["content"][0]["text"], "nobody ");
}

/// What a middleware of one's own says counts the same.
#[tokio::test]
async fn session_is_bound_to_a_principal_of_ones_own_too() {
    let by_header = |parts: &http::request::Parts| {
        parts.headers.get("authorization").and_then(|it| it.to_str().ok()).map(ToOwned::to_owned)
    };
    let app = tools().with_principal(by_header).build().unwrap().router(HttpConfig::default());
    let ada = Caller::new(&app, "ada", Revision::V2025_11_25).await;
    assert_not_there(&ada.with("eve").send("ping", json!({})).await, "Eve");
    assert_eq!(ada.call("whoami").await["result"]["content"][0]["text"], "Bearer ada ");
}
