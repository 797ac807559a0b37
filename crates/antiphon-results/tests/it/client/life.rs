use std::time::Duration;

use antiphon_results::{
    ErrorCode,
    client::{DualResponseClientOptions, FetchOptions},
};
use chrono::{DateTime, Utc};

use super::{
    client, local,
    server::{Server, Then, json_answer, raw},
    tool_result,
};

fn moment(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

#[tokio::test]
async fn metadata_pinning_extending_and_deleting_work() {
    let server = Server::default();
    let set = local(&format!("{}/abc123", server.serve().await));

    let metadata = set.metadata().await.unwrap();
    assert_eq!((metadata.status.as_str(), metadata.access_count), ("ready", 3));
    assert_eq!(set.expires_at(), Some(moment("2025-01-15T11:00:00Z")));
    assert!(set.is_expired());

    assert!(set.pin().await.unwrap());
    assert_eq!(set.expires_at(), None);
    assert!(!set.is_expired());
    assert!(set.unpin().await.unwrap());
    assert_eq!(set.expires_at(), Some(moment("2025-01-15T12:00:00Z")));
    let end = set.extend(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(end, Some(moment("2025-01-15T13:00:00Z")));

    assert!(set.delete().await.unwrap());
    assert!(!set.delete().await.unwrap());
    assert!(!set.pin().await.unwrap());
    let methods: Vec<_> = server.seen.lock().unwrap().iter().map(|(method, ..)| method.to_string()).collect();
    assert_eq!(methods, ["GET", "PUT", "PUT", "PUT", "DELETE", "DELETE", "PUT"]);
    assert_eq!(server.asked()[3]["expires_in"], 3600);
}

/// The error of a fetch whose answer is this one, before the set expires and after.
async fn errors(status: &str, body: &str) -> [ErrorCode; 2] {
    let url = raw(json_answer(status, body), Then::Close).await;
    let mut codes = [ErrorCode::Configuration; 2];
    for (code, now) in codes.iter_mut().zip(["2025-01-15T10:31:00Z", "2025-01-15T10:46:00Z"]) {
        let now = moment(now);
        let options = DualResponseClientOptions::new().allow_loopback().with_clock(move || now);
        let set = client(options).parse(&tool_result(&url)).unwrap();
        let error = set.fetch(FetchOptions::new()).await.unwrap_err();
        assert_eq!(error.status(), status[..3].parse().ok(), "{error:?}");
        *code = error.code();
    }
    codes
}

#[tokio::test]
async fn gone_is_told_from_never_there() {
    use ErrorCode::{FetchError, ResourceExpired, ResourceNotFound};
    let plain = r#"{"error":"not_found","message":"Resource not found or expired"}"#;
    assert_eq!(errors("404 Not Found", plain).await, [ResourceNotFound, ResourceExpired]);
    assert_eq!(errors("404 Not Found", "<html>").await, [ResourceNotFound, ResourceExpired]);
    let code = r#"{"error":"not_found","message":"gone","code":"RESOURCE_EXPIRED"}"#;
    assert_eq!(errors("404 Not Found", code).await, [ResourceExpired; 2]);
    let code = r#"{"error":"not_found","message":"gone","code":"RESOURCE_NOT_FOUND"}"#;
    assert_eq!(errors("404 Not Found", code).await, [ResourceNotFound; 2]);
    assert_eq!(errors("410 Gone", "").await, [ResourceExpired; 2]);
    for status in ["400 Bad Request", "403 Forbidden", "500 Internal Server Error", "503 Unavailable"] {
        assert_eq!(errors(status, plain).await, [FetchError; 2], "{status}");
    }
}

#[tokio::test]
async fn words_of_a_server_are_bounded_and_clean() {
    let long = "x".repeat(5000);
    let body = format!(r#"{{"message":"\u001b[31mred\r\n\u202egnp {long}","code":"{long}"}}"#);
    let url = raw(json_answer("500 Internal Server Error", &body), Then::Close).await;
    let error = local(&url).fetch(FetchOptions::new()).await.unwrap_err();
    let answer = error.fetch_error().unwrap();
    assert!(answer.message.starts_with("[31mredgnp xxx"), "{}", answer.message);
    assert!(answer.message.chars().count() <= 301);
    assert!(answer.code.as_ref().unwrap().chars().count() <= 301);
}

#[tokio::test]
async fn a_busy_server_says_when_to_come_back() {
    let answer = "HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let error = local(&raw(answer, Then::Close).await).fetch(FetchOptions::new()).await.unwrap_err();
    assert_eq!(error.fetch_error().unwrap().retry_after, Some(Duration::from_secs(7)));
    assert_eq!(error.to_string(), "the server returned status 503: Service Unavailable");
}
