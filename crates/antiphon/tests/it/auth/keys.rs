//! Keys for deployments without an authorization server.

use antiphon::{
    auth::{ApiKey, Auth},
    testing::Revision,
};
use axum::Router;
use http::StatusCode;

use super::{
    INVALID, RESOURCE, app, assert_invalid, authority::Authority, call, send, signer::Signer, trusting, with,
    with_token,
};

const ADA: &str = "ada-4f1c2b7e9d8a6053";
const SECRET: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// A key and what `sha256sum` says of it.
const HASHED: (&str, &str) =
    ("correct-horse-battery-staple", "87cbebfeebc05f7c54ac9336c4b4bbec831227a641951a4bde7edd56020f8590");

fn keys() -> Router {
    let keys = [
        ApiKey::new("ada", &format!("{ADA}{SECRET}")).with_scopes(["use"]),
        ApiKey::hashed("nightly", HASHED.1).with_scopes(["use", "erase", "audit"]),
        ApiKey::new("nobody in particular", &"x".repeat(24)),
    ];
    let auth =
        Auth::builder(RESOURCE).with_api_keys(keys).with_api_key_header("x-api-key").with_scopes(["use"]);
    app(auth.build().unwrap())
}

#[tokio::test]
async fn key_names_its_bearer_in_either_header() {
    let app = keys();
    let key = format!("{ADA}{SECRET}");
    assert_eq!(with_token(&app, &key).await.text(), "ada ");
    let request = with(call(Revision::V2026_07_28, "whoami", None), "x-api-key", &key);
    assert_eq!(send(&app, request).await.text(), "ada ");
    for revision in Revision::BOTH {
        let answer = send(&app, call(revision, "whoami", Some(&format!("bearer {}", HASHED.0)))).await;
        // A 2025-11-25 client is past the guard, and must open a session first.
        let past = if revision == Revision::V2026_07_28 { 200 } else { 400 };
        assert_eq!(answer.status.as_u16(), past, "{}", answer.body);
    }
}

#[tokio::test]
async fn every_other_key_is_refused() {
    let app = keys();
    let key = format!("{ADA}{SECRET}");
    for wrong in [&key[..key.len() - 1], &format!("{key}0"), &key.to_uppercase(), HASHED.1, "x"] {
        let answer = with_token(&app, wrong).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{wrong}");
        let expected =
            r#"Bearer error="invalid_token", error_description="the access token is not valid", scope="use""#;
        assert_eq!(answer.challenge.unwrap(), expected);
    }
}

#[tokio::test]
async fn key_is_held_to_its_scopes() {
    let app = keys();
    let erase = |key: &str| call(Revision::V2026_07_28, "erase", Some(&format!("Bearer {key}")));
    assert_eq!(send(&app, erase(HASHED.0)).await.text(), "nightly ");
    let answer = send(&app, erase(&format!("{ADA}{SECRET}"))).await;
    let expected = r#"Bearer error="insufficient_scope", scope="use erase audit", error_description="the request needs scopes that were not granted""#;
    assert_eq!((answer.status, answer.challenge.as_deref()), (StatusCode::FORBIDDEN, Some(expected)));
    assert_eq!(with_token(&app, &"x".repeat(24)).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn keys_and_tokens_live_side_by_side() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let auth = trusting(&authority).with_api_keys([ApiKey::new("ci", SECRET).with_scopes(["use"])]);
    let app = app(auth.build().unwrap());
    assert_eq!(with_token(&app, SECRET).await.text(), "ci ");
    assert_eq!(authority.fetched(), 0);
    let token = signer.sign(&authority.claims());
    assert_eq!(with_token(&app, &token).await.text(), format!("{}#ada ada", authority.issuer));
    assert_invalid(&with_token(&app, &SECRET.replace('0', "1")).await, INVALID, "neither");
}
