//! How a person comes from an answer to all of its rows.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::world::{Studio, answer};
use crate::results_explore::Explore;

#[tokio::test]
async fn viewer_is_for_those_with_the_token_and_for_calls_that_had_a_set() {
    let studio = Studio::start(&[]).await;
    let path = "/api/call/1-1/viewer";
    let (status, _) = answer(studio.bare(Method::POST, path).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(studio.post(path, json!({})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_with_a_set_can_be_looked_at_in_the_servers_own_page() {
    let Some(explore) = Explore::start().await else { return };
    let studio = Studio::start(&[]).await;
    let (status, session) = studio.post("/api/connect", json!({"server": explore.mcp})).await;
    assert_eq!(status, StatusCode::OK, "{session}");
    let session = session["session"].as_str().unwrap();
    let mut events = studio.events(session, 0).await;
    let call = json!({"tool": "search_sales", "arguments": {"rows": 300}});
    let (_, call) = studio.post(&format!("/api/session/{session}/call"), call).await;
    let result = events.until("result").await;
    assert_eq!(
        (&result["rows"]["total"], &result["rows"]["viewer"]),
        (&json!(300), &json!(true)),
        "{result}"
    );
    let path = format!("/api/call/{}/viewer", call["call"].as_str().unwrap());
    let (status, viewer) = studio.post(&path, json!({})).await;
    assert_eq!(status, StatusCode::OK, "{viewer}");
    let url = viewer["url"].as_str().unwrap();
    let base = explore.url.rsplit_once('/').unwrap().0;
    assert!(url.starts_with(base) && url.contains("/view?link="), "{url}");
    let other = studio.post(&format!("/api/call/{session}-99/viewer"), json!({})).await;
    assert_eq!(other.0, StatusCode::NOT_FOUND);
}
