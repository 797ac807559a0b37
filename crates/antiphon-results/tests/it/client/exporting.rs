//! Downloads that break, from servers that say what they are told to.

use std::sync::{Arc, Mutex};

use antiphon_results::{
    client::{DualResponseClientError, DualResponseClientOptions, ExportOptions},
    snapshot::ExportFormat,
};
use futures_util::TryStreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{client, local, server::head};

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
    assert!(error.to_string().contains("download it again"), "{error}");
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
        assert!(error.to_string().contains("download it again"), "{other}: {error}");
    }
}

#[tokio::test]
async fn resumed_download_begins_again_where_that_was_asked_for() {
    let other = || head("200 OK", "etag: \"b\"\r\ncontent-length: 10\r\n", "abcdefghij");
    let past = head("416 Range Not Satisfiable", "content-range: bytes */3\r\ncontent-length: 0\r\n", "");
    for answers in [vec![other()], vec![past, other()]] {
        let set = local(&scripted(answers).await);
        let options = ExportOptions::new().resuming(5, "\"a\"").or_restart();
        let download = set.export(ExportFormat::Ndjson, &options).await.unwrap();
        assert_eq!((download.start(), download.tag()), (0, Some("\"b\"")));
        let parts: Vec<_> = download.try_collect().await.unwrap();
        assert_eq!(parts.concat(), b"abcdefghij");
    }
    let set = local(&scripted(vec![rest()]).await);
    let options = ExportOptions::new().resuming(5, "\"a\"").or_restart();
    let download = set.export(ExportFormat::Ndjson, &options).await.unwrap();
    assert_eq!(download.start(), 5, "what is the same is gone on with");
}

#[tokio::test]
async fn download_with_more_bytes_than_announced_is_an_error() {
    let headers = format!("{TAG}content-range: bytes 5-9/7\r\ncontent-length: 5\r\n");
    let more = head("206 Partial Content", &headers, "56789");
    let error = download(vec![more], ExportOptions::new().resuming(5, "\"a\"")).await.unwrap_err();
    assert!(error.to_string().contains("more than the 7 announced bytes"), "{error}");
}

#[tokio::test]
async fn waiting_for_a_set_that_is_not_ready_is_observed() {
    let early = || head("202 Accepted", "retry-after: 0\r\ncontent-length: 0\r\n", "");
    let whole = head("200 OK", &format!("{TAG}content-length: 2\r\n"), "ok");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let options = DualResponseClientOptions::new()
        .allow_loopback()
        .with_wait_observer(move |waits| noted.lock().unwrap().push(waits));
    let set = client(options).at(&scripted(vec![early(), early(), whole]).await).unwrap();
    let download = set.export(ExportFormat::Ndjson, &ExportOptions::new()).await.unwrap();
    assert_eq!(download.total(), Some(2));
    assert_eq!(*seen.lock().unwrap(), [true, false]);
}

#[tokio::test]
async fn redirect_to_an_origin_that_is_not_allowed_names_it() {
    let elsewhere = |place: &str| {
        head("307 Temporary Redirect", &format!("location: {place}\r\ncontent-length: 0\r\n"), "")
    };
    let public = || DualResponseClientOptions::new().allow_loopback().allow_public_redirects();
    for (options, place, origin) in [
        (DualResponseClientOptions::new().allow_loopback(), "https://a.example/x?k=1", "https://a.example"),
        (public(), "http://a.example/x", "http://a.example"),
        (public(), "https://10.0.0.1/x", "https://10.0.0.1"),
    ] {
        let set = client(options).at(&scripted(vec![elsewhere(place)]).await).unwrap();
        let refused = set.export(ExportFormat::Parquet, &ExportOptions::new()).await.unwrap_err();
        let DualResponseClientError::RedirectRefused { origin: named, .. } = &refused else {
            panic!("{place}: {refused:?}");
        };
        assert_eq!(named, origin);
    }
}
