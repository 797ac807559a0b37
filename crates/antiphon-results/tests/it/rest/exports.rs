//! What `GET /{id}/export` says of bytes that are not sent, or not all.

use antiphon_results::{CreateOptions, Source, snapshot::RowSource};
use axum::body::Body;
use futures_util::stream;

use super::{House, people};
use crate::support::{CONTENT, Shelf};

#[tokio::test]
async fn length_that_nobody_knows_is_not_said_to_be_nothing() {
    let house = House::open();
    let path = format!("{}/export?format=csv", house.people(3).await);
    let head = house.ask("HEAD", &path, Body::empty()).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, None));
    let tag = head.header("etag").unwrap();
    let known = house.ask_with("GET", &path, &[("if-none-match", tag)], Body::empty()).await;
    assert_eq!((known.status.as_u16(), known.header("content-length")), (304, None));

    let (house, path) = saved().await;
    let path = format!("{path}/export?format=ndjson");
    let head = house.ask("HEAD", &path, Body::empty()).await;
    assert_eq!((head.status.as_u16(), head.header("content-length")), (200, None));
    let known = house.ask_with("GET", &path, &[("if-none-match", "\"ndjson\"")], Body::empty()).await;
    assert_eq!((known.status.as_u16(), known.header("content-length")), (304, None));
}

#[tokio::test]
async fn length_that_is_known_is_said_without_the_bytes() {
    let (house, path) = saved().await;
    let head = house.ask("HEAD", &format!("{path}/export?format=csv"), Body::empty()).await;
    assert_eq!((head.header("content-length"), head.text().as_str()), (Some("10"), ""));
}

#[tokio::test]
async fn part_that_takes_too_long_to_find_is_answered_with_the_whole() {
    let (house, path) = saved().await;
    let path = format!("{path}/export?format=ndjson");
    let whole = house.ask_with("GET", &path, &[("range", "bytes=5-")], Body::empty()).await;
    assert_eq!((whole.status.as_u16(), whole.text().as_str()), (200, CONTENT));
}

#[tokio::test]
async fn who_has_all_bytes_learns_of_which_there_are_no_more() {
    let (house, path) = saved().await;
    let path = format!("{path}/export?format=csv");
    let part = house.ask_with("GET", &path, &[("range", "bytes=5-")], Body::empty()).await;
    assert_eq!((part.status.as_u16(), part.text().as_str()), (206, "56789"));
    let past = house.ask_with("GET", &path, &[("range", "bytes=10-")], Body::empty()).await;
    assert_eq!(past.status.as_u16(), 416);
    assert_eq!((past.header("content-range"), past.header("etag")), (Some("bytes */10"), Some("\"csv\"")));
}

/// A set whose rows are saved.
async fn saved() -> (House, String) {
    let house = House::with(|options| options.with_snapshots(Shelf::default()));
    let rows = stream::iter([Ok(people(1))]);
    let path = house.make(CreateOptions::new("Saved", Source::snapshot(RowSource::rows(rows)))).await;
    (house, path)
}
