//! Certificates that a proxy has checked.

use std::net::SocketAddr;

use antiphon::{
    auth::{ApiKey, Auth, Proxy},
    http::HttpConfig,
    testing::Revision,
};
use axum::{Router, extract::ConnectInfo};
use http::{Request, StatusCode};
use tokio::net::TcpListener;

use super::{RESOURCE, app, call, send, tools, with};

fn believing(proxy: Proxy) -> Auth {
    Auth::builder(RESOURCE).with_proxy(proxy.with_scopes(["use"])).with_scopes(["use"]).build().unwrap()
}

fn proxy() -> Proxy {
    Proxy::new("x-client-subject", ["10.1.0.0/16", "::1"]).with_verified("x-client-verify", "SUCCESS")
}

/// A request from somewhere, that says who sends it.
fn from(peer: Option<&str>, headers: &[(&'static str, &str)]) -> Request<axum::body::Body> {
    let mut request = call(Revision::V2026_07_28, "whoami", None);
    if let Some(peer) = peer {
        let peer: SocketAddr = peer.parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
    }
    headers.iter().copied().fold(request, |request, (name, value)| with(request, name, value))
}

const ADA: (&str, &str) = ("x-client-subject", "CN=ada,O=Example");
const CHECKED: (&str, &str) = ("x-client-verify", "SUCCESS");

#[tokio::test]
async fn proxy_is_believed_in_its_networks() {
    let app = app(believing(proxy()));
    for peer in ["10.1.2.3:80", "[::1]:80", "[::ffff:10.1.2.3]:80"] {
        let answer = send(&app, from(Some(peer), &[ADA, CHECKED])).await;
        assert_eq!(answer.text(), "proxy#CN=ada,O=Example ", "{peer}");
    }
}

#[tokio::test]
async fn proxy_is_believed_nowhere_else_and_nothing_it_has_not_checked() {
    let app = app(believing(proxy()));
    let from_inside = Some("10.1.2.3:80");
    for (request, about) in [
        (from(Some("10.2.0.1:80"), &[ADA, CHECKED]), "another network"),
        (from(Some("[::2]:80"), &[ADA, CHECKED]), "another network"),
        (from(None, &[ADA, CHECKED]), "nobody knows from where"),
        (from(from_inside, &[ADA]), "not checked"),
        (from(from_inside, &[ADA, ("x-client-verify", "NONE")]), "checked in vain"),
        (from(from_inside, &[CHECKED]), "nobody named"),
        (from(from_inside, &[("x-client-subject", " "), CHECKED]), "nobody named"),
        (from(from_inside, &[ADA, ("x-client-subject", "CN=eve"), CHECKED]), "two named"),
        (from(from_inside, &[ADA, CHECKED, ("x-client-verify", "NONE")]), "checked twice"),
        (from(from_inside, &[]), "nothing at all"),
    ] {
        let answer = send(&app, request).await;
        assert_eq!(
            (answer.status, answer.challenge.as_deref()),
            (StatusCode::UNAUTHORIZED, Some(r#"Bearer scope="use""#)),
            "{about}"
        );
    }
}

#[tokio::test]
async fn name_may_be_read_out_of_more() {
    // As Envoy writes it.
    let uri =
        |value: &str| value.split(';').find_map(|field| field.strip_prefix("URI=")).map(ToOwned::to_owned);
    let app = app(believing(Proxy::new("x-forwarded-client-cert", ["10.0.0.1"]).with_name(uri)));
    let header = "x-forwarded-client-cert";
    let request = from(Some("10.0.0.1:9"), &[(header, "Hash=468ed33b;URI=spiffe://example.com/ns/a/sa/b")]);
    assert_eq!(send(&app, request).await.text(), "proxy#spiffe://example.com/ns/a/sa/b ");
    let request = from(Some("10.0.0.1:9"), &[(header, "Hash=468ed33b")]);
    assert_eq!(send(&app, request).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn credential_counts_before_a_certificate() {
    let key = ApiKey::new("ada", &"k".repeat(32)).with_scopes(["use"]);
    let auth = Auth::builder(RESOURCE)
        .with_proxy(proxy())
        .with_api_keys([key])
        .with_scopes(["use"])
        .build()
        .unwrap();
    let app = app(auth);
    let with_key =
        |key: &str| with(from(Some("[::1]:1"), &[ADA, CHECKED]), "authorization", &format!("Bearer {key}"));
    assert_eq!(send(&app, with_key(&"k".repeat(32))).await.text(), "ada ");
    assert_eq!(send(&app, with_key("wrong")).await.status, StatusCode::UNAUTHORIZED);
    // Without scopes of its own, a certificate alone is not enough here.
    assert_eq!(send(&app, from(Some("[::1]:1"), &[ADA, CHECKED])).await.status, StatusCode::FORBIDDEN);
}

/// The ready server knows where its connections come from.
#[tokio::test]
async fn served_server_knows_its_peers() {
    for (network, expected) in [("127.0.0.0/8", 200), ("10.0.0.0/8", 401)] {
        let auth = believing(Proxy::new("x-client-subject", [network]));
        let server = tools().with_auth(auth).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
        });
        let request = call(Revision::V2026_07_28, "whoami", None);
        let (parts, body) = request.into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        let headers = parts.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
        let request = reqwest::Client::new()
            .post(format!("http://{address}/mcp"))
            .headers(headers.filter(|(name, _)| name != "host").collect())
            .header("x-client-subject", "CN=ada")
            .body(body);
        assert_eq!(request.send().await.unwrap().status().as_u16(), expected, "{network}");
    }
}

#[tokio::test]
async fn router_of_ones_own_is_guarded_by_the_same_layer() {
    let auth = believing(Proxy::new("x-client-subject", ["10.0.0.1"]));
    let app: Router =
        Router::new().route("/", axum::routing::get("in")).layer(auth.layer().with_scopes(["more"]));
    let request = |peer: &str| {
        let mut request =
            Request::get("/").header("x-client-subject", "ada").body(axum::body::Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(peer.parse::<SocketAddr>().unwrap()));
        request
    };
    let answer = send(&app, request("10.0.0.1:1")).await;
    let expected = r#"Bearer error="insufficient_scope", scope="use more", error_description="the request needs scopes that were not granted""#;
    assert_eq!(answer.challenge.as_deref(), Some(expected));
    assert_eq!(send(&app, request("10.0.0.2:1")).await.status, StatusCode::UNAUTHORIZED);
}
