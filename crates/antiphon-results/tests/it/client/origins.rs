//! Where requests go, and what they carry.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use antiphon_results::{
    ErrorCode,
    client::{
        AddressScope, DualResponseClientOptions, Fetch, FetchOptions, FetchRequest, FetchResponse, HttpFetch,
        Resolve,
    },
};
use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;
use url::Url;

use super::{
    client, local,
    server::{Server, Then, head, raw},
    tool_result,
};

/// Answers as it is told, one answer after another, and counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) answers: Vec<Vec<IpAddr>>,
    pub(super) lookups: Arc<AtomicU64>,
}

impl Names {
    pub(super) fn new(answers: &[&[&str]]) -> Self {
        let read = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        Self { answers: answers.iter().map(read).collect(), lookups: Arc::default() }
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let at = usize::try_from(self.lookups.fetch_add(1, Ordering::SeqCst)).unwrap();
        Ok(self.answers[at.min(self.answers.len() - 1)].clone())
    }
}

fn origin(base: &str) -> String {
    Url::parse(base).unwrap().origin().ascii_serialization()
}

#[tokio::test]
async fn headers_are_sent_with_every_request_and_made_anew_for_each() {
    let server = Server::default();
    let base = server.serve().await;
    let count = AtomicU64::new(0);
    let options = DualResponseClientOptions::new()
        .with_base_url(&base)
        .with_header("x-tenant", "acme")
        .with_header("accept", "text/html")
        .with_header_provider(move |url| {
            assert_eq!(url.path(), "/resources/abc123");
            let token = format!("Bearer {}", count.fetch_add(1, Ordering::SeqCst));
            let host = ("host", "evil.example".to_owned());
            let pairs = [("authorization", token), host];
            pairs.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        });
    let set = client(options).parse(&tool_result("https://ignored.example/x")).unwrap();
    set.fetch(FetchOptions::new()).await.unwrap();
    set.metadata().await.unwrap();
    for (at, (_, headers, _)) in server.seen.lock().unwrap().iter().enumerate() {
        assert_eq!(headers["x-tenant"], "acme");
        assert_eq!(headers["authorization"], format!("Bearer {at}"));
        assert_eq!(headers["accept"], "application/json");
        assert_eq!(headers["host"], origin(&base).strip_prefix("http://").unwrap());
        assert!(!headers.contains_key("cookie"));
        assert!(!headers.contains_key("accept-encoding"));
    }
}

#[tokio::test]
async fn headers_are_for_one_origin_and_no_other_that_is_allowed() {
    let (home, other) = (Server::default(), Server::default());
    let (home_base, other_base) = (home.serve().await, other.serve().await);
    let options = DualResponseClientOptions::new()
        .allow_loopback()
        .allow_origin(origin(&other_base))
        .with_endpoint_origin(&home_base)
        .with_header("authorization", "Bearer secret")
        .with_header_provider(|_| {
            [("x-key".parse().unwrap(), "secret".parse().unwrap())].into_iter().collect()
        });
    let client = client(options);
    for (base, carries) in [(&home_base, true), (&other_base, false)] {
        let set = client.parse(&tool_result(&format!("{base}/abc123"))).unwrap();
        set.fetch(FetchOptions::new()).await.unwrap();
        let seen = if carries { &home.seen } else { &other.seen };
        let headers = seen.lock().unwrap()[0].1.clone();
        assert_eq!(headers.contains_key("authorization"), carries, "{base}");
        assert_eq!(headers.contains_key("x-key"), carries, "{base}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed_and_name_only_an_origin() {
    let good = Server::default();
    let base = good.serve().await;
    for (place, shown) in [
        (format!("{base}/abc123?token=hunter2"), origin(&base)),
        ("https://user:hunter2@evil.example/steal?hunter2".to_owned(), "https://evil.example".to_owned()),
        ("http://169.254.169.254/latest/meta-data/hunter2".to_owned(), "http://169.254.169.254".to_owned()),
        ("file:///etc/hunter2".to_owned(), "null".to_owned()),
    ] {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
            let answer = head(status, &format!("location: {place}\r\ncontent-length: 0\r\n"), "");
            let error = local(&raw(answer, Then::Close).await).fetch(FetchOptions::new()).await.unwrap_err();
            assert_eq!((error.code(), error.status()), (ErrorCode::FetchError, status[..3].parse().ok()));
            assert!(error.to_string().contains(&format!("`{shown}`")), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
    let answer = head("302 Found", "location: /elsewhere\r\ncontent-length: 0\r\n", "");
    let url = raw(answer, Then::Close).await;
    let error = local(&url).fetch(FetchOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains(&origin(&url)), "{error}");
    assert_eq!(good.requests(), 0);
}

#[tokio::test]
async fn cookies_are_not_kept() {
    let cookie = "set-cookie: a=b\r\ncontent-type: application/json\r\ncontent-length: 2\r\n";
    let url = raw(head("200 OK", cookie, "{}"), Then::Close).await;
    let fetch = Recording::default();
    let options = DualResponseClientOptions::new().allow_loopback().with_fetch(fetch.clone());
    let set = client(options).parse(&tool_result(&url)).unwrap();
    for _ in 0..2 {
        set.fetch(FetchOptions::new()).await.unwrap_err();
    }
    let seen = fetch.seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|request| !request.headers.contains_key("cookie")));
}

/// Notes requests and sends them on.
#[derive(Clone, Debug, Default)]
struct Recording {
    inner: HttpFetch,
    seen: Arc<Mutex<Vec<FetchRequest>>>,
}

#[async_trait]
impl Fetch for Recording {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, antiphon_results::BoxError> {
        self.seen.lock().unwrap().push(request.clone());
        self.inner.fetch(request).await
    }
}

/// A page, without a network.
#[derive(Debug)]
struct Canned;

#[async_trait]
impl Fetch for Canned {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, antiphon_results::BoxError> {
        let asked: Value = serde_json::from_slice(&request.body)?;
        assert_eq!((request.reach, &asked["limit"]), (AddressScope::Public, &Value::from(100)));
        let page = Bytes::from_static(br#"{"data":[{"id":1}],"total_count":1,"has_next":false}"#);
        Ok(FetchResponse::new(StatusCode::OK, HeaderMap::new(), Box::pin(stream::iter([Ok(page)]))))
    }
}

#[tokio::test]
async fn requests_can_be_sent_by_something_else() {
    let options =
        DualResponseClientOptions::new().with_endpoint_origin("https://a.example").with_fetch(Canned);
    let set = client(options).parse(&tool_result("https://a.example/abc123")).unwrap();
    assert_eq!(set.fetch(FetchOptions::new()).await.unwrap().data[0]["id"], 1);
}

#[tokio::test]
async fn what_was_checked_is_what_is_connected_to() {
    let server = Server::default();
    let port = Url::parse(&server.serve().await).unwrap().port().unwrap();
    let names = Names::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let lookups = Arc::clone(&names.lookups);
    let options = || {
        let base = format!("http://data.example:{port}/resources");
        DualResponseClientOptions::new().with_base_url(base).with_resolver(names.clone())
    };
    let set = client(options()).parse(&tool_result("https://ignored.example/x")).unwrap();
    assert_eq!(set.fetch(FetchOptions::new()).await.unwrap().total_count, 847);
    assert_eq!(lookups.load(Ordering::SeqCst), 1, "one lookup for a connection");
    // Another connection, for which the name leads elsewhere.
    let set = client(options()).parse(&tool_result("https://ignored.example/x")).unwrap();
    let error = set.fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UrlRefused);
    let expected = "`data.example` is not allowed: the name resolves to `169.254.169.254`";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!((lookups.load(Ordering::SeqCst), server.requests()), (2, 1));
}

#[tokio::test]
async fn what_the_application_listed_may_be_private_and_plain() {
    let server = Server::default();
    let base = server.serve().await;
    let url = format!("{base}/abc123");
    let options = DualResponseClientOptions::new;
    let listed = options().allow_origin(origin(&base));
    let fallback = options().with_fallback_base_url(&base);
    for options in [listed, fallback, options().allow_loopback(), options().with_base_url(&base)] {
        let set = client(options).parse(&tool_result(&url)).unwrap();
        assert_eq!(set.fetch(FetchOptions::new()).await.unwrap().total_count, 847);
    }
    let named = url.replace("127.0.0.1", "localhost");
    let names = Names::new(&[&["127.0.0.1"]]);
    let options = options().allow_loopback().with_resolver(names);
    let set = client(options).parse(&tool_result(&named)).unwrap();
    assert_eq!(set.fetch(FetchOptions::new()).await.unwrap().total_count, 847);
}
