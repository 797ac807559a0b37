//! `tasks/result` of 2025-11-25: who waits for a task is asked what it asks. And who hears of tasks.

use antiphon::{
    Limits,
    seal::SealConfig,
    testing::{Answers, Client},
};
use antiphon_store::{Memory, QueueConfig};
use serde_json::{Value, json};

use super::{
    refused,
    session::{begin, builder, connect, looked, of, server},
};

#[tokio::test]
async fn who_waits_is_asked_and_told_which_task_asks() {
    let server = server();
    let mut client = connect(&server).await.answering(Answers::new().accept("seat", json!({"seat": "3A"})));
    let task = begin(&mut client, "book", json!({})).await;
    let talk = client.converse("tasks/result", of(&task)).await.unwrap();
    assert_eq!(talk.text(), "3A");
    assert_eq!(talk.keys(), ["seat"]);
    let related = &talk.asked[0].params["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(*related, of(&task));
}

#[tokio::test]
async fn form_that_could_not_be_shown_was_closed() {
    let server = server();
    let mut client = connect(&server).await.answering(Answers::new().error("seat", -32_000, "no screen"));
    let task = begin(&mut client, "book", json!({})).await;
    let talk = client.converse("tasks/result", of(&task)).await.unwrap();
    assert_eq!((talk.text(), talk.is_error()), ("closed".into(), false));
}

#[tokio::test]
async fn model_that_fails_fails_the_wait_and_not_the_task() {
    let server = server();
    let mut client = connect(&server).await.answering(Answers::new().error("thought", -1, "not today"));
    let task = begin(&mut client, "think", json!({})).await;
    let error = refused(&mut client, "tasks/result", of(&task)).await;
    assert_eq!((error.code, &*error.message), (-1, "not today"));
    assert_eq!(looked(&mut client, &task, "input_required").await["taskId"], task["taskId"]);
    client.set_answers(Answers::new().sample("thought", "42"));
    let talk = client.converse("tasks/result", of(&task)).await.unwrap();
    assert_eq!((talk.text().as_str(), talk.asked.len()), ("42", 1));
}

/// The next message from the server.
async fn next(client: &mut Client) -> Value {
    client.send_raw(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).await.unwrap()
}

async fn next_of(client: &mut Client, method: &str) -> Value {
    loop {
        let message = next(client).await;
        if message["method"] == method {
            return message;
        }
    }
}

#[tokio::test]
async fn form_is_shown_once_to_all_who_wait() {
    let server = server();
    let (mut one, mut two) = (connect(&server).await, connect(&server).await);
    let task = begin(&mut one, "book", json!({})).await;
    let waits = one.start("tasks/result", of(&task)).await.unwrap();
    one.start("tasks/result", of(&task)).await.unwrap();
    let question = next_of(&mut one, "elicitation/create").await;
    let other = two.start("tasks/result", of(&task)).await.unwrap();
    // The session that looks hears of the end, and until then of nothing that it should answer.
    looked(&mut two, &task, "input_required").await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"seat": "3A"}}});
    let mut answers = 0;
    let mut message = one.send_raw(&answer.to_string()).await.unwrap();
    while answers < 2 {
        assert_ne!(message["method"], "elicitation/create", "the form was shown twice");
        answers += u32::from(message["id"].as_u64().is_some_and(|id| id >= waits));
        if answers < 2 {
            message = next(&mut one).await;
        }
    }
    while message["id"] != other || message.get("method").is_some() {
        message = next(&mut two).await;
        assert_ne!(message["method"], "elicitation/create", "the form was shown twice");
    }
    assert_eq!(message["result"]["content"][0]["text"], "3A");
}

#[tokio::test]
async fn what_one_who_went_away_was_asked_the_next_is() {
    let server = server();
    let (mut one, mut two) = (connect(&server).await, connect(&server).await);
    let task = begin(&mut one, "book", json!({})).await;
    let waits = one.start("tasks/result", of(&task)).await.unwrap();
    let question = next_of(&mut one, "elicitation/create").await;
    let other = two.start("tasks/result", of(&task)).await.unwrap();
    looked(&mut two, &task, "input_required").await;
    one.notify("notifications/cancelled", json!({"requestId": waits})).await.unwrap();
    // The form is taken back there and shown here.
    let withdrawn = next_of(&mut one, "notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let question = next_of(&mut two, "elicitation/create").await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"seat": "4B"}}});
    let mut message = two.send_raw(&answer.to_string()).await.unwrap();
    while message["id"] != other || message.get("method").is_some() {
        message = next(&mut two).await;
    }
    assert_eq!(message["result"]["content"][0]["text"], "4B");
}

#[tokio::test]
async fn who_waits_at_another_replica_is_asked_and_hears_of_the_end() {
    let backend = Memory::default().backend(QueueConfig::default());
    let seal = SealConfig::default();
    let replica = || builder().with_backend(backend.clone()).with_seal(seal.clone()).build().unwrap();
    let (one, two) = (replica(), replica());
    let (mut begins, mut waits) = (connect(&one).await, connect(&two).await);
    let task = begin(&mut begins, "book", json!({})).await;
    waits.set_answers(Answers::new().accept("seat", json!({"seat": "5C"})));
    let talk = waits.converse("tasks/result", of(&task)).await.unwrap();
    assert_eq!((talk.text().as_str(), talk.asked.len()), ("5C", 1));
    let ended = |message: &Value| message["params"]["status"] == "completed";
    while !begins.frames().iter().any(|frame| ended(&frame.message)) {
        next(&mut begins).await;
    }
    assert_eq!(begins.request("tasks/result", of(&task)).await.unwrap()["content"], talk.result["content"]);
}

#[tokio::test]
async fn who_waits_for_a_task_counts_and_what_has_ended_does_not() {
    let server = builder().with_limits(Limits::default().with_max_waiting(1)).build().unwrap();
    let mut client = connect(&server).await;
    let sum = begin(&mut client, "add", json!({"a": 1, "b": 2})).await;
    looked(&mut client, &sum, "completed").await;
    let task = begin(&mut client, "book", json!({})).await;
    client.start("tasks/result", of(&task)).await.unwrap();
    next_of(&mut client, "elicitation/create").await;
    let error = refused(&mut client, "tasks/result", of(&task)).await;
    assert!(
        error.message.contains("the server has reached its limit of 1 requests that wait for users"),
        "{error}"
    );
    let result = client.request("tasks/result", of(&sum)).await.unwrap();
    assert_eq!(result["content"][0]["text"], "3");
}

#[tokio::test]
async fn session_hears_of_its_tasks_until_they_end() {
    let server = server();
    let mut client = connect(&server).await.answering(Answers::new().accept("seat", json!({"seat": "3A"})));
    let task = begin(&mut client, "book", json!({})).await;
    let heard = next_of(&mut client, "notifications/tasks/status").await;
    assert_eq!(
        (&heard["params"]["taskId"], &heard["params"]["status"]),
        (&task["taskId"], &json!("input_required"))
    );
    assert!(heard["params"].get("_meta").is_none());
    // Who has not begun it hears of it from when it has looked.
    let mut other = connect(&server).await;
    assert_eq!(other.request("tasks/get", of(&task)).await.unwrap()["status"], "input_required");
    client.converse("tasks/result", of(&task)).await.unwrap();
    for client in [&mut client, &mut other] {
        let ended = |message: &Value| message["params"]["status"] == "completed";
        while !client.frames().iter().any(|frame| ended(&frame.message)) {
            next(client).await;
        }
    }
}
