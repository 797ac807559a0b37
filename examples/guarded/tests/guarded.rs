//! Reports, and who gets to see them. `cargo xtask conformance auth` tells the same with a real authorization server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;

use antiphon::http::HttpConfig;
use antiphon_host::{Error, Form, Host, HttpEndpoint, Shown};
use guarded::{READ, Trusted};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

async fn start(trusted: Trusted) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = guarded::server(trusted.auth(&url).build().unwrap()).build().unwrap();
    tokio::spawn(async move {
        server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
    });
    url
}

fn host() -> Host {
    let yes = |_: Form| async { Shown::Accept(json!({"sure": true})) };
    Host::builder("test", "1").with_forms(yes).build()
}

#[tokio::test]
async fn whoever_has_a_key_reads_and_publishes() {
    let key = "6f7d1e0b9a8c4d5e6f708192a3b4c5d6";
    let mut hash = String::new();
    for byte in Sha256::digest(key) {
        write!(hash, "{byte:02x}").unwrap();
    }
    let url = start(Trusted { keys: vec![("ada".into(), hash)], ..Trusted::default() }).await;
    let server = host().connect(HttpEndpoint::new(&url).with_bearer(key)).await.unwrap();
    for (tool, expected) in
        [("read_report", "Q3, as ada may read it"), ("publish_report", "Q3, published by ada")]
    {
        let result = server.call(tool, json!({"name": "Q3"})).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, expected);
    }
    let error = host().connect(HttpEndpoint::new(&url)).await.unwrap_err();
    let Error::Unauthorized { challenge, .. } = error else { panic!("{error:?}") };
    assert_eq!(challenge, format!(r#"Bearer scope="{READ}""#));
}
