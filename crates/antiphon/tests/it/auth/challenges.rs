//! What whoever is turned away is told.

use antiphon::auth::{ApiKey, Auth, Introspection, Issuer};
use antiphon::testing::Revision;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};

use super::{
    METADATA, RESOURCE, app, authority::Authority, call, send, signer::Signer, trusting, with, with_token,
};

#[tokio::test]
async fn request_without_a_credential_is_told_where_to_get_one() {
    let authority = Authority::start(&[]).await;
    let app = app(trusting(&authority).build().unwrap());
    for revision in Revision::BOTH {
        let answer = send(&app, call(revision, "whoami", None)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        // RFC 6750: no error where there was nothing to be wrong.
        assert_eq!(answer.challenge.unwrap(), format!(r#"Bearer {METADATA}, scope="use""#));
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["error"], "unauthorized");
    }
    for method in [Method::GET, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        let answer = send(&app, request.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    // Other schemes show nothing here, and a token in the address is not even looked at.
    let basic = send(&app, call(Revision::V2026_07_28, "whoami", Some("Basic YTpi"))).await;
    assert_eq!(basic.challenge.unwrap(), format!(r#"Bearer {METADATA}, scope="use""#));
    let mut request = call(Revision::V2026_07_28, "whoami", None);
    *request.uri_mut() = "/mcp?access_token=abc".parse().unwrap();
    assert_eq!(send(&app, request).await.challenge.unwrap(), format!(r#"Bearer {METADATA}, scope="use""#));
    assert_eq!(authority.fetched(), 0);
}

#[tokio::test]
async fn credential_that_cannot_be_read_is_a_bad_request() {
    let authority = Authority::start(&[]).await;
    let auth =
        trusting(&authority).with_max_token_bytes(100).with_api_key_header("x-api-key").build().unwrap();
    let app = app(auth);
    let twice = with(call(Revision::V2026_07_28, "whoami", Some("Bearer a")), "authorization", "Bearer b");
    let long = format!("Bearer {}", "x".repeat(101));
    for (request, why) in [
        (twice, "the request has a credential header more than once"),
        (call(Revision::V2026_07_28, "whoami", Some(&long)), "the access token or API key is too long"),
        (
            call(Revision::V2026_07_28, "whoami", Some("Bearer ")),
            "the access token or API key is empty or has invalid characters",
        ),
        (
            call(Revision::V2026_07_28, "whoami", Some("Bearer a b")),
            "the access token or API key is empty or has invalid characters",
        ),
        (
            with(call(Revision::V2026_07_28, "whoami", None), "x-api-key", "two words"),
            "the access token or API key is empty or has invalid characters",
        ),
    ] {
        let answer = send(&app, request).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{why}");
        let expected =
            format!(r#"Bearer error="invalid_request", error_description="{why}", {METADATA}, scope="use""#);
        assert_eq!(answer.challenge.unwrap(), expected);
    }
    assert_eq!(authority.fetched(), 0);
}

#[tokio::test]
async fn token_with_too_little_is_told_what_it_lacks() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let app = app(trusting(&authority).build().unwrap());
    let answer = with_token(&app, &key.sign(&authority.claims_of("ada", "other"))).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let expected = format!(
        r#"Bearer error="insufficient_scope", scope="use", {METADATA}, error_description="the request needs scopes that were not granted""#
    );
    assert_eq!(answer.challenge.unwrap(), expected);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["error"], "insufficient_scope");
}

#[tokio::test]
async fn metadata_say_what_rfc_9728_wants_wherever_they_are_looked_for() {
    let auth = Auth::builder(RESOURCE)
        .with_issuer(Issuer::new("https://a.example"))
        .with_introspection(Introspection::new("https://b.example/tenant", "id", "secret"))
        .with_scopes(["use"])
        .with_operation_scopes("prompts/get", ["prompts"])
        .with_resource_name("Reports")
        .with_documentation("https://docs.example")
        .build()
        .unwrap();
    let app = app(auth);
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
        let answer = send(&app, request).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            said,
            json!({
                "resource": RESOURCE,
                "authorization_servers": ["https://a.example", "https://b.example/tenant"],
                "bearer_methods_supported": ["header"],
                // Not what a step up may ask for: that would have clients ask for everything at once.
                "scopes_supported": ["use"],
                "resource_name": "Reports",
                "resource_documentation": "https://docs.example",
            })
        );
    }
}

#[tokio::test]
async fn metadata_are_where_a_proxy_and_where_a_neighbour_expects_them() {
    let status = async |app: axum::Router, path: &str| {
        send(&app, Request::get(path).body(axum::body::Body::empty()).unwrap()).await.status
    };
    let auth = |path: &str| {
        Auth::builder(format!("https://mcp.example.com{path}"))
            .with_issuer(Issuer::new("https://a.example"))
            .with_root_metadata(path != "/b")
            .build()
            .unwrap()
    };
    // The proxy serves it at `/public/mcp`, and takes the first half off.
    let well_known = "/.well-known/oauth-protected-resource";
    for path in ["", "/mcp", "/public/mcp"] {
        let app = app(auth("/public/mcp"));
        assert_eq!(status(app, &format!("{well_known}{path}")).await, StatusCode::OK, "{path}");
    }
    // Two resources on one host.
    let both = auth("/a").router().merge(auth("/b").router());
    for path in ["", "/a", "/b"] {
        assert_eq!(status(both.clone(), &format!("{well_known}{path}")).await, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn server_of_keys_alone_sends_nobody_to_an_authorization_server() {
    let auth = Auth::builder(RESOURCE).with_api_keys([ApiKey::new("ci", &"k".repeat(32))]).build().unwrap();
    let app = app(auth);
    let answer = send(&app, call(Revision::V2026_07_28, "whoami", None)).await;
    assert_eq!(answer.challenge.unwrap(), "Bearer");
    let path = "/.well-known/oauth-protected-resource";
    let answer = send(&app, Request::get(path).body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn server_without_auth_asks_nobody() {
    use antiphon::http::HttpConfig;
    let server = super::tools().build().unwrap();
    let app = server.router(HttpConfig::default());
    // The tool has scopes, which count for nothing where nobody could have been granted any.
    for tool in ["whoami", "erase"] {
        assert_eq!(send(&app, call(Revision::V2026_07_28, tool, None)).await.text(), "nobody ");
    }
}

#[tokio::test]
async fn pipe_is_asked_nothing_even_where_the_network_is() -> antiphon::Result<()> {
    let authority = Authority::start(&[]).await;
    let server = super::tools().with_auth(trusting(&authority).build()?).build()?;
    for revision in Revision::BOTH {
        let mut client = crate::checked::connect(&server, revision).await?;
        for tool in ["whoami", "erase"] {
            let talk = client.call(tool, json!({})).await?;
            assert_eq!(talk.result["content"][0]["text"], "nobody ");
        }
    }
    Ok(())
}
