//! `antiphon studio`: its server, as the page talks to it. Here: who may come in, and what stays.

#[cfg(unix)]
mod doorway;
mod late;
mod talk;
mod viewer;
mod world;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::json;
use tokio::process::Command;

use self::world::{BOTH, Studio, answer, guarded, kitchen};
use crate::support::Folder;

#[tokio::test]
async fn who_has_no_token_or_is_another_page_is_turned_away() {
    let studio = Studio::start(&[]).await;
    let send = async |request: RequestBuilder| answer(request.send().await.unwrap()).await.0;
    for path in
        ["/api/servers", "/api/session/1", "/api/session/1/events", "/api/session/1/traffic", "/nothing-here"]
    {
        assert_eq!(send(studio.bare(Method::GET, path)).await, StatusCode::UNAUTHORIZED, "{path}");
        let wrong = studio.bare(Method::GET, path).bearer_auth("0".repeat(64));
        assert_eq!(send(wrong).await, StatusCode::UNAUTHORIZED, "{path}");
        let in_address = format!("{path}?token={}", studio.token);
        assert_eq!(send(studio.bare(Method::GET, &in_address)).await, StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/api/connect", "/api/session/1/call", "/api/call/1/cancel", "/api/ask/1"] {
        assert_eq!(send(studio.bare(Method::POST, path).json(&json!({}))).await, StatusCode::UNAUTHORIZED);
    }
    for path in ["/", "/app.js", "/api/servers"] {
        let rebound = studio.request(Method::GET, path).header("host", "studio.example.com");
        assert_eq!(send(rebound).await, StatusCode::FORBIDDEN, "{path}");
        for origin in ["https://evil.example", "null"] {
            let foreign = studio.request(Method::GET, path).header("origin", origin);
            assert_eq!(send(foreign).await, StatusCode::FORBIDDEN, "{path} from {origin}");
        }
        let ours = studio.request(Method::GET, path).header("origin", &studio.base);
        assert_eq!(send(ours).await, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn page_needs_nothing_from_elsewhere() {
    let studio = Studio::start(&[]).await;
    let page = studio.bare(Method::GET, "/").send().await.unwrap();
    guarded(&page);
    let mut seen = vec!["/".to_owned()];
    let mut texts = vec![page.text().await.unwrap()];
    while let Some(text) = texts.pop() {
        for quoted in text.split('"') {
            let path = quoted.strip_prefix("./").map_or(quoted.to_owned(), |name| format!("/{name}"));
            let is_file = [".js", ".css", ".svg"].iter().any(|kind| path.ends_with(kind));
            if !is_file || seen.contains(&path) {
                continue;
            }
            assert!(path.starts_with('/') && !path.starts_with("//"), "{path}");
            let file = studio.bare(Method::GET, &path).send().await.unwrap();
            guarded(&file);
            assert_eq!(file.status(), StatusCode::OK, "{path}");
            seen.push(path);
            texts.push(file.text().await.unwrap());
        }
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick="]
        {
            assert!(
                !text.contains(&format!(".{forbidden}")) && !text.contains(&format!(" {forbidden}")),
                "{forbidden}"
            );
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[tokio::test]
async fn page_that_comes_back_hears_what_it_missed() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    let session = studio.connect(&kitchen, BOTH[0]).await;
    let mut events = studio.events(&session, 0).await;
    studio.call(&session, "order").await;
    events.until("call").await;
    let last = events.last;
    drop(events);
    let mut events = studio.events(&session, last).await;
    let ask = events.until("ask").await;
    studio.answer(&ask, json!({"action": "cancel"})).await;
    events.until("result").await;
    let mut all = studio.events(&session, 0).await;
    assert_eq!(all.next().await.unwrap()["type"], "call");
}

#[tokio::test]
async fn page_that_has_lost_events_is_told_what_is_open() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    let session = studio.connect(&kitchen, BOTH[0]).await;
    let path = format!("/api/session/{session}");
    let mut events = studio.events(&session, 0).await;
    let call = studio.call(&session, "order").await;
    let mut ask = events.until("ask").await;
    let (_, described) = studio.get(&path).await;
    for word in ["type", "at"] {
        ask.as_object_mut().unwrap().remove(word);
    }
    assert_eq!((&described["running"], &described["asks"]), (&json!(call), &json!([ask])));
    studio.answer(&ask, json!({"action": "cancel"})).await;
    events.until("result").await;
    let (_, described) = studio.get(&path).await;
    assert_eq!((&described["running"], &described["asks"]), (&json!(null), &json!([])));
}

#[tokio::test]
async fn page_that_claims_to_have_heard_everything_hears_what_comes() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    let session = studio.connect(&kitchen, BOTH[0]).await;
    let mut all = studio.events(&session, 0).await;
    studio.call(&session, "order").await;
    let ask = all.until("ask").await;
    let mut events = studio.events(&session, u64::MAX).await;
    studio.answer(&ask, json!({"action": "cancel"})).await;
    assert_eq!(events.next().await.unwrap()["type"], "settled");
}

#[tokio::test]
async fn closed_session_is_gone() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    let session = studio.connect(&kitchen, BOTH[0]).await;
    let mut events = studio.events(&session, 0).await;
    studio.call(&session, "order").await;
    events.until("ask").await;
    let path = format!("/api/session/{session}");
    let closed = answer(studio.request(Method::DELETE, &path).send().await.unwrap()).await;
    assert_eq!(closed.0, StatusCode::NO_CONTENT);
    events.until("closed").await;
    while events.next().await.is_some() {}
    assert_eq!(studio.get(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(studio.get(&format!("{path}/events")).await.0, StatusCode::NOT_FOUND);
    let call = studio.post(&format!("{path}/call"), json!({"tool": "order"})).await;
    assert_eq!(call, (StatusCode::NOT_FOUND, json!({"error": "the session does not exist, or has ended"})));
}

#[tokio::test]
async fn sessions_that_nobody_looks_at_make_room_and_others_do_not() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    let forgotten = studio.connect(&kitchen, BOTH[0]).await;
    let mut looked_at = Vec::new();
    for _ in 0..8 {
        let session = studio.connect(&kitchen, BOTH[0]).await;
        looked_at.push(studio.events(&session, 0).await);
    }
    assert_eq!(studio.get(&format!("/api/session/{forgotten}")).await.0, StatusCode::NOT_FOUND);
    let (status, told) = studio.post("/api/connect", json!({"server": kitchen})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
}

#[tokio::test]
async fn what_is_too_large_or_no_json_is_refused() {
    let studio = Studio::start(&[]).await;
    // One byte over: a larger body would be refused while the client still sends it.
    let large = "x".repeat(4 * 1024 * 1024 + 1);
    let request = studio.request(Method::POST, "/api/connect").header("content-type", "application/json");
    let (status, told) = answer(request.body(large).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{told}");
    assert!(told["error"].is_string(), "{told}");
    let dense = format!(r#"{{"server": "x", "pad": [{}0]}}"#, "0,".repeat(500_000));
    let request = studio.request(Method::POST, "/api/connect").header("content-type", "application/json");
    let (status, told) = answer(request.body(dense).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{told}");
    let (status, told) = studio.post("/api/connect", json!({"sever": "x"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    assert!(told["error"].as_str().unwrap().contains("sever"), "{told}");
}

#[tokio::test]
async fn servers_are_listed_without_their_secrets() {
    let folder = Folder::new();
    let servers = json!({"mcpServers": {
        "till": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer sesame"}},
        "files": {"command": "files", "args": ["--all"], "env": {"KEY": "sesame"}},
    }});
    folder.file("servers.json", &servers.to_string());
    let studio = Studio::start_in(&folder, &["till"]).await;
    let (_, known) = studio.get("/api/servers").await;
    assert_eq!((&known["first"], &known["servers"][0]["name"]), (&json!("till"), &json!("files")), "{known}");
    assert!(!known.to_string().contains("sesame"), "{known}");
    let (status, told) = studio.post("/api/connect", json!({"server": "till"})).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{told}");
    assert!(!told.to_string().contains("sesame"), "{told}");
    insta::assert_snapshot!(told["error"].as_str().unwrap(), @"could not connect to http://127.0.0.1:1/mcp: Connection refused (os error 111). Hint: no server listens at this address. Start it, or check the port.");
    let (status, told) = studio.post("/api/connect", json!({"server": "tull"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    assert!(told["error"].as_str().unwrap().contains("till"), "{told}");
}

#[tokio::test]
async fn server_that_is_not_there_is_said_before_a_page_is_opened() {
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
    command.args(["studio", "--no-open", "nowhere"]).env("ANTIPHON_CONFIG_DIR", folder.path());
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @"error: there is no server `nowhere`, and no such program; no servers are configured yet: `antiphon connect NAME URL` adds one");
}
