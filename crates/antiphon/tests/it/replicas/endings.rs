//! Sessions that end, and those that are somebody else's.

use std::time::Duration;

use antiphon::{Result, http::HttpConfig};
use serde_json::json;

use super::{
    Opener,
    fleet::{Client, Fleet, text},
};

/// Waits until a session is no more at a replica.
async fn gone(client: &Client, replica: usize) -> Result<()> {
    for _ in 0..200 {
        let (_, response) = client.request(replica, "ping", json!({})).await?;
        if response.status() == 404 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the session is still at replica {replica}");
}

pub(crate) async fn a_deleted_session_is_gone_everywhere(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    let listening = client.get(2, None).await?;
    assert_eq!(client.delete(1).await?, 200);
    for replica in 0..3 {
        gone(&client, replica).await?;
    }
    // What was open has ended, and nothing is left to answer or to resume.
    stream.rest().await?;
    listening.rest().await?;
    let answer = json!({"action": "accept", "content": {"word": "late"}});
    assert_eq!(client.answer(0, &question, answer).await?, 404);
    assert_eq!(client.get(1, question.id.as_deref()).await?.status(), 404);
    let backend = open.open().await;
    assert_eq!(backend.store.list("sessions/", None, 10).await?.items, []);
    Ok(())
}

pub(crate) async fn a_session_expires_with_all_it_left(open: Opener) -> Result<()> {
    let backend = open.open().await;
    let config = HttpConfig::default().with_session_idle(Duration::from_secs(3));
    let fleet = Fleet::start_with(&open, config, |builder| builder).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "large", json!({})).await?;
    stream.message().await?;
    let sessions = backend.store.list("sessions/", None, 10).await?.items;
    assert_eq!(sessions.len(), 1);
    let name = sessions[0].key.strip_prefix("sessions/").unwrap();
    let log = format!("events/{name}/0");
    assert!(!backend.store.read(&log, 0, 10).await?.is_empty());
    assert!(!backend.store.list("pieces/", None, 10).await?.items.is_empty());
    // The record goes last.
    let left = async || -> Result<bool> {
        let pieces = backend.store.list("pieces/", None, 10).await?.items;
        Ok(!backend.store.read(&log, 0, 1).await?.is_empty() || !pieces.is_empty())
    };
    for attempt in 0.. {
        if !left().await? {
            break;
        }
        assert!(attempt < 200, "something is left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    gone(&client, 1).await?;
    Ok(())
}

pub(crate) async fn a_session_in_use_does_not_expire(open: Opener) -> Result<()> {
    let config = HttpConfig::default().with_session_idle(Duration::from_secs(2));
    let fleet = Fleet::start_with(&open, config, |builder| builder).await?;
    let client = fleet.client().await?;
    // A question waits at the first replica; nothing else happens, for longer than the session may be idle.
    let (_, mut stream) = client.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let answer = json!({"action": "accept", "content": {"word": "thought over"}});
    assert_eq!(client.answer(1, &question, answer).await?, 202);
    assert_eq!(text(&stream.message().await?), "thought over");
    // Somebody listens at the second replica, and nothing else happens.
    let mut listening = client.get(1, None).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    fleet.servers[2].changes().tools();
    let heard = listening.message().await?;
    assert_eq!(heard.message["method"], "notifications/tools/list_changed");
    Ok(())
}

pub(crate) async fn somebody_elses_session_is_not_there(open: Opener) -> Result<()> {
    let fleet = Fleet::start_with(&open, HttpConfig::default(), |builder| {
        builder.with_principal(|parts| Some(parts.headers.get("x-caller")?.to_str().ok()?.to_owned()))
    })
    .await?;
    let ada = fleet.client_called(Some("ada"), 0).await?;
    let (_, mut stream) = ada.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    let word = |word: &str| json!({"action": "accept", "content": {"word": word}});
    for caller in [Some("eve"), None] {
        let mut thief = fleet.client_called(Some("eve"), 0).await?;
        (thief.session, thief.caller) = (ada.session.clone(), caller);
        for replica in 0..3 {
            assert_eq!(thief.answer(replica, &question, word("stolen")).await?, 404);
            assert_eq!(thief.get(replica, question.id.as_deref()).await?.status(), 404);
            assert_eq!(thief.call(replica, "say", json!({})).await?.1.status(), 404);
            assert_eq!(thief.delete(replica).await?, 404);
        }
    }
    assert_eq!(ada.answer(2, &question, word("mine")).await?, 202);
    assert_eq!(text(&stream.message().await?), "mine");
    Ok(())
}

pub(crate) async fn a_call_in_flight_is_answered_by_a_replica_that_shuts_down(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "count", json!({"steps": 1})).await?;
    fleet.gate.add_permits(1);
    assert_eq!(stream.message().await?.message["params"]["message"], "step 1");
    fleet.servers[0].shut_down();
    tokio::time::sleep(Duration::from_millis(500)).await;
    fleet.gate.add_permits(1);
    assert_eq!(text(&stream.message().await?), "counted");
    tokio::time::timeout(Duration::from_secs(10), fleet.servers[0].drain()).await?;
    // The session goes on elsewhere.
    let (_, mut stream) = client.call(1, "say", json!({"level": "info", "text": "on"})).await?;
    assert_eq!(text(&stream.message().await?), "said");
    Ok(())
}

pub(crate) async fn a_call_whose_stream_broke_is_resumed_while_its_replica_shuts_down(
    open: Opener,
) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "count", json!({"steps": 1})).await?;
    fleet.gate.add_permits(1);
    let last = stream.message().await?;
    drop(stream);
    fleet.servers[0].shut_down();
    let mut resumed = client.get(1, last.id.as_deref()).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    fleet.gate.add_permits(1);
    assert_eq!(text(&resumed.message().await?), "counted");
    Ok(())
}

pub(crate) async fn an_answer_reaches_a_replica_that_shuts_down(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    fleet.servers[0].shut_down();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let answer = json!({"action": "accept", "content": {"word": "late"}});
    assert_eq!(client.answer(1, &question, answer).await?, 202);
    assert_eq!(text(&stream.message().await?), "late");
    Ok(())
}
