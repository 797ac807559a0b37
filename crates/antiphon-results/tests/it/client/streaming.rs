use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use antiphon_results::{
    ErrorCode, Rows, Sort,
    client::{DualResponseClientOptions, ParsedDualResponse, StreamOptions},
};
use axum::{
    Router,
    body::{Body, Bytes},
    http::header,
    routing::post,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{net::TcpListener, sync::Notify};

use super::{
    client, local,
    server::{ROWS, Server},
    tool_result,
};

#[derive(Deserialize)]
struct Id {
    id: u64,
}

async fn set(server: &Server) -> ParsedDualResponse {
    local(&format!("{}/abc123", server.serve().await))
}

fn lines() -> Server {
    Server { ndjson: true, ..Server::default() }
}

/// The sizes of all batches, after it was seen that their rows are all rows from `offset` on.
async fn sizes(set: &ParsedDualResponse, offset: u64, options: StreamOptions) -> Vec<usize> {
    let batches: Vec<Vec<Id>> = set.fetch_stream_as(options.with_offset(offset)).try_collect().await.unwrap();
    assert!(batches.iter().flatten().map(|row| row.id).eq(offset..ROWS));
    batches.iter().map(Vec::len).collect()
}

#[tokio::test]
async fn lines_come_in_one_answer_and_are_cut_into_batches() {
    for prefetch in [0, 1, 3] {
        let server = lines();
        let options = StreamOptions::new().with_prefetch(prefetch);
        assert_eq!(
            sizes(&set(&server).await, 0, options).await,
            [100, 100, 100, 100, 100, 100, 100, 100, 47]
        );
        assert_eq!(server.requests(), 1);
        let accept = server.seen.lock().unwrap()[0].1[header::ACCEPT].clone();
        assert_eq!(accept, "application/x-ndjson, application/json;q=0.9");
    }
}

#[tokio::test]
async fn pages_are_followed_where_a_server_has_no_lines() {
    for prefetch in [0, 1, 3] {
        let server = Server::default();
        let options = StreamOptions::new().with_batch_size(500).with_prefetch(prefetch);
        // The first page is as large as the server likes, since lines were hoped for.
        assert_eq!(sizes(&set(&server).await, 0, options).await, [100, 500, 247]);
        assert_eq!(server.requests(), 3);
    }
}

#[tokio::test]
async fn a_stream_may_begin_anywhere_and_be_sorted() {
    for server in [lines(), Server::default()] {
        let set = set(&server).await;
        assert_eq!(sizes(&set, 800, StreamOptions::new()).await, [47]);
        let end = StreamOptions::new().with_offset(847).with_sort(Sort::ascending("id"));
        assert!(set.fetch_stream(end).next().await.is_none());
        assert_eq!(server.asked()[1]["sort"], json!({"field": "id", "order": "asc"}));
    }
}

#[tokio::test]
async fn a_batch_larger_than_the_set_is_the_set() {
    let options = StreamOptions::new().with_batch_size(u64::MAX);
    assert_eq!(sizes(&set(&lines()).await, 0, options).await, [847]);
}

#[tokio::test]
async fn a_server_that_limits_lines_is_asked_for_the_rest() {
    let server = Server { ndjson_limited: true, ..lines() };
    let options = StreamOptions::new().with_batch_size(400);
    assert_eq!(sizes(&set(&server).await, 0, options).await, [100, 400, 347]);
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_set_that_has_shrunk_ends_where_it_ends() {
    let server = lines();
    let mut result = tool_result(&format!("{}/abc123", server.serve().await));
    result["structuredContent"]["metadata"]["total_count"] = json!(900);
    let set = client(DualResponseClientOptions::new().allow_loopback()).parse(&result).unwrap();
    assert_eq!(sizes(&set, 0, StreamOptions::new().with_batch_size(1000)).await, [847]);
    assert_eq!(server.asked()[1]["offset"], 847);
}

#[tokio::test]
async fn rows_stay_text_if_that_is_wanted() {
    let rows: Vec<Vec<Box<RawValue>>> =
        set(&lines()).await.fetch_stream_as(StreamOptions::new()).try_collect().await.unwrap();
    assert_eq!(rows[8][46].get(), r#"{"id":846,"name":"row 846"}"#);
}

#[tokio::test]
async fn rows_can_be_passed_on_without_being_read() {
    for server in [lines(), Server::default()] {
        let stream = set(&server).await.fetch_stream_text(StreamOptions::new().with_batch_size(500));
        let rows: Vec<Rows> = stream.try_collect().await.unwrap();
        assert_eq!(rows.iter().map(Rows::len).sum::<usize>(), 847);
        assert_eq!(rows.last().unwrap().iter().next_back(), Some(r#"{"id":846,"name":"row 846"}"#));
    }
}

#[tokio::test]
async fn nothing_is_requested_before_somebody_asks() {
    let server = lines();
    let stream = set(&server).await.fetch_stream(StreamOptions::new());
    tokio::task::yield_now().await;
    drop(stream);
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn a_stream_that_is_dropped_requests_no_more_than_it_was_to_fetch_ahead() {
    for (prefetch, most) in [(0, 1), (1, 2), (3, 4)] {
        let server = Server::default();
        let mut stream = set(&server).await.fetch_stream(StreamOptions::new().with_prefetch(prefetch));
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 100);
        // What is to be fetched ahead is waited for, and what must not be has every chance meanwhile.
        while server.requests() < most {
            tokio::task::yield_now().await;
        }
        set(&Server::default()).await.metadata().await.unwrap();
        drop(stream);
        assert_eq!(server.requests(), most, "prefetch {prefetch}");
    }
}

#[tokio::test]
async fn an_error_ends_the_stream() {
    for prefetch in [0, 1] {
        let server = Server { claims: json!({"has_next": true, "next_offset": 0}), ..Server::default() };
        let options = StreamOptions::new().with_prefetch(prefetch);
        let mut stream = set(&server).await.fetch_stream(options);
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::FetchError);
        assert!(stream.next().await.is_none());
    }
}

/// Tells when a body is no longer sent.
struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_slow_reader_slows_the_server_and_leaving_stops_it() {
    const MOST: u64 = 4_000_000;
    let (sent, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (counter, bell) = (Arc::clone(&sent), Arc::clone(&ended));
    let answer = move || {
        let (counter, told) = (Arc::clone(&counter), Told(Arc::clone(&bell)));
        let row = Bytes::from(format!("{}\n", json!({"id": 1, "text": "x".repeat(1000)})));
        let rows = stream::iter(0..MOST).map(move |_| {
            let _told = &told;
            counter.fetch_add(1, Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>(row.clone())
        });
        async { ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(rows)) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/resources/abc123", listener.local_addr().unwrap());
    let router = Router::new().route("/resources/abc123", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

    let set = local(&url);
    let mut stream = set.fetch_stream_as::<Value>(StreamOptions::new().with_prefetch(2));
    for _ in 0..3 {
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 100);
    }
    drop(stream);
    ended.notified().await;
    // What the kernel holds for the connection is some megabytes; the body would be gigabytes.
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 100_000, "{sent} rows were sent to a reader who took 300");
}
