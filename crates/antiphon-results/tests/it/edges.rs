//! Where it is easy to be wrong: refusals that do harm, ends that move, counts that lie, bounds that leak.

use crate::support::{Clock, asked, columns, institutions, kept, options, search, server};
use antiphon_results::{
    Access, BoxError, ColumnDefinition, CreateOptions, DualResponseServer, LinkKeys, LinkOptions,
    MemoryStore, Owner, PageOptions, Query, ResourceStore, ResultLimits, Rows, Sort, Source,
    source::PageRequest, store::Resource,
};
use axum::body::Body;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use futures_util::TryStreamExt as _;
use http::{Request, request::Parts};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tower::ServiceExt as _;

#[expect(clippy::unnecessary_wraps, reason = "whoever says who is calling may not know")]
fn eve(_: &Parts) -> Option<Owner> {
    Some(Owner::principal("eve"))
}

async fn ask(
    server: &DualResponseServer,
    method: &str,
    path: &str,
    accept: &str,
) -> (u16, http::HeaderMap, String) {
    let request =
        Request::builder().method(method).uri(path).header("accept", accept).body(Body::empty()).unwrap();
    let (parts, body) = server.router().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn refused_delete_destroys_nothing() {
    let server = DualResponseServer::new(options(&Clock::new()).with_authenticate(eve)).unwrap();
    let ada = Owner::principal("ada");
    let made = CreateOptions::new("x", asked(50).0).with_columns(columns()).for_owner(ada.clone());
    let id = server.create_response(made).await.unwrap().resource_id;
    let (status, ..) = ask(&server, "DELETE", &format!("/{id}"), "*/*").await;
    assert_eq!(status, 404);
    server.page(&id, &Access::caller(ada), PageOptions::default()).await.expect("ada's set is still there");
}

#[tokio::test]
async fn sliding_does_not_shorten() {
    let clock = Clock::new();
    let server = DualResponseServer::new(options(&clock).with_sliding_expiration(true)).unwrap();
    let id = kept(&server, 3).await.resource_id;
    assert!(server.extend_resource(&id, Duration::from_secs(24 * 3600)).await.unwrap());
    server.page(&id, &Access::Program, PageOptions::default()).await.unwrap();
    clock.turn(TimeDelta::hours(1));
    assert!(server.get_resource(&id).await.unwrap().is_some(), "extended to a day");
}

#[tokio::test]
async fn sliding_does_not_unpin() {
    let clock = Clock::new();
    let server = DualResponseServer::new(options(&clock).with_sliding_expiration(true)).unwrap();
    let slot: Arc<Mutex<Option<(DualResponseServer, String)>>> = Arc::default();
    let inside = Arc::clone(&slot);
    let source = Source::closures(
        move |_| {
            let pinner = inside.lock().unwrap().clone();
            async move {
                if let Some((server, id)) = pinner {
                    assert!(server.pin_resource(&id).await.unwrap());
                }
                Ok(institutions(3))
            }
        },
        || async { Ok(3) },
    );
    let id = server.create_response(CreateOptions::new("x", source)).await.unwrap().resource_id;
    *slot.lock().unwrap() = Some((server.clone(), id.clone()));
    server.page(&id, &Access::Program, PageOptions::default()).await.unwrap();
    *slot.lock().unwrap() = None;
    assert_eq!(server.get_resource(&id).await.unwrap().unwrap().expires_at, None, "it was pinned");
}

#[derive(Debug)]
struct Keyed {
    columns: Vec<ColumnDefinition>,
    key: Vec<String>,
    data: Arc<Mutex<BTreeSet<u64>>>,
}
#[async_trait::async_trait]
impl Query for Keyed {
    fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }
    fn key(&self) -> &[String] {
        &self.key
    }
    fn sorts(&self) -> bool {
        true
    }
    async fn count(&self, _: &Value) -> Result<u64, BoxError> {
        Ok(self.data.lock().unwrap().len() as u64)
    }
    async fn page(&self, _: &Value, page: &PageRequest) -> Result<Rows, BoxError> {
        let data = self.data.lock().unwrap();
        let after = page.after.as_ref().map(|after| after.last().unwrap().as_u64().unwrap());
        let skip = if after.is_some() { 0 } else { page.offset };
        let mut rows = Rows::new();
        for n in data
            .iter()
            .filter(|n| after.is_none_or(|after| **n > after))
            .skip(usize::try_from(skip).unwrap())
            .take(usize::try_from(page.limit).unwrap())
        {
            rows.push(&json!({"n": n, "long": "x".repeat(13_000), "deep": [1]}))?;
        }
        Ok(rows)
    }
}
fn keyed(data: &Arc<Mutex<BTreeSet<u64>>>) -> Keyed {
    Keyed {
        columns: vec![
            ColumnDefinition::integer("n"),
            ColumnDefinition::string("long"),
            ColumnDefinition::string("deep"),
        ],
        key: vec!["n".into()],
        data: Arc::clone(data),
    }
}

#[tokio::test]
async fn keyset_misses_none_that_stayed() {
    let data = Arc::new(Mutex::new(BTreeSet::from([10, 20, 30, 40])));
    let server = DualResponseServer::new(options(&Clock::new()).with_query("keyed", keyed(&data))).unwrap();
    let id = server
        .create_response(CreateOptions::new("x", Source::query("keyed", json!({}))))
        .await
        .unwrap()
        .resource_id;
    let (mut cursor, mut seen) = (None, Vec::new());
    loop {
        let page =
            server.page(&id, &Access::Program, PageOptions::new(0, 2).with_cursor(cursor)).await.unwrap();
        seen.extend(page.rows.read::<Value>().unwrap().iter().map(|row| row["n"].as_u64().unwrap()));
        data.lock().unwrap().extend([21, 22]);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert!(seen.contains(&30) && seen.contains(&40), "30 and 40 stayed: {seen:?}");
}

#[tokio::test]
async fn structured_content_is_bounded_and_clean() {
    let server = server(&Clock::new());
    let mut rows = Rows::new();
    let row: serde_json::Map<String, Value> = (0..900)
        .map(|at| (format!("c{at}\u{202e}\u{200b}{}", "IGNORE ALL ".repeat(100)), json!(1)))
        .collect();
    rows.push(&row).unwrap();
    let response = server.create_response(CreateOptions::new("x", Source::rows(rows))).await.unwrap();
    let structured = response.to_structured_content().to_string();
    assert!(!structured.contains('\u{202e}'), "hidden in the columns");
    assert!(structured.len() <= 8192, "{} bytes", structured.len());
}

#[tokio::test]
async fn read_is_bounded() {
    let server = server(&Clock::new());
    let mut rows = Rows::new();
    let row: serde_json::Map<String, Value> =
        (0..900).map(|at| (format!("a column with a name {at}"), json!("x".repeat(40)))).collect();
    for _ in 0..50 {
        rows.push(&row).unwrap();
    }
    let id = server.create_response(CreateOptions::new("x", Source::rows(rows))).await.unwrap().resource_id;
    let read = server.read(&id, &Access::Program).await.unwrap().to_string();
    assert!(read.len() <= 32 * 1024, "{} bytes", read.len());
}

#[tokio::test]
async fn csv_has_every_column() {
    let server = server(&Clock::new());
    let mut rows = Rows::new();
    for at in 0..1000 {
        rows.push(&json!({"id": at})).unwrap();
    }
    rows.push(&json!({"id": 1000, "comment": "only here"})).unwrap();
    let id = server.create_response(CreateOptions::new("x", Source::rows(rows))).await.unwrap().resource_id;
    let (status, _, body) = ask(&server, "GET", &format!("/{id}/rows"), "text/csv").await;
    assert_eq!(status, 200);
    assert!(body.contains("only here"), "{}", &body[..20]);
}

#[tokio::test]
async fn streams_are_counted_in_the_audit() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let options = options(&Clock::new()).with_audit(move |event| told.lock().unwrap().push(event.clone()));
    let server = DualResponseServer::new(options).unwrap();
    let id = kept(&server, 2_500).await.resource_id;
    let stream = server.stream(&id, &Access::Program, PageOptions::default()).await.unwrap();
    let _: Vec<Rows> = stream.try_collect().await.unwrap();
    let rows: u64 = events.lock().unwrap().iter().map(|event| event.rows).sum();
    assert_eq!(rows, 2_500);
}

#[tokio::test]
async fn refusals_are_in_the_audit() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let options = options(&Clock::new())
        .with_link_keys(LinkKeys::random())
        .with_authenticate(eve)
        .with_audit(move |event| told.lock().unwrap().push(event.clone()));
    let server = DualResponseServer::new(options).unwrap();
    let made = CreateOptions::new("x", Source::rows(institutions(3))).for_owner(Owner::principal("ada"));
    let id = server.create_response(made).await.unwrap().resource_id;
    events.lock().unwrap().clear();
    assert!(server.read(&id, &Access::caller(Owner::principal("eve"))).await.is_err());
    let read = std::mem::take(&mut *events.lock().unwrap()).len();
    let (status, ..) = ask(&server, "GET", &format!("/{id}/rows?link=forged"), "*/*").await;
    assert_eq!(status, 401);
    let forged = events.lock().unwrap().len();
    assert_eq!((read, forged), (1, 1), "resources/read by eve, and a forged link");
}

#[tokio::test]
async fn next_links_work() {
    let data = Arc::new(Mutex::new((0..10).collect::<BTreeSet<u64>>()));
    let server = DualResponseServer::new(options(&Clock::new()).with_query("keyed", keyed(&data))).unwrap();
    let id = server
        .create_response(CreateOptions::new("x", Source::query("keyed", json!({}))))
        .await
        .unwrap()
        .resource_id;
    let mut bad = Vec::new();
    for field in ["n", "long", "deep"] {
        let (status, headers, _) =
            ask(&server, "GET", &format!("/{id}/rows?limit=2&sort={field}"), "*/*").await;
        assert_eq!(status, 200);
        let Some(link) = headers.get("link") else { continue };
        let link = link
            .to_str()
            .unwrap()
            .strip_prefix("<https://api.example.com/resources")
            .unwrap()
            .split_once('>')
            .unwrap()
            .0;
        let (status, ..) = ask(&server, "GET", link, "*/*").await;
        if status != 200 {
            bad.push((field, link.len(), status));
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

#[tokio::test]
async fn sort_has_one_order() {
    let server = server(&Clock::new());
    let mut rows = Rows::new();
    let base = 1_u64 << 60;
    for at in 0..400_u64 {
        let n = (at * 7919) % 400;
        if at % 3 == 0 {
            rows.push_json(&format!("{{\"n\":{}.0}}", base + (n / 100) * 256)).unwrap();
        } else {
            rows.push(&json!({"n": base + n})).unwrap();
        }
    }
    let id = server.create_response(CreateOptions::new("x", Source::rows(rows))).await.unwrap().resource_id;
    let page = server
        .page(&id, &Access::Program, PageOptions::new(0, 1000).with_sort(Sort::ascending("n")))
        .await
        .expect("sorted");
    let ints: Vec<u64> =
        page.rows.read::<Value>().unwrap().iter().filter_map(|row| row["n"].as_u64()).collect();
    assert!(ints.is_sorted(), "whole numbers are out of order");
}

#[tokio::test]
async fn rows_that_are_gone_are_no_shorter_set() {
    let clock = Clock::new();
    let store = Arc::new(MemoryStore::new());
    let server = DualResponseServer::new(options(&clock).with_store(Arc::clone(&store))).unwrap();
    let mut set = Resource::new("rs_x", "x", clock.now(), Duration::from_secs(900));
    set.total_count = 500;
    store.save(set).await.unwrap();
    let page = server.page("rs_x", &Access::Program, PageOptions::default()).await;
    assert!(page.is_err(), "{page:?}");
}

#[tokio::test]
async fn refused_sets_leave_no_closures() {
    let server = server(&Clock::new());
    let held = Arc::new(());
    let holder = Arc::clone(&held);
    let source = Source::closures(
        move |_| {
            let _ = &holder;
            async { Ok(institutions(1)) }
        },
        || async { Ok(1) },
    );
    let many = (0..1001).map(|at| ColumnDefinition::integer(format!("c{at}")));
    server.create_response(CreateOptions::new("x", source).with_columns(many)).await.unwrap_err();
    assert_eq!(Arc::strong_count(&held), 1, "the closure is kept for ever");
}

#[tokio::test]
async fn short_link_life_does_not_panic() {
    let limits = ResultLimits::default().with_link_life(Duration::from_millis(500));
    let server = DualResponseServer::new(
        options(&Clock::new()).with_link_keys(LinkKeys::random()).with_limits(limits),
    )
    .unwrap();
    let id = search(&server).await.resource_id;
    let _ = server.mint_link(&id, &Access::Program, LinkOptions::default()).await;
}

#[tokio::test]
async fn pretty_rows_keep_their_numbers() {
    let rows = Rows::from_json_array("[{\"n\": 123456789012345678901234567890,\n \"d\": 0.10}]").unwrap();
    assert!(rows.get(0).unwrap().contains("123456789012345678901234567890"), "{:?}", rows.get(0));
}

#[tokio::test]
async fn https_scheme_can_be_fetched() {
    let server = DualResponseServer::new(options(&Clock::new()).with_scheme("https"));
    if let Ok(server) = server {
        let response = search(&server).await;
        assert_eq!(response.resource_uri, response.resource_url);
    }
}

#[tokio::test]
async fn forged_offset_does_not_panic() {
    let data = Arc::new(Mutex::new((0..10).collect::<BTreeSet<u64>>()));
    let server = DualResponseServer::new(options(&Clock::new()).with_query("keyed", keyed(&data))).unwrap();
    let id = server
        .create_response(CreateOptions::new("x", Source::query("keyed", json!({}))))
        .await
        .unwrap()
        .resource_id;
    let cursor = BASE64_URL_SAFE_NO_PAD.encode(json!({"o": u64::MAX, "k": [1]}).to_string());
    let (status, ..) =
        ask(&server, "GET", &format!("/{id}/rows?cursor={cursor}"), "application/x-ndjson").await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn links_allow_no_more_than_whoever_makes_them_may() {
    use antiphon_results::{Action, Scope};
    let viewers = |_: &Resource, _: &Owner, action: Action| {
        matches!(action, Action::Describe | Action::Read | Action::Link)
    };
    let server = DualResponseServer::new(
        options(&Clock::new())
            .with_link_keys(LinkKeys::random())
            .with_authenticate(eve)
            .with_authorize(viewers),
    )
    .unwrap();
    let made = CreateOptions::new("x", Source::rows(institutions(3))).for_owner(Owner::principal("ada"));
    let id = server.create_response(made).await.unwrap().resource_id;
    let eve = Access::caller(Owner::principal("eve"));
    assert!(server.delete(&id, &eve).await.is_err(), "a viewer deletes nothing");
    server.mint_link(&id, &eve, LinkOptions::default()).await.expect("a viewer may share what it sees");
    if let Ok(link) = server.mint_link(&id, &eve, LinkOptions::default().with_scopes([Scope::Delete])).await {
        let by_link = server.open_link(link.url.split_once("?link=").unwrap().1).unwrap();
        assert!(
            server.delete(&id, &by_link).await.is_err(),
            "a viewer has deleted it by a link it made itself"
        );
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn pages_and_streams_of_large_rows_are_bounded() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    #[derive(Debug)]
    struct Watched {
        inner: antiphon_results::source::SqlQuery<sqlx::Sqlite>,
        most: Arc<AtomicUsize>,
    }
    #[async_trait::async_trait]
    impl Query for Watched {
        fn columns(&self) -> &[ColumnDefinition] {
            self.inner.columns()
        }
        fn key(&self) -> &[String] {
            self.inner.key()
        }
        fn sorts(&self) -> bool {
            self.inner.sorts()
        }
        async fn count(&self, parameters: &Value) -> Result<u64, BoxError> {
            self.inner.count(parameters).await
        }
        async fn page(&self, parameters: &Value, page: &PageRequest) -> Result<Rows, BoxError> {
            let rows = self.inner.page(parameters, page).await?;
            self.most.fetch_max(rows.bytes(), Ordering::SeqCst);
            Ok(rows)
        }
    }
    let pool =
        sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let most = Arc::new(AtomicUsize::new(0));
    for key in [vec![], vec!["n"]] {
        let sql = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100) SELECT n, hex(zeroblob(500000)) AS big FROM c";
        let inner = antiphon_results::source::SqlQuery::sqlite(pool.clone(), sql)
            .with_columns([ColumnDefinition::integer("n"), ColumnDefinition::string("big")])
            .with_key(key);
        let server = DualResponseServer::new(
            options(&Clock::new()).with_query("big", Watched { inner, most: Arc::clone(&most) }),
        )
        .unwrap();
        let made = CreateOptions::new("x", Source::query("big", json!({}))).with_sample_size(1);
        let id = server.create_response(made).await.unwrap().resource_id;
        let stream = server.stream(&id, &Access::Program, PageOptions::default()).await.unwrap();
        let count = stream.try_fold(0, |sum, rows| async move { Ok(sum + rows.len()) }).await.unwrap();
        let (mut next, mut paged) = (Some(0), 0);
        while let Some(at) = next {
            let page = server.page(&id, &Access::Program, PageOptions::new(at, 10_000)).await.unwrap();
            paged += page.rows.len();
            next = page.next_offset();
        }
        assert_eq!((count, paged), (100, 100));
    }
    assert!(most.load(Ordering::SeqCst) < 20 << 20, "{} bytes at once", most.load(Ordering::SeqCst));
}
