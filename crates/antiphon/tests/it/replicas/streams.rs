//! Streams that break, and go on elsewhere.

use std::time::Duration;

use antiphon::{Result, ServerBuilder, http::HttpConfig};
use serde_json::{Value, json};

use super::{
    Opener,
    fleet::{Client, Fleet, check_message, text},
    wire::{Event, Response},
};

/// The steps that progress tells of.
fn steps(events: &[Event]) -> Vec<u64> {
    let steps =
        events.iter().filter_map(|event| event.message["params"]["message"].as_str()?.strip_prefix("step "));
    steps.map(|step| step.parse().unwrap()).collect()
}

fn missing(events: &[Event]) -> usize {
    events.iter().filter(|event| event.message["params"]["logger"] == "antiphon").count()
}

/// Reads a stream up to a step, and breaks it.
async fn break_at(stream: &mut Response, step: u64) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    while steps(&events).last() != Some(&step) {
        match stream.next().await? {
            Some(event) => events.push(event),
            None => panic!("the stream has ended after {events:?}"),
        }
    }
    Ok(events)
}

fn last_id(events: &[Event]) -> &str {
    events.iter().rev().find_map(|event| event.id.as_deref()).expect("an event with an id")
}

pub(crate) async fn a_broken_stream_goes_on_at_another_replica(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    for ahead in [0, 3] {
        let (id, mut stream) = client.call(0, "count", json!({"steps": 9})).await?;
        fleet.gate.add_permits(3 + ahead);
        let before = break_at(&mut stream, 3).await?;
        drop(stream);
        // Three more come while nobody is connected, or none; the rest after that.
        let resumed = client.get(2, Some(last_id(&before))).await?;
        assert_eq!(resumed.status(), 200);
        fleet.gate.add_permits(7 - ahead);
        let after = resumed.rest().await?;
        for event in &after {
            check_message("tools/call", event);
        }
        assert_eq!([steps(&before), steps(&after)].concat(), (1..=9).collect::<Vec<_>>());
        let result = after.last().unwrap();
        assert_eq!((text(result), &result.message["id"]), ("counted", &json!(id)));
        let mut ids: Vec<_> = before.iter().chain(&after).filter_map(|event| event.id.clone()).collect();
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id was given twice: {ids:?}");
        // Resumed once more, from the start and elsewhere, it is all there; from the end, nothing is.
        let first = before.iter().find_map(|event| event.id.as_deref()).unwrap();
        let again = client.get(1, Some(first)).await?.rest().await?;
        assert_eq!(steps(&again), (1..=9).collect::<Vec<_>>());
        assert_eq!(again[3..], after, "what was sent twice differs");
    }
    Ok(())
}

pub(crate) async fn a_stream_shows_what_was_kept_when_its_replica_is_gone(open: Opener) -> Result<()> {
    let with = |builder: ServerBuilder| builder.with_drain(Duration::ZERO);
    let fleet = Fleet::start_with(&open, HttpConfig::default(), with).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "count", json!({"steps": 9})).await?;
    fleet.gate.add_permits(2);
    let before = break_at(&mut stream, 2).await?;
    drop(stream);
    fleet.gate.add_permits(3);
    // Another stream, to see that the steps have been taken.
    let mut watched = client.get(1, Some(last_id(&before))).await?;
    let watched_steps = break_at(&mut watched, 5).await?;
    fleet.servers[0].shut_down();
    let after = client.get(2, Some(last_id(&before))).await?.rest().await?;
    assert_eq!(steps(&after), [3, 4, 5]);
    assert_eq!(steps(&watched_steps), [3, 4, 5]);
    // The session goes on without it.
    let (_, mut stream) = client.call(1, "say", json!({"level": "info", "text": "on"})).await?;
    assert_eq!(text(&stream.message().await?), "said");
    Ok(())
}

pub(crate) async fn what_a_stream_may_not_keep_is_said_to_be_missing(open: Opener) -> Result<()> {
    let config = HttpConfig::default().with_stream_events(4);
    let fleet = Fleet::start_with(&open, config, |builder| builder).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "count", json!({"steps": 20})).await?;
    fleet.gate.add_permits(21);
    let all = break_at(&mut stream, 20).await?;
    assert_eq!(steps(&all), (1..=20).collect::<Vec<_>>(), "who is connected misses nothing");
    drop(stream);
    let first = all.iter().find_map(|event| event.id.as_deref()).unwrap();
    let again = client.get(1, Some(first)).await?.rest().await?;
    for event in &again {
        check_message("tools/call", event);
    }
    assert_eq!((steps(&again), missing(&again)), (vec![1, 2, 3, 4], 1));
    assert_eq!(text(again.last().unwrap()), "counted");
    Ok(())
}

pub(crate) async fn resumed_stream_does_not_repeat_a_question(open: Opener) -> Result<()> {
    check_question_is_sent_once(&Fleet::start(&open).await?).await
}

/// Resumes the stream of a call that asks, and of one that its client has cancelled.
pub(crate) async fn check_question_is_sent_once(fleet: &Fleet) -> Result<()> {
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    assert_eq!(question.message["method"], "elicitation/create");
    drop(stream);
    let mut resumed = client.get(client.next(), question.id.as_deref()).await?;
    let answer = json!({"action": "accept", "content": {"word": "once"}});
    assert_eq!(client.answer(client.next(), &question, answer).await?, 202);
    assert_eq!(text(&resumed.message().await?), "once", "the question was sent again");
    let (id, mut stream) = client.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    let cancelled = json!({"requestId": id, "reason": "Request timed out"});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled});
    assert_eq!(client.post(client.next(), &cancelled).await?.status(), 202);
    assert!(!has_question(&mut stream).await?);
    let mut resumed = client.get(client.next(), question.id.as_deref()).await?;
    assert!(!has_question(&mut resumed).await?, "the question was sent again");
    Ok(())
}

/// Returns whether a question comes soon. The stream of a cancelled call ends, or stays open without events.
async fn has_question(stream: &mut Response) -> Result<bool> {
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(500), stream.next()).await {
        match event? {
            Some(event) if event.message["method"] == "elicitation/create" => return Ok(true),
            Some(_) => {}
            None => break,
        }
    }
    Ok(false)
}

pub(crate) async fn a_large_result_is_resumed_whole(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "large", json!({})).await?;
    let first = stream.next().await?.unwrap();
    assert_eq!(first.message, Value::Null, "a stream begins with where it can be resumed");
    let result = stream.message().await?;
    drop(stream);
    let again = client.get(1, first.id.as_deref()).await?.rest().await?;
    assert_eq!(again, [result]);
    Ok(())
}

async fn say(client: &Client, replica: usize, level: &str, said: &str) -> Result<()> {
    let (_, mut stream) = client.call(replica, "say", json!({"level": level, "text": said})).await?;
    assert_eq!(text(&stream.message().await?), "said");
    Ok(())
}

/// What the next log message says.
async fn hear(listening: &mut Response) -> Result<String> {
    let event = listening.message().await?;
    check_message("", &event);
    Ok(event.message["params"]["data"].as_str().unwrap_or_default().to_owned())
}

pub(crate) async fn a_listening_client_hears_of_calls_at_other_replicas(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    say(&client, 1, "info", "before").await?;
    let mut listening = client.get(2, None).await?;
    say(&client, 0, "info", "then").await?;
    assert_eq!(hear(&mut listening).await?, "before", "it waited for a client to listen");
    assert_eq!(hear(&mut listening).await?, "then");
    let (_, mut set) = client.request(1, "logging/setLevel", json!({"level": "debug"})).await?;
    check_message("logging/setLevel", &set.message().await?);
    for replica in 0..3 {
        // What is set at one replica is known at the others a moment later.
        for attempt in 0.. {
            say(&client, replica, "debug", "quiet").await?;
            say(&client, replica, "info", "loud").await?;
            let heard = hear(&mut listening).await?;
            if heard == "quiet" {
                assert_eq!(hear(&mut listening).await?, "loud");
                break;
            }
            assert_eq!(heard, "loud");
            assert!(attempt < 100, "the level is not known at replica {replica}");
        }
    }
    Ok(())
}
