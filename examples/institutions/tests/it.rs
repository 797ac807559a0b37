//! The reporting server and its chat, on a real PostgreSQL; three replicas, one of which is killed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{process::Stdio, sync::Mutex, time::Duration};

use antiphon::http::HttpConfig;
use antiphon_host::{Endpoint, Host};
use antiphon_llm::{Reply, Scripted};
use antiphon_results::{
    DualResponseServerOptions, Sort,
    client::{
        DualResponseClient, DualResponseClientOptions, FetchOptions, ParsedDualResponse, StreamOptions,
    },
};
use antiphon_store::conformance::service;
use futures_util::{StreamExt as _, TryStreamExt as _};
use institutions::{chat, data};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

const DATABASE: &str = "ANTIPHON_TEST_POSTGRES_URL";

async fn count(pool: &PgPool, state: &str, control: &str) -> u64 {
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM institutions WHERE state = $1 AND control = $2")
            .bind(state)
            .bind(control)
            .fetch_one(pool)
            .await
            .unwrap();
    count.unsigned_abs()
}

#[tokio::test]
async fn model_gets_a_preview_and_the_person_every_row() {
    let Some(database) = service(DATABASE) else { return };
    let pool = PgPool::connect(&database).await.unwrap();
    data::prepare(&pool).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = DualResponseServerOptions::new(format!("http://{address}/resources"));
    let results = institutions::results(options, pool.clone()).unwrap();
    let server = institutions::server(&results).unwrap();
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let model = Scripted::new()
        .call("search_institutions", json!({"state": "CA", "control": "public"}))
        .otherwise(|_| Ok(Reply::new("scripted", "There they are.")));
    let host = Host::builder("chat", "1.0.0").build();
    let connection = host.connect(Endpoint::http(format!("http://{address}/mcp"))).await.unwrap();
    let about = connection.server().await;
    assert_eq!((about.name.as_deref(), about.version.as_deref()), (Some("ipeds-reporting"), Some("1.0.0")));
    let shown = Mutex::new(Vec::new());
    let said = chat::answer(&model, &connection, "Show me public universities in California", |set, rows| {
        shown.lock().unwrap().push((chat::table(set, rows), rows.len() as u64));
    });
    assert_eq!(said.await.unwrap(), "There they are.");

    let expected = count(&pool, "CA", "public").await;
    assert!(expected > 15);
    let shown = shown.into_inner().unwrap();
    let [(table, rows)] = &shown[..] else { panic!("one set is shown, not {}", shown.len()) };
    assert_eq!(*rows, expected);
    assert_eq!(table.lines().count() as u64, expected + 2);
    let told = serde_json::to_string(&model.requests()[1].messages).unwrap();
    assert!(told.contains(&format!("Found {expected} results.")), "{told}");
    assert!(told.contains(&format!("{} are NOT shown", expected - 15)), "{told}");
    assert!(told.len() < 16_384, "{} bytes", told.len());
}

#[tokio::test]
async fn search_has_the_rows_the_database_has() {
    let Some(database) = service(DATABASE) else { return };
    let pool = PgPool::connect(&database).await.unwrap();
    data::prepare(&pool).await.unwrap();
    let options = DualResponseServerOptions::new("https://api.example.com/resources");
    let server = institutions::server(&institutions::results(options, pool.clone()).unwrap()).unwrap();
    let mut client =
        antiphon::testing::Client::connect(&server, antiphon::testing::Revision::V2026_07_28).await.unwrap();
    for (arguments, expected) in [
        (json!({}), u64::from(data::COUNT.unsigned_abs())),
        (json!({"state": "NJ", "control": "private"}), count(&pool, "NJ", "private").await),
        (json!({"state": "Robert'); DROP TABLE institutions;--"}), 0),
    ] {
        let talk = client.call("search_institutions", arguments).await.unwrap();
        assert_eq!(talk.result["structuredContent"]["metadata"]["total_count"], expected);
    }
    let refused = client.call("search_institutions", json!({"control": "secret"})).await;
    assert!(refused.map_or(true, |talk| talk.is_error()));
}

/// A process of the server's.
struct Replica {
    process: Child,
    base: String,
}

impl Replica {
    /// Starts one on a port that the system chooses, and reads its address from what it prints.
    async fn start(database: &str, store: &str, space: &str, base: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_institutions"))
            .args(["--database", database, "--store", store, "--space", space, "--base-url", base])
            .args(["--http", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut printed = Vec::new();
        let base = loop {
            let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
            let line = line.expect("a replica starts within 60 s").unwrap();
            let line = line.unwrap_or_else(|| panic!("a replica ended: {printed:?}"));
            if let Some(address) = line.strip_prefix("listening on ") {
                break address.split_once("/mcp").unwrap().0.to_owned();
            }
            printed.push(line);
        };
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { process, base }
    }

    /// The set as this replica has it.
    fn set(&self, structured: &Value) -> ParsedDualResponse {
        let options = DualResponseClientOptions::new().with_base_url(format!("{}/resources", self.base));
        DualResponseClient::new(options).unwrap().parse_structured(structured).unwrap()
    }
}

/// How many accesses are made at once, and in all.
const AT_ONCE: usize = 60;
const ACCESSES: u64 = 3_000;

async fn three_replicas(store: &str) {
    let (Some(database), Some(store)) = (service(DATABASE), service(store)) else { return };
    let space = format!("institutions-{}", std::process::id());
    let base = "http://reports.example/resources";
    let start = || Replica::start(&database, &store, &space, base);
    let (mut a, b, c) = tokio::join!(start(), start(), start());

    // Made on A.
    let host = Host::builder("test", "1.0.0").build();
    let connection = host.connect(Endpoint::http(format!("{}/mcp", a.base))).await.unwrap();
    let result = connection.call("search_institutions", json!({"state": "NJ"})).await.unwrap();
    let structured = result.structured_content.unwrap();
    let total = structured["metadata"]["total_count"].as_u64().unwrap();
    // Paged on B, pinned on C, and A is no more.
    let page = b.set(&structured).fetch(FetchOptions::new().with_limit(10)).await.unwrap();
    assert_eq!((page.data.len(), page.total_count), (10, total));
    assert!(c.set(&structured).pin().await.unwrap());
    a.process.kill().await.unwrap();

    // Nothing is lost: every row, in order, from either.
    let sort = Sort::descending("enrollment");
    let mut all = Vec::new();
    for replica in [&b, &c] {
        let options = StreamOptions::new().with_batch_size(50).with_sort(sort.clone());
        let set = replica.set(&structured);
        let batches: Vec<Vec<_>> = set.fetch_stream(options).try_collect().await.unwrap();
        all.push(batches.concat());
    }
    assert_eq!(all[0].len() as u64, total);
    assert_eq!(all[0], all[1]);
    assert!(all[0].is_sorted_by(|a, b| a["enrollment"].as_i64() >= b["enrollment"].as_i64()));
    let before = b.set(&structured).metadata().await.unwrap();
    assert_eq!((before.access_count, before.expires_at), (3, None));

    // Counted exactly, on a third replica too that comes up again.
    let a = start().await;
    let sets = [a.set(&structured), b.set(&structured), c.set(&structured)];
    let accesses = futures_util::stream::iter(0..ACCESSES).map(|at| {
        let set = &sets[usize::try_from(at % 3).unwrap()];
        async move { set.fetch(FetchOptions::new().with_limit(1)).await }
    });
    let results: Vec<_> = accesses.buffer_unordered(AT_ONCE).collect().await;
    let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} failed, the first with {:?}", failed.len(), failed.first());
    let after = c.set(&structured).metadata().await.unwrap();
    assert_eq!(after.access_count, 3 + ACCESSES);

    // Deleted on A, gone on all.
    assert!(a.set(&structured).delete().await.unwrap());
    assert!(!b.set(&structured).delete().await.unwrap());
    let gone = c.set(&structured).fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!(gone.code().as_str(), "RESOURCE_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_share_sets_over_postgres() {
    three_replicas(DATABASE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_share_sets_over_redis() {
    three_replicas("ANTIPHON_TEST_REDIS_URL").await;
}
