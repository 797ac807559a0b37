//! The routes, asked as a browser or a program would.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bodies;
mod caching;
mod document;
mod door;
mod exports;
mod formats;
mod hostile;
mod limits;
mod links;
mod reads;
mod wire;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use antiphon_results::{
    BoxError, ColumnDefinition, CreateOptions, DualResponseServer, DualResponseServerOptions, LinkKeys,
    Owner, Rows,
    source::{PageRequest, Query, Source},
};
use async_trait::async_trait;
use axum::{Router, body::Body};
use chrono::DateTime;
use http::{HeaderMap, Request, StatusCode, request::Parts};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// 2025-01-15T10:30:00Z.
const NOW: i64 = 1_736_937_000;

/// A server and its routes, with a clock that is set by hand.
struct House {
    server: DualResponseServer,
    router: Router,
    seconds: Arc<AtomicI64>,
}

impl House {
    fn open() -> Self {
        Self::with(|options| options.with_link_keys(LinkKeys::new(1, [7; 32])))
    }

    /// Callers say who they are: `Authorization: Bearer ada@acme`.
    fn with_callers() -> Self {
        Self::with(|options| options.with_link_keys(LinkKeys::new(1, [7; 32])).with_authenticate(caller_of))
    }

    fn with(more: impl FnOnce(DualResponseServerOptions) -> DualResponseServerOptions) -> Self {
        let seconds = Arc::new(AtomicI64::new(NOW));
        let clock = Arc::clone(&seconds);
        let options = DualResponseServerOptions::new("https://api.example.com/resources")
            .with_query("numbers", Numbers::new())
            .with_clock(move || DateTime::from_timestamp(clock.load(Ordering::SeqCst), 0).unwrap());
        let server = DualResponseServer::new(more(options)).unwrap();
        let router = Router::new().nest("/resources", server.router());
        Self { server, router, seconds }
    }

    fn pass(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Makes a set of so many people, and gives its path.
    async fn people(&self, count: usize) -> String {
        self.people_of(count, Owner::nobody()).await
    }

    async fn people_of(&self, count: usize, owner: Owner) -> String {
        self.make(CreateOptions::new("People", Source::rows(people(count))).for_owner(owner)).await
    }

    /// Makes a set of a named query that has a key.
    async fn numbers(&self, count: u64) -> String {
        self.make(CreateOptions::new("Numbers", Source::query("numbers", json!(count)))).await
    }

    async fn make(&self, options: CreateOptions) -> String {
        format!("/resources/{}", self.server.create_response(options).await.unwrap().resource_id)
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.map(|body| body.to_bytes().to_vec());
        Answer { status: parts.status, headers: parts.headers, body: body.ok() }
    }

    async fn ask(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        self.ask_with(method, path, &[], body).await
    }

    async fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    /// A link to a set, as `?link=…`.
    async fn link(&self, path: &str, ask: &Value) -> String {
        let minted = self.ask("POST", &format!("{path}/links"), ask.to_string()).await;
        assert_eq!(minted.status, StatusCode::CREATED, "{}", minted.text());
        let url = minted.json()["url"].as_str().unwrap().to_owned();
        format!("?{}", url.split_once('?').unwrap().1)
    }
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    /// `None` if it broke off.
    body: Option<Vec<u8>>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8(self.body.clone().expect("the body did not break off")).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Status and code, for tables of what is refused.
    fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let mut members: Vec<&String> = body.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, ["code", "error", "message"], "one shape of error");
        assert_eq!(self.header("content-type"), Some("application/json"));
        (self.status.as_u16(), body["code"].as_str().unwrap().to_owned())
    }
}

fn people(count: usize) -> Rows {
    let mut rows = Rows::new();
    for id in 1..=count {
        rows.push(&json!({"id": id, "name": format!("Person {id}")})).unwrap();
    }
    rows
}

fn caller_of(parts: &Parts) -> Option<Owner> {
    let token = parts.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    let (principal, tenant) = token.split_once('@')?;
    Some(Owner::principal(principal).with_tenant(tenant))
}

/// The numbers from 0 on, by a key.
#[derive(Debug)]
struct Numbers {
    columns: Vec<ColumnDefinition>,
    key: Vec<String>,
}

impl Numbers {
    fn new() -> Self {
        Self { columns: vec![ColumnDefinition::integer("n")], key: vec!["n".to_owned()] }
    }
}

#[async_trait]
impl Query for Numbers {
    fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    fn key(&self) -> &[String] {
        &self.key
    }

    fn sorts(&self) -> bool {
        false
    }

    async fn count(&self, parameters: &Value) -> Result<u64, BoxError> {
        parameters.as_u64().ok_or_else(|| "the parameter must be a number".into())
    }

    async fn page(&self, parameters: &Value, page: &PageRequest) -> Result<Rows, BoxError> {
        let count = parameters.as_u64().unwrap_or(0);
        let begin = match page.after.as_deref() {
            Some([last]) => last.as_u64().ok_or("the key must be a number")?.saturating_add(1),
            _ => page.offset,
        };
        let mut rows = Rows::new();
        for n in begin..count.min(begin.saturating_add(page.limit)) {
            rows.push(&json!({ "n": n }))?;
        }
        Ok(rows)
    }
}
