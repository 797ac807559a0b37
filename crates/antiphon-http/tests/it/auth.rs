//! `Auth::layer` before a plain axum router.

use antiphon_http::auth::{ApiKey, Auth, Identity};
use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    routing::get,
};
use http::{HeaderMap, Request, Response, StatusCode, header};
use tower::ServiceExt as _;

const SECRET: &str = "0123456789abcdef01234567";
const READER: &str = "fedcba9876543210fedcba98";

async fn whoami(Extension(caller): Extension<Identity>, headers: HeaderMap) -> String {
    assert!(!headers.contains_key(header::AUTHORIZATION), "handlers do not see credentials");
    caller.principal().to_owned()
}

fn app() -> Router {
    let keys = [
        ApiKey::new("ada", SECRET).with_scopes(["reports:read", "reports:write"]),
        ApiKey::new("bob", READER).with_scopes(["reports:read"]),
    ];
    let auth = Auth::builder("https://api.example.com/")
        .with_api_keys(keys)
        .with_scopes(["reports:read"])
        .build()
        .expect("the configuration is valid");
    let admin = Router::new()
        .route("/admin", get(async || "done"))
        .layer(auth.layer().with_scopes(["reports:write"]));
    Router::new()
        .route("/whoami", get(whoami))
        .layer(auth.layer())
        .merge(admin)
        .route("/open", get(async || "open"))
}

async fn send(path: &str, secret: Option<&str>) -> Response<Body> {
    let mut request = Request::get(path);
    if let Some(secret) = secret {
        request = request.header(header::AUTHORIZATION, format!("Bearer {secret}"));
    }
    app().oneshot(request.body(Body::empty()).expect("a request")).await.expect("a response")
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), 4096).await.expect("a body").to_vec()).expect("text")
}

#[tokio::test]
async fn layer_names_the_caller_to_a_plain_handler() {
    let response = send("/whoami", Some(SECRET)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await, "ada");
}

#[tokio::test]
async fn layer_challenges_a_request_without_valid_credentials() {
    for secret in [None, Some("not-a-secret-of-anybody-here")] {
        let response = send("/whoami", secret).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{secret:?}");
        let challenge = response.headers()[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.starts_with("Bearer"), "{challenge}");
    }
    assert_eq!(send("/open", None).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn layer_requires_its_own_scopes() {
    assert_eq!(send("/admin", Some(SECRET)).await.status(), StatusCode::OK);
    let response = send("/admin", Some(READER)).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let challenge = response.headers()[header::WWW_AUTHENTICATE].to_str().unwrap();
    assert!(challenge.contains("insufficient_scope") && challenge.contains("reports:write"), "{challenge}");
}
