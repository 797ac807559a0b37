//! Snapshots behind a server of result sets: how they are made, and what is said meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    Access, BoxError, CreateOptions, DualResponse, DualResponseError, DualResponseServer,
    DualResponseServerOptions, LinkKeys, Owner, PageOptions, ResultLimits, Source,
    snapshot::{SetStatus, SnapshotStore as _, Truncation},
};
use antiphon_snapshot::{
    Batches, Snapshots,
    arrow::{
        array::{Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
};
use axum::Router;
use chrono::{TimeDelta, Utc};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A server of result sets on a port of its own, and a clock that can be turned.
pub(crate) struct House {
    pub(crate) server: DualResponseServer,
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    ahead: Arc<AtomicI64>,
}

impl House {
    pub(crate) async fn open() -> Self {
        Self::with(&Snapshots::open("memory:").unwrap(), |options| options).await
    }

    pub(crate) async fn with(
        snapshots: &Snapshots,
        more: impl FnOnce(DualResponseServerOptions) -> DualResponseServerOptions,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/resources", listener.local_addr().unwrap());
        let ahead = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&ahead);
        let options = DualResponseServerOptions::new(&base)
            .with_snapshots(snapshots.clone())
            .with_link_keys(LinkKeys::new(1, [7; 32]))
            .with_clock(move || Utc::now() + TimeDelta::seconds(clock.load(Ordering::SeqCst)));
        let server = DualResponseServer::new(more(options)).unwrap();
        let router = Router::new().nest("/resources", server.router());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { server, base, http, ahead }
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) async fn make(&self, source: Source) -> DualResponse {
        self.server.create_response(CreateOptions::new("Numbers", source)).await.unwrap()
    }

    /// A set of so many rows.
    pub(crate) async fn numbers(&self, count: i64) -> String {
        self.make(numbers(count)).await.resource_id
    }

    pub(crate) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}/{path}", self.base))
    }

    pub(crate) async fn json(&self, path: &str) -> (u16, Value) {
        let answer = self.get(path).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request =
            self.http.post(format!("{}/{path}", self.base)).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Asks until the set is no longer being written.
    pub(crate) async fn settled(&self, id: &str) -> Value {
        for _ in 0..1000 {
            let (_, manifest) = self.json(&format!("{id}/manifest")).await;
            if manifest["status"] != "writing" {
                return manifest;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the set is still being written");
    }
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]))
}

pub(crate) fn batch(from: i64, count: i64) -> RecordBatch {
    let ids = Int64Array::from_iter_values(from..from + count);
    let names = StringArray::from_iter_values((from..from + count).map(|id| format!("row {id}")));
    RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(names)]).unwrap()
}

/// The numbers from 0 on.
pub(crate) fn numbers(count: i64) -> Source {
    let batches = (0..count).step_by(1000).map(move |from| Ok(batch(from, (count - from).min(1000))));
    Source::snapshot(Batches::new(schema(), stream::iter(batches.collect::<Vec<_>>())))
}

/// Rows that somebody sends when they like.
pub(crate) fn sent() -> (mpsc::UnboundedSender<Result<RecordBatch, BoxError>>, Source) {
    let (tx, rx) = mpsc::unbounded_channel();
    let batches = stream::unfold(rx, async |mut rx: mpsc::UnboundedReceiver<_>| {
        rx.recv().await.map(|batch| (batch, rx))
    });
    (tx, Source::snapshot(Batches::new(schema(), batches)))
}

/// Limits under which nobody waits for long.
pub(crate) fn quick() -> ResultLimits {
    ResultLimits::default()
        .with_settle(Duration::from_millis(50))
        .with_beat(Duration::from_millis(20))
        .with_wait(Duration::from_millis(50))
}

#[tokio::test]
async fn a_small_set_is_answered_whole_with_an_exact_count() {
    let house = House::open().await;
    let response = house.make(numbers(2500)).await;
    assert_eq!((response.total_count, response.exact, response.status), (2500, true, SetStatus::Ready));
    let answer = response.to_mcp_tool_result();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Found 2500 results. Sample data and full dataset link included."), "{text}");
    assert_eq!(answer["structuredContent"]["metadata"].get("total_count_exact"), None);
    assert_eq!(response.sample.len(), 15);

    let page = house
        .server
        .page(&response.resource_id, &Access::Program, PageOptions::new(2490, 100))
        .await
        .unwrap();
    assert_eq!((page.rows.len(), page.total_count, page.has_next), (10, 2500, false));
    let manifest = house.server.manifest(&response.resource_id, &Access::Program).await.unwrap();
    assert!(manifest.exact && manifest.digest.unwrap().starts_with("sha-256:"));
    assert_eq!(manifest.chunks.iter().map(|chunk| chunk.row_count).sum::<u64>(), 2500);
}

#[tokio::test]
async fn the_preview_is_answered_while_rows_still_come_in() {
    let house =
        House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let response = house.make(source).await;
    assert_eq!((response.exact, response.status, response.sample.len()), (false, SetStatus::Writing, 15));
    let answer = response.to_mcp_tool_result();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("so far; more are being written"), "{text}");
    assert!(!text.contains("All"), "{text}");
    let metadata = &answer["structuredContent"]["metadata"];
    assert_eq!((&metadata["total_count_exact"], &metadata["status"]), (&json!(false), &json!("writing")));

    let id = &response.resource_id;
    for path in [
        format!("{id}/rows"),
        format!("{id}/export?format=csv"),
        format!("{id}/stats"),
        format!("{id}/chunks/0"),
    ] {
        let answer = house.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), 202, "{path}");
        assert_eq!(answer.headers()["retry-after"], "1", "{path}");
        assert!(answer.text().await.unwrap().contains("RESOURCE_NOT_READY"), "{path}");
    }
    assert_eq!(house.post(id, &json!({})).await.0, 202);
    let (status, manifest) = house.json(&format!("{id}/manifest")).await;
    assert_eq!((status, &manifest["status"], &manifest["exact"]), (200, &json!("writing"), &json!(false)));
    assert_eq!(house.json(id).await.1["status"], "writing");
    let read = house.server.read(id, &Access::Program).await.unwrap();
    assert_eq!((&read["complete"], &read["returned_count"]), (&json!(false), &json!(15)));

    tx.send(Ok(batch(20, 30))).unwrap();
    drop(tx);
    assert_eq!(house.settled(id).await["rows"], 50);
    let (status, page) = house.json(&format!("{id}/rows?offset=45")).await;
    assert_eq!((status, &page["total_count"], &page["returned_count"]), (200, &json!(50), &json!(5)));
}

#[tokio::test]
async fn a_failure_in_the_middle_is_seen_everywhere_and_leaves_nothing() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let id = house.make(source).await.resource_id;
    tx.send(Err("the password is 1234".into())).unwrap();
    let manifest = house.settled(&id).await;
    assert_eq!((&manifest["status"], &manifest["exact"]), (&json!("failed"), &json!(false)));
    let why = manifest["failure"].as_str().unwrap();
    assert!(why.contains("run the query again") && !why.contains("1234"), "{why}");
    for path in
        [format!("{id}/rows"), format!("{id}/export"), format!("{id}/stats"), format!("{id}/chunks/0")]
    {
        let (status, body) = house.json(&path).await;
        assert_eq!((status, &body["code"]), (502, &json!("SNAPSHOT_FAILED")), "{path}");
        assert!(!body.to_string().contains("1234"));
    }
    let (status, body) = house.post(&format!("{id}/query"), &json!({"sql": "SELECT 1 FROM result"})).await;
    assert_eq!((status, &body["code"]), (502, &json!("SNAPSHOT_FAILED")));
    assert!(matches!(house.server.read(&id, &Access::Program).await, Err(DualResponseError::Failed(_))));
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}

#[tokio::test]
async fn what_fails_at_once_is_the_tools_error_and_no_set() {
    let house = House::open().await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    tx.send(Err("broken".into())).unwrap();
    let error = house.server.create_response(CreateOptions::new("x", source)).await.unwrap_err();
    assert!(matches!(error, DualResponseError::Query(_)), "{error:?}");
}

#[tokio::test]
async fn a_source_that_panics_is_a_failure_like_any_other() {
    let house = House::open().await;
    let batches = stream::iter(0..3).map(|at| {
        assert!(at < 2, "a source is code of others");
        Ok(batch(at * 20, 20))
    });
    let source = Source::snapshot(Batches::new(schema(), batches));
    let error = house.server.create_response(CreateOptions::new("x", source)).await.unwrap_err();
    assert!(matches!(error, DualResponseError::Query(_)), "{error:?}");
}

#[tokio::test]
async fn whoever_waits_to_the_end_gets_the_exact_count() {
    let house =
        House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let server = house.server.clone();
    let making = tokio::spawn(async move {
        server.create_response(CreateOptions::new("x", source).complete()).await.unwrap()
    });
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!making.is_finished(), "longer than others wait");
    tx.send(Ok(batch(20, 5))).unwrap();
    drop(tx);
    let response = making.await.unwrap();
    assert_eq!((response.total_count, response.exact), (25, true));
}

#[tokio::test]
async fn rows_come_once_and_need_somewhere_to_be_saved() {
    let house = House::open().await;
    let source = numbers(5);
    house.make(source.clone()).await;
    let again = house.server.create_response(CreateOptions::new("x", source)).await.unwrap_err();
    assert!(matches!(again, DualResponseError::Invalid(_)), "{again:?}");

    let bare = DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/r")).unwrap();
    let error = bare.create_response(CreateOptions::new("x", numbers(5))).await.unwrap_err();
    assert!(error.to_string().contains("with_snapshots"), "{error}");
}

#[tokio::test]
async fn what_was_left_out_is_said_in_text_metadata_and_headers() {
    let limits = ResultLimits::default().with_snapshot_rows(1500);
    let house =
        House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_limits(limits)).await;
    let response = house.make(numbers(5000)).await;
    assert_eq!((response.total_count, response.truncated), (1500, Some(Truncation::RowLimit)));
    let answer = response.to_mcp_tool_result();
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("There are MORE"));
    assert_eq!(answer["structuredContent"]["metadata"]["truncated"], "row_limit");
    let id = &response.resource_id;
    for path in [format!("{id}/rows"), format!("{id}/export?format=csv")] {
        let answer = house.get(&path).send().await.unwrap();
        assert_eq!(answer.headers()["antiphon-truncated"], "row_limit", "{path}");
    }
    assert_eq!(house.json(&format!("{id}/manifest")).await.1["truncated"], "row_limit");
}

#[tokio::test]
async fn a_set_belongs_to_its_tenant_on_every_route() {
    let house = House::with(&Snapshots::open("memory:").unwrap(), |options| {
        options.with_authenticate(|parts: &axum::http::request::Parts| {
            let token = parts.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
            let (principal, tenant) = token.split_once('@')?;
            Some(Owner::principal(principal).with_tenant(tenant))
        })
    })
    .await;
    let owner = Owner::principal("ada").with_tenant("acme");
    let options = CreateOptions::new("Numbers", numbers(100)).for_owner(owner);
    let id = house.server.create_response(options).await.unwrap().resource_id;
    let mine =
        house.get(&format!("{id}/rows")).header("authorization", "Bearer ada@acme").send().await.unwrap();
    assert_eq!(mine.status(), 200);
    for caller in ["eve@acme", "ada@evil"] {
        for path in ["", "/rows", "/manifest", "/export?format=parquet", "/chunks/0", "/stats"] {
            let request =
                house.get(&format!("{id}{path}")).header("authorization", format!("Bearer {caller}"));
            assert_eq!(request.send().await.unwrap().status(), 404, "{caller} {path}");
        }
        for (path, body) in
            [("aggregate", json!({})), ("query", json!({"sql": "SELECT 1"})), ("links", json!({}))]
        {
            let request = house.http.post(format!("{}/{id}/{path}", house.base));
            let request = request.header("authorization", format!("Bearer {caller}")).body(body.to_string());
            assert_eq!(request.send().await.unwrap().status(), 404, "{caller} {path}");
        }
    }
    // The page is the same for every id, so it tells nobody whether there is a set.
    let there = house.get(&format!("{id}/view")).send().await.unwrap();
    let not = house.get("rs_nobody/view").send().await.unwrap();
    assert_eq!((there.status(), not.status()), (reqwest::StatusCode::OK, reqwest::StatusCode::OK));
    let policy = there.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(there.text().await.unwrap(), not.text().await.unwrap());
}
