//! Servers that fail, lie, or go on for ever.

use std::time::Duration;

use antiphon_results::{
    ErrorCode,
    client::{
        DualResponseClientError, DualResponseClientOptions, FetchOptions, ParsedDualResponse, StreamOptions,
    },
};
use futures_util::TryStreamExt;
use serde_json::Value;

use super::{
    client, local,
    server::{Then, chunked, head, json_answer, raw},
    tool_result,
};

const LINES: &str = "application/x-ndjson";

async fn page(set: &ParsedDualResponse) -> DualResponseClientError {
    set.fetch(FetchOptions::new()).await.unwrap_err()
}

async fn rows(set: &ParsedDualResponse) -> Result<usize, DualResponseClientError> {
    let batches: Vec<Vec<Value>> = set.fetch_stream_as(StreamOptions::new()).try_collect().await?;
    Ok(batches.iter().map(Vec::len).sum())
}

/// The error that both a page and a stream end with when this is the answer.
async fn both(answer: impl Into<Vec<u8>>) -> String {
    let set = local(&raw(answer, Then::Close).await);
    let (page, stream) = (page(&set).await, rows(&set).await.unwrap_err());
    assert_eq!(page.code(), ErrorCode::FetchError, "{page:?}");
    assert_eq!(stream.code(), ErrorCode::FetchError, "{stream:?}");
    page.to_string()
}

/// A client that waits for a moment only.
fn hasty(url: &str) -> ParsedDualResponse {
    let options = DualResponseClientOptions::new().allow_loopback().with_timeout(Duration::from_millis(100));
    client(options).parse(&tool_result(url)).unwrap()
}

#[test]
fn the_default_timeout_is_thirty_seconds() {
    let shown = format!("{:?}", antiphon_results::client::DualResponseClientOptions::new());
    assert!(shown.contains("timeout: 30s"), "{shown}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_a_timeout() {
    let set = hasty(&raw("", Then::Wait).await);
    assert_eq!(page(&set).await.code(), ErrorCode::Timeout);
    assert_eq!(rows(&set).await.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(set.metadata().await.unwrap_err().code(), ErrorCode::Timeout);
}

#[tokio::test]
async fn a_body_that_does_not_go_on_is_a_timeout() {
    let begun = "content-type: application/json\r\ncontent-length: 1000\r\n";
    let set = hasty(&raw(head("200 OK", begun, "{\"data\""), Then::Wait).await);
    assert_eq!(page(&set).await.code(), ErrorCode::Timeout);
    let set = hasty(&raw(chunked(LINES, &["{\"id\":1}\n"]), Then::Wait).await);
    assert_eq!(rows(&set).await.unwrap_err().code(), ErrorCode::Timeout);
    let set = hasty(&raw(head("500 Oh", begun, "{\"error\""), Then::Wait).await);
    assert_eq!(page(&set).await.code(), ErrorCode::Timeout);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_fetch_error() {
    // Bound and let go: nobody listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/resources/abc123", listener.local_addr().unwrap());
    drop(listener);
    let error = page(&local(&url)).await;
    assert_eq!((error.code(), error.status()), (ErrorCode::FetchError, None));
    assert_eq!(error.to_string(), "the request failed");
}

#[tokio::test]
async fn failures_of_a_server_are_fetch_errors_with_their_status() {
    for status in ["500 Internal Server Error", "403 Forbidden", "503 Service Unavailable", "429 Too Many"] {
        let url = raw(json_answer(status, "{}"), Then::Close).await;
        let error = page(&local(&url)).await;
        assert_eq!((error.code(), error.status()), (ErrorCode::FetchError, status[..3].parse().ok()));
        assert_eq!(rows(&local(&url)).await.unwrap_err().status(), status[..3].parse().ok());
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_fetch_errors() {
    assert!(both(json_answer("200 OK", "{\"data\": 7}")).await.contains("not the expected JSON"));
    both(json_answer("200 OK", "")).await;
    both(json_answer("200 OK", "not json")).await;
    both(json_answer("200 OK", "[1, 2, 3]")).await;
    both(json_answer("200 OK", r#"{"data":[{"id":1}],"total_count":-1}"#)).await;
    both("garbage").await;
    both("").await;
    let html = head("200 OK", "content-type: text/html\r\ncontent-length: 6\r\n", "<html>");
    assert!(both(html).await.contains("`text/html`, not JSON"));
    let zipped = head("200 OK", "content-encoding: gzip\r\ncontent-length: 6\r\n", "......");
    assert!(both(zipped).await.contains("compressed"));
}

#[tokio::test]
async fn pages_that_break_off_are_errors() {
    let headers = "content-type: application/json\r\ncontent-length: 1000\r\n";
    both(head("200 OK", headers, "{\"data\": [")).await;
    both(chunked("application/json", &["{\"data\": ["])).await;
    // Complete JSON, but not all that was announced.
    both(head("200 OK", headers, r#"{"data":[],"total_count":0}"#)).await;
}

#[tokio::test]
async fn lines_that_break_off_are_errors_and_never_a_shorter_truth() {
    let whole = chunked(LINES, &["{\"id\":1}\n{\"id\"", ":2}\n\r\n", "{\"id\":3}", ""]);
    let mut result = tool_result(&raw(whole, Then::Close).await);
    // It has three rows, but the response said 847. As a page they do not come, so nobody can tell why.
    let client = client(DualResponseClientOptions::new().allow_loopback());
    let error = rows(&client.parse(&result).unwrap()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FetchError);
    result["structuredContent"]["metadata"]["total_count"] = 3.into();
    assert_eq!(rows(&client.parse(&result).unwrap()).await.unwrap(), 3);

    let length = format!("content-type: {LINES}\r\ncontent-length: 1000\r\n");
    let open = format!("content-type: {LINES}\r\n");
    for broken in [
        chunked(LINES, &["{\"id\":1}\n{\"id\":2}\n"]),
        chunked(LINES, &["{\"id\":1}\n{\"id\":2}"]),
        chunked(LINES, &["{\"id\":1}\n{\"id\"", ""]),
        chunked(LINES, &["{\"id\":1}\n[oops\n", ""]),
        head("200 OK", &length, "{\"id\":1}\n{\"id\":2}\n"),
        // Neither a length nor chunks: the end of the connection would be the end of the rows.
        head("200 OK", &open, "{\"id\":1}\n{\"id\":2}\n"),
    ] {
        let error = rows(&local(&raw(broken.clone(), Then::Close).await)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::FetchError, "{broken}: {error:?}");
    }
}

#[tokio::test]
async fn what_is_too_long_is_not_read_to_its_end() {
    let many = "content-type: application/json\r\ncontent-length: 99999999999\r\n";
    let set = local(&raw(head("200 OK", many, "{"), Then::Wait).await);
    assert_eq!(page(&set).await.code(), ErrorCode::LimitExceeded);

    let options = DualResponseClientOptions::new().allow_loopback().with_max_body(1000);
    let long = chunked("application/json", &[&" ".repeat(600), &" ".repeat(600)]);
    let set = client(options).parse(&tool_result(&raw(long, Then::Wait).await)).unwrap();
    assert_eq!(page(&set).await.code(), ErrorCode::LimitExceeded);

    let line = chunked(LINES, &[&"x".repeat(17 << 20)]);
    let set = local(&raw(line, Then::Wait).await);
    assert_eq!(rows(&set).await.unwrap_err().code(), ErrorCode::LimitExceeded);
}
