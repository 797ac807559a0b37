//! Downloads that break, from servers that say what they are told to.

use antiphon_results::{
    client::{DualResponseClientError, ExportOptions},
    snapshot::ExportFormat,
};
use futures_util::TryStreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{local, server::head};

/// A server that gives each connection the next answer. An empty one is none: the connection is closed.
async fn scripted(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/resources/abc123", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(answer.as_bytes()).await;
            let _ = socket.shutdown().await;
        }
    });
    url
}

async fn download(answers: Vec<String>, options: ExportOptions) -> Result<String, DualResponseClientError> {
    let set = local(&scripted(answers).await);
    let parts: Vec<_> = set.export(ExportFormat::Ndjson, &options).await?.try_collect().await?;
    Ok(String::from_utf8(parts.concat()).unwrap())
}

const TAG: &str = "etag: \"a\"\r\n";

fn broken() -> String {
    head("200 OK", &format!("{TAG}content-length: 10\r\n"), "01234")
}

fn rest() -> String {
    let headers = format!("{TAG}content-range: bytes 5-9/10\r\ncontent-length: 5\r\n");
    head("206 Partial Content", &headers, "56789")
}

#[tokio::test]
async fn download_that_broke_goes_on_after_a_server_that_was_away_and_one_that_was_busy() {
    let busy = head("503 Service Unavailable", "retry-after: 0\r\ncontent-length: 0\r\n", "");
    let answers = vec![broken(), String::new(), busy, rest()];
    assert_eq!(download(answers, ExportOptions::new()).await.unwrap(), "0123456789");
}

#[tokio::test]
async fn download_that_broke_ends_where_it_is_refused() {
    let refused = head("403 Forbidden", "content-length: 0\r\n", "");
    let error = download(vec![broken(), refused, rest()], ExportOptions::new()).await.unwrap_err();
    assert_eq!(error.status(), Some(403));
    let other = head("200 OK", "etag: \"b\"\r\ncontent-length: 10\r\n", "abcdefghij");
    let error = download(vec![broken(), other, rest()], ExportOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("begin again"), "{error}");
}

#[tokio::test]
async fn resuming_at_the_very_end_is_the_end() {
    let past = |headers: &str| {
        vec![head("416 Range Not Satisfiable", &format!("{headers}content-length: 0\r\n"), "")]
    };
    let resume = || ExportOptions::new().resuming(10, "\"a\"");
    for same in ["content-range: bytes */10\r\n", &format!("{TAG}content-range: bytes */10\r\n"), TAG] {
        assert_eq!(download(past(same), resume()).await.unwrap(), "", "{same}");
    }
    for other in ["content-range: bytes */9\r\n", "etag: \"b\"\r\ncontent-range: bytes */10\r\n"] {
        let error = download(past(other), resume()).await.unwrap_err();
        assert!(error.to_string().contains("begin again"), "{other}: {error}");
    }
}
