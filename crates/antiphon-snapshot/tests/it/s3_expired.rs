//! Signed addresses that have ended. The S3 of tests does not look at their end, so somebody stands before it who does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    BoxError, ResultLimits,
    client::{
        DualResponseClient, DualResponseClientOptions, ExportOptions, Fetch, FetchRequest, FetchResponse,
        HttpFetch,
    },
    snapshot::{ExportFormat, RetrievalMode, SnapshotStore as _},
};
use antiphon_snapshot::{SnapshotConfig, Snapshots};
use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use futures_util::TryStreamExt as _;
use url::Url;

use crate::{
    ingest_support::{id, row_source, s3_bucket, s3_options, service, write},
    served::{House, numbers},
};

/// When a signed address ends; one that is not signed does not.
fn end(address: &Url) -> Option<DateTime<Utc>> {
    let value = |name: &str| address.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value);
    let begin = NaiveDateTime::parse_from_str(&value("X-Amz-Date")?, "%Y%m%dT%H%M%SZ").ok()?.and_utc();
    let seconds = value("X-Amz-Expires")?.parse().ok()?;
    Some(begin + TimeDelta::seconds(seconds))
}

/// Waits until an address has ended.
async fn ended(address: &Url) {
    while end(address).unwrap() > Utc::now() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The S3 of tests behind somebody who refuses what has ended, as S3 does.
struct Front {
    /// Where it is asked.
    url: String,
    snapshots: Snapshots,
}

impl Front {
    async fn open(name: &str) -> Option<Self> {
        let s3 = service("ANTIPHON_TEST_S3_URL")?;
        let bucket = s3_bucket(&s3, name).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass).with_state((reqwest::Client::new(), s3));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let address = format!("s3://{bucket}/rows");
        let snapshots = Snapshots::open_with(&address, s3_options(&url), SnapshotConfig::default()).unwrap();
        Some(Self { url, snapshots })
    }
}

/// Refuses an address that has ended, and passes everything else on.
async fn pass(State((http, s3)): State<(reqwest::Client, String)>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let url = Url::parse(&format!("{s3}{}", parts.uri)).unwrap();
    let now = Utc::now();
    if let Some(end) = end(&url).filter(|end| *end <= now) {
        let text = format!(
            r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message><Expires>{}</Expires><ServerTime>{}</ServerTime></Error>"#,
            end.to_rfc3339(),
            now.to_rfc3339()
        );
        return (StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, "application/xml")], text).into_response();
    }
    let mut headers = parts.headers;
    // What is said of this connection is not true of the next.
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let answer = http.request(parts.method, url).headers(headers).body(body).send().await.unwrap();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    *response.body_mut() = Body::from(answer.bytes().await.unwrap());
    response
}

/// What an address that was just signed gives, and the address. A machine that stalls may take longer than it lasts,
/// so that it is signed again a few times.
async fn fetched(sign: &impl AsyncFn() -> Url) -> (Url, Vec<u8>) {
    for _ in 0..5 {
        let address = sign().await;
        let answer = reqwest::get(address.clone()).await.unwrap();
        if answer.status() == StatusCode::OK {
            return (address, answer.bytes().await.unwrap().to_vec());
        }
        assert!(end(&address).unwrap() <= Utc::now(), "{}: it has not ended", answer.status());
    }
    panic!("an address that was just signed has always ended");
}

async fn is_refused(address: &Url) {
    let answer = reqwest::get(address.clone()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(answer.text().await.unwrap().contains("Request has expired"));
}

#[tokio::test]
async fn an_address_is_good_until_it_ends_and_another_can_be_had() {
    let Some(front) = Front::open("ended").await else { return };
    let rows = (0..1000).map(|number| format!(r#"{{"n":{number}}}"#));
    let written = write(&front.snapshots, "rs_ended", row_source(rows)).await;
    let set = id("rs_ended");
    let sign = async || front.snapshots.sign(&set, Duration::from_secs(1)).await.unwrap().unwrap();
    let (address, bytes) = fetched(&sign).await;
    assert!(address.as_str().starts_with(&front.url), "{}", address.path());
    assert_eq!(bytes.len() as u64, written.bytes);
    ended(&address).await;
    is_refused(&address).await;
    assert_eq!(fetched(&sign).await.1, bytes);
}

/// How long the addresses last that the routes give.
fn brief() -> ResultLimits {
    ResultLimits::default().with_link_life(Duration::from_secs(3))
}

#[tokio::test]
async fn the_route_gives_a_new_address_as_long_as_the_set_lives() {
    let Some(front) = Front::open("route").await else { return };
    let house = House::with(&front.snapshots, |options| {
        options.with_retrieval(RetrievalMode::Redirect).with_limits(brief())
    })
    .await;
    let set = house.numbers(3000).await;
    let path = format!("{set}/export?format=parquet");
    let redirected = async || {
        let answer = house.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), 307);
        Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap()
    };
    let (address, bytes) = fetched(&redirected).await;
    ended(&address).await;
    is_refused(&address).await;
    let (other, again) = fetched(&redirected).await;
    assert!(other != address && again == bytes);
    assert!(house.server.delete_resource(&set).await.unwrap());
    assert_eq!(house.get(&path).send().await.unwrap().status(), 404);
}

/// Holds the first redirect back until the address in it has ended.
#[derive(Debug)]
struct Slow {
    http: HttpFetch,
    redirects: Arc<AtomicUsize>,
}

#[async_trait]
impl Fetch for Slow {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, BoxError> {
        let answer = self.http.fetch(request).await?;
        if answer.status.is_redirection() && self.redirects.fetch_add(1, Ordering::SeqCst) == 0 {
            let address = Url::parse(answer.headers[header::LOCATION].to_str()?)?;
            ended(&address).await;
        }
        Ok(answer)
    }
}

#[tokio::test]
async fn the_client_asks_once_more_when_an_address_has_ended_on_its_way() {
    let Some(front) = Front::open("client").await else { return };
    let house = House::with(&front.snapshots, |options| {
        options.with_retrieval(RetrievalMode::Redirect).with_limits(brief())
    })
    .await;
    let response = house.make(numbers(3000)).await;
    let slow = Slow { http: HttpFetch::new(), redirects: Arc::default() };
    let redirects = Arc::clone(&slow.redirects);
    let options = DualResponseClientOptions::new().with_base_url(&house.base).allow_origin(&front.url);
    let client = DualResponseClient::new(options.with_fetch(slow)).unwrap();
    let set = client.parse(&response.to_mcp_tool_result()).unwrap();
    let download = set.export(ExportFormat::Parquet, &ExportOptions::new()).await.unwrap();
    let bytes: Vec<u8> = download.map_ok(|bytes| bytes.to_vec()).try_concat().await.unwrap();
    let (_, manifest) = house.json(&format!("{}/manifest", response.resource_id)).await;
    assert_eq!(manifest["bytes"], bytes.len());
    assert_eq!((manifest["rows"].as_u64(), redirects.load(Ordering::SeqCst)), (Some(3000), 2));
}
