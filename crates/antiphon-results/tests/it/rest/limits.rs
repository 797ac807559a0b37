//! What is too much.

use std::{sync::Arc, time::Duration};

use antiphon_results::{BoxError, CreateOptions, ResultLimits, source::Source};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::{House, people};

#[tokio::test(start_paused = true)]
async fn more_pages_at_once_than_allowed_are_told_to_come_back() {
    let limits = ResultLimits::default().with_concurrent_pages(1);
    let house = House::with(|options| options.with_limits(limits));
    let gate = Arc::new(Semaphore::new(1));
    let turns = Arc::clone(&gate);
    let execute = move |_| {
        let turns = Arc::clone(&turns);
        async move {
            turns.acquire().await?.forget();
            Ok::<_, BoxError>(people(1))
        }
    };
    let path = house.make(CreateOptions::new("Slow", Source::closures(execute, || async { Ok(1) }))).await;
    let request = || Request::post(&path).body(Body::empty()).unwrap();
    let first = tokio::spawn(house.router.clone().oneshot(request()));
    tokio::task::yield_now().await;
    let second = house.send(request()).await;
    assert_eq!(second.refusal(), (429, "TOO_MANY_REQUESTS".to_owned()));
    assert_eq!(second.header("retry-after"), Some("5"));
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn more_streams_at_once_than_allowed_are_told_to_come_back() {
    let limits = ResultLimits::default().with_concurrent_streams(1);
    let house = House::with(|options| options.with_limits(limits));
    let path = house.people(5000).await;
    let request =
        || Request::post(&path).header("accept", "application/x-ndjson").body(Body::empty()).unwrap();
    let under_way = house.router.clone().oneshot(request()).await.unwrap();
    let refused = house.send(request()).await;
    assert_eq!(refused.refusal(), (429, "TOO_MANY_REQUESTS".to_owned()));
    drop(under_way);
    assert_eq!(house.send(request()).await.text().lines().count(), 5000, "who goes away leaves the turn");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_loses_its_place() {
    let stall = Duration::from_secs(60);
    let limits = ResultLimits::default().with_concurrent_streams(1).with_stall(stall);
    let house = House::with(|options| options.with_limits(limits));
    let path = house.people(50_000).await;
    let request =
        || Request::post(&path).header("accept", "application/x-ndjson").body(Body::empty()).unwrap();
    let idle = house.router.clone().oneshot(request()).await.unwrap();
    tokio::time::sleep(stall + std::time::Duration::from_secs(1)).await;
    assert_eq!(house.send(request()).await.text().lines().count(), 50_000);
    assert!(idle.into_body().collect().await.is_err(), "what was given up must not look whole");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_takes_too_long_is_a_504() {
    let house = House::open();
    let execute = |page: antiphon_results::source::PageRequest| async move {
        if page.limit == 100 {
            std::future::pending::<()>().await;
        }
        Ok::<_, BoxError>(people(1))
    };
    let path = house.make(CreateOptions::new("Stuck", Source::closures(execute, || async { Ok(1) }))).await;
    let answer = house.ask("POST", &path, Body::empty()).await;
    assert_eq!(answer.refusal(), (504, "TIMEOUT".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_arrives_is_not_waited_for() {
    let house = House::open();
    let path = house.people(1).await;
    let never = Body::from_stream(stream::pending::<Result<Bytes, BoxError>>());
    assert_eq!(house.ask("POST", &path, never).await.refusal(), (408, "TIMEOUT".to_owned()));
    let breaks = Body::from_stream(stream::iter([Ok(Bytes::from("{")), Err(BoxError::from("gone"))]));
    assert_eq!(house.ask("POST", &path, breaks).await.refusal(), (400, "INVALID_REQUEST".to_owned()));
}

#[tokio::test]
async fn a_body_may_be_as_large_as_allowed_and_no_larger() {
    let house = House::open();
    let path = house.people(1).await;
    let limit = 64 * 1024;
    let body = |length: usize| format!("{{}}{}", " ".repeat(length - 2));
    assert_eq!(house.ask("POST", &path, body(limit)).await.status, 200);
    assert_eq!(house.ask("POST", &path, body(limit + 1)).await.refusal(), (413, "LIMIT_EXCEEDED".to_owned()));
    // Without a length it is counted as it comes.
    let parts = |count: usize| {
        let part = Bytes::from(vec![b' '; 1024]);
        let parts = std::iter::once(Bytes::from("{}")).chain(std::iter::repeat_n(part, count));
        Body::from_stream(stream::iter(parts.map(Ok::<_, BoxError>).collect::<Vec<_>>()))
    };
    assert_eq!(house.ask("POST", &path, parts(63)).await.status, 200);
    assert_eq!(house.ask("POST", &path, parts(64)).await.refusal(), (413, "LIMIT_EXCEEDED".to_owned()));
}

#[tokio::test]
async fn a_row_larger_than_a_page_can_still_be_streamed() {
    let limits = ResultLimits::default().with_page_bytes(10);
    let house = House::with(|options| options.with_limits(limits));
    let path = house.people(1).await;
    assert_eq!(house.ask("POST", &path, "").await.refusal(), (422, "LIMIT_EXCEEDED".to_owned()));
    let streamed = house.ask_with("POST", &path, &[("accept", "application/x-ndjson")], "").await;
    assert_eq!(streamed.text().lines().count(), 1);
}

#[tokio::test]
async fn a_stream_whose_set_is_deleted_breaks_off() {
    let house = House::open();
    let live = Source::closures(
        |page: antiphon_results::source::PageRequest| async move {
            Ok::<_, BoxError>(people(usize::try_from(page.limit)?))
        },
        || async { Ok(10_000) },
    );
    for source in [Source::rows(people(10_000)), live] {
        for accept in ["application/x-ndjson", "text/csv"] {
            let path = house.make(CreateOptions::new("People", source.clone())).await;
            let request = Request::post(&path).header("accept", accept).body(Body::empty()).unwrap();
            let answer = house.router.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            let mut body = answer.into_body();
            assert!(body.frame().await.unwrap().is_ok());
            assert_eq!(house.ask("DELETE", &path, "").await.status, 204);
            assert!(body.collect().await.is_err(), "{accept}: a part must not look like the whole");
        }
    }
}

#[tokio::test]
async fn a_server_without_keys_says_that_it_signs_no_links() {
    let house = House::with(|options| options);
    let path = house.people(1).await;
    let answer = house.ask("POST", &format!("{path}/links"), "").await;
    assert_eq!(answer.refusal(), (501, "CONFIGURATION".to_owned()));
    let answer = house.ask("GET", &format!("{path}?link=abc"), "").await;
    assert_eq!(answer.refusal(), (401, "UNAUTHORIZED".to_owned()));
    tokio::time::timeout(Duration::from_secs(5), house.server.shutdown()).await.unwrap().unwrap();
}
