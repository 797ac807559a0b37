//! What goes wrong on the way, what is done about it, and what is never told.

use std::time::{Duration, Instant};

use antiphon_llm::{Block, Error, Request, providers::ProviderConfig};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::support::{Answer, KEY, Kind, Server};

/// Fails as `failed` says until the n-th request, from 0.
async fn failing(kind: Kind, failed: Answer, until: usize) -> Server {
    Server::start(move |number, _| if number < until { failed.clone() } else { Answer::ok(kind.says("ok")) })
        .await
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    for kind in Kind::ALL {
        for status in [429, 500, 503, 529] {
            let server =
                failing(kind, Answer::status(status, json!({"error": {"message": "busy"}})), 2).await;
            let model = kind.open(server.config(kind)).unwrap();
            let reply = model.reply(&Request::prompt("Hi")).await.unwrap();
            assert_eq!((reply.text().as_str(), server.seen().len()), ("ok", 3), "{kind:?}, {status}");
        }
    }
}

#[tokio::test]
async fn retries_come_to_an_end() {
    let server = failing(Kind::Chat, Answer::status(503, json!({"error": {"message": "busy"}})), 9).await;
    let model = Kind::Chat.open(server.config(Kind::Chat).with_retries(1)).unwrap();
    let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
    assert_eq!((error, server.seen().len()), (Error::Unavailable("503: busy".into()), 2));
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    for (status, body) in [
        (400, json!({"error": {"message": "no"}})),
        (401, json!({"error": {"message": "no"}})),
        (404, json!({"error": {"message": "no such model"}})),
        (429, json!({"error": {"message": "pay first", "code": "insufficient_quota"}})),
    ] {
        let server = failing(Kind::Chat, Answer::status(status, body), 9).await;
        let model = Kind::Chat.open(server.config(Kind::Chat)).unwrap();
        let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
        assert!(!error.is_retryable(), "{error}");
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_is_waited_for() {
    let busy =
        Answer::status(429, json!({"error": {"message": "slow down"}})).with_header("retry-after-ms", 60);
    let server = failing(Kind::Anthropic, busy, 1).await;
    let config =
        server.config(Kind::Anthropic).with_backoff(Duration::from_millis(1), Duration::from_secs(1));
    let model = Kind::Anthropic.open(config).unwrap();
    let started = Instant::now();
    model.reply(&Request::prompt("Hi")).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(60));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_too_long_is_not() {
    let busy =
        Answer::status(429, json!({"error": {"message": "slow down"}})).with_header("retry-after", 3600);
    let server = failing(Kind::Chat, busy, 1).await;
    let model = Kind::Chat.open(server.config(Kind::Chat)).unwrap();
    let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
    let retry_after = Some(Duration::from_secs(3600));
    assert_eq!(error, Error::RateLimited { message: "slow down".into(), retry_after });
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_reply_that_does_not_come_is_not_waited_for() {
    let mut late = Answer::ok(json!({}));
    late.after = Duration::from_secs(60);
    let server = failing(Kind::Chat, late, 9).await;
    let limit = Duration::from_millis(80);
    let model = Kind::Chat.open(server.config(Kind::Chat).with_timeout(limit)).unwrap();
    assert_eq!(model.reply(&Request::prompt("Hi")).await, Err(Error::Timeout(limit)));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_over_for_the_provider_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let config = ProviderConfig::new(KEY).with_base_url(url).with_model("m");
    let model = Kind::Compatible.open(config).unwrap();
    let call = tokio::spawn(async move { model.reply(&Request::prompt("Hi")).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    call.abort();
    let over = async { while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), over).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error() {
    for kind in Kind::ALL {
        let mut strange = Answer::ok(json!({}));
        strange.body = "<html>welcome</html>".into();
        let server = failing(kind, strange, 9).await;
        let model = kind.open(server.config(kind).with_retries(0)).unwrap();
        let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
        assert!(matches!(error, Error::Malformed(_) | Error::Unavailable(_)), "{kind:?}: {error:?}");
    }
}

#[tokio::test]
async fn nobody_is_followed_to_another_address() {
    let elsewhere = failing(Kind::Anthropic, Answer::status(500, json!({})), 0).await;
    let moved = Answer::status(307, json!({})).with_header("location", &elsewhere.url);
    let server = failing(Kind::Anthropic, moved, 9).await;
    let model = Kind::Anthropic.open(server.config(Kind::Anthropic)).unwrap();
    let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
    assert!(matches!(error, Error::Rejected { status: 307, .. }), "{error:?}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    for kind in Kind::ALL {
        // An answer that shows it, one that cannot be read, and nobody to answer.
        let echo = json!({"error": {"message": format!("bad key {KEY}")}});
        let mut unreadable = Answer::ok(json!({}));
        unreadable.body = format!("<p>{KEY}</p>");
        for answer in [Answer::status(400, echo.clone()), Answer::status(500, echo), unreadable] {
            let server = failing(kind, answer, 9).await;
            let config = server.config(kind).with_retries(0);
            let model = kind.open(config.clone()).unwrap();
            let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
            let seen = &server.seen()[0];
            let sent = seen.headers.values().any(|value| value.to_str().unwrap_or_default().contains(KEY));
            assert!(sent, "{kind:?}");
            assert!(!seen.uri.to_string().contains(KEY), "{kind:?}: {}", seen.uri);
            for shown in [format!("{error} {error:?}"), format!("{config:?} {model:?} {}", model.name())] {
                assert!(!shown.contains(KEY), "{kind:?}: {shown}");
            }
            assert!(!seen.body.to_string().contains(KEY), "{kind:?}");
        }
        let server = failing(kind, Answer::ok(json!({})), 9).await;
        let config = server.config(kind).with_base_url("http://127.0.0.1:1").with_retries(0);
        let error = kind.open(config).unwrap().reply(&Request::prompt("Hi")).await.unwrap_err();
        assert!(matches!(&error, Error::Unavailable(why) if why.contains("refused")), "{kind:?}: {error:?}");
        assert!(!format!("{error} {error:?}").contains(KEY), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn what_a_provider_cannot_carry_is_named() {
    for (kind, block, what) in [
        (Kind::Anthropic, Block::audio("UklGRg==", "audio/wav"), "it cannot read audio"),
        (Kind::Chat, Block::audio("T2dnUw==", "audio/ogg"), "it cannot read audio of the type `audio/ogg`"),
        (
            Kind::Chat,
            Block::image("PHN2Zz4=", "image/svg+xml"),
            "it cannot read images of the type `image/svg+xml`",
        ),
        (Kind::Ollama, Block::tool_use("1", "go", json!({})), "a user message cannot contain a tool call"),
    ] {
        let server = failing(kind, Answer::ok(json!({})), 9).await;
        let model = kind.open(server.config(kind)).unwrap();
        let error = model.reply(&Request::prompt(block)).await.unwrap_err();
        assert_eq!(error, Error::Unsupported { model: kind.model().into(), what: what.into() });
        assert!(server.seen().is_empty());
    }
}
