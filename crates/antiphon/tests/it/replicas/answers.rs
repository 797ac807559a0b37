//! Answers that come to another replica than asked.

use std::{collections::HashSet, sync::Arc, time::Duration};

use antiphon::Result;
use serde_json::{Value, json};

use super::{
    Opener,
    fleet::{Client, Fleet, check_message, text},
};

fn word(word: &str) -> Value {
    json!({"action": "accept", "content": {"word": word}})
}

pub(crate) async fn an_elicitation_is_answered_through_another_replica(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    for (asked, answered) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
        let (id, mut stream) = client.call(asked, "ask", json!({})).await?;
        let question = stream.message().await?;
        check_message("tools/call", &question);
        assert_eq!(question.message["method"], "elicitation/create");
        assert_eq!(client.answer(answered, &question, word("antiphon")).await?, 202);
        let result = stream.message().await?;
        check_message("tools/call", &result);
        assert_eq!((text(&result), &result.message["id"]), ("antiphon", &json!(id)));
    }
    Ok(())
}

pub(crate) async fn a_sampling_answer_of_a_megabyte_comes_through_another_replica(
    open: Opener,
) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "sample", json!({})).await?;
    let question = stream.message().await?;
    check_message("tools/call", &question);
    let long = "så ".repeat(350_000);
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": long}});
    assert_eq!(client.answer(2, &question, result).await?, 202);
    assert_eq!(text(&stream.message().await?), long);
    Ok(())
}

pub(crate) async fn an_answer_given_twice_counts_once(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "ask", json!({})).await?;
    let question = stream.message().await?;
    let (first, second, third) = tokio::join!(
        client.answer(1, &question, word("same")),
        client.answer(1, &question, word("same")),
        client.answer(2, &question, word("same")),
    );
    assert_eq!((first?, second?, third?), (202, 202, 202));
    assert_eq!(text(&stream.message().await?), "same");
    // The answers that were too many are nobody's: not the next question's either.
    let (_, mut stream) = client.call(0, "ask", json!({})).await?;
    let next = stream.message().await?;
    assert_ne!(next.message["id"], question.message["id"]);
    assert_eq!(client.answer(2, &question, word("late")).await?, 202);
    assert_eq!(client.answer(0, &question, word("late")).await?, 202);
    let unknown = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
    assert_eq!(client.post(1, &unknown).await?.status(), 202);
    assert_eq!(client.answer(1, &next, word("next")).await?, 202);
    assert_eq!(text(&stream.message().await?), "next");
    Ok(())
}

pub(crate) async fn an_answer_never_reaches_another_sessions_question(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let (ada, eve) = (fleet.client().await?, fleet.client().await?);
    // Both sessions are at all replicas, and each is asked first in each: were ids numbers, they would all be 0.
    let mut questions = Vec::new();
    let mut streams = Vec::new();
    for replica in 0..3 {
        for client in [&ada, &eve] {
            let (_, mut stream) = client.call(replica, "ask", json!({})).await?;
            questions.push(stream.message().await?);
            streams.push(stream);
        }
    }
    let ids: HashSet<_> = questions.iter().map(|question| question.message["id"].to_string()).collect();
    assert_eq!(ids.len(), 6);
    // Eve answers Ada's questions, everywhere.
    for question in questions.iter().step_by(2) {
        for replica in 0..3 {
            assert_eq!(eve.answer(replica, question, word("stolen")).await?, 202);
        }
    }
    for (number, question) in questions.iter().enumerate() {
        let client = if number % 2 == 0 { &ada } else { &eve };
        assert_eq!(client.answer(number % 3, question, word(&format!("w{number}"))).await?, 202);
    }
    for (number, stream) in streams.iter_mut().enumerate() {
        assert_eq!(text(&stream.message().await?), format!("w{number}"));
    }
    Ok(())
}

pub(crate) async fn two_hundred_sessions_are_answered_without_stickiness(open: Opener) -> Result<()> {
    let fleet = Arc::new(Fleet::start(&open).await?);
    let mut sessions: tokio::task::JoinSet<Result<String>> = tokio::task::JoinSet::new();
    for number in 0..200 {
        let fleet = Arc::clone(&fleet);
        sessions.spawn(async move {
            let client = fleet.client_called(None, number).await?;
            let (_, mut stream) = client.call(client.next(), "ask", json!({})).await?;
            let question = stream.message().await?;
            let said = format!("word {number}");
            assert_eq!(client.answer(client.next(), &question, word(&said)).await?, 202);
            assert_eq!(text(&stream.message().await?), said);
            Ok(client.session)
        });
    }
    let mut ids = HashSet::new();
    while let Some(session) = sessions.join_next().await {
        ids.insert(session??);
    }
    assert_eq!(ids.len(), 200);
    Ok(())
}

pub(crate) async fn a_call_is_cancelled_through_another_replica(open: Opener) -> Result<()> {
    let fleet = Fleet::start(&open).await?;
    let client: Client = fleet.client().await?;
    let (id, mut stream) = client.call(0, "wait", json!({})).await?;
    assert_eq!(stream.message().await?.message["method"], "notifications/progress");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    assert_eq!(client.post(1, &cancel).await?.status(), 202);
    // The tool lets the gate know as it goes.
    let _ = tokio::time::timeout(Duration::from_secs(20), fleet.gate.acquire()).await??;
    Ok(())
}
