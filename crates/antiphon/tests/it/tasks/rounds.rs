//! Tasks as 2026-07-28 has them: the edges.

use std::collections::BTreeSet;

use antiphon::{Server, prelude::*, task::TaskPolicy, testing::Revision};
use serde_json::{Value, json};

use super::{accept, answer, begin, checked, get, refused, until};

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    let first = ctx.elicit::<Seat>("Which seat?").key("seat").await?.accepted()?.seat;
    let second = ctx.elicit::<Seat>("And on the way back?").key("seat").await?.accepted()?.seat;
    Ok(format!("{first}, {second}"))
}

fn server() -> Server {
    super::server()
        .tool(Tool::new("book", "Asks for two seats", book).with_tasks(TaskPolicy::Always))
        .build()
        .unwrap()
}

fn keys(task: &Value) -> Vec<String> {
    assert!(task.get("requestState").is_none());
    task["inputRequests"].as_object().unwrap().keys().cloned().collect()
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_invalid_parameters() {
    let server = server();
    let mut client = checked(&server, Revision::V2026_07_28).await;
    for id in ["0".repeat(32), "g".repeat(32), "../anyone".into(), String::new()] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let error = refused(&mut client, method, json!({"taskId": id, "inputResponses": {}})).await;
            assert_eq!(error.code, -32602, "{method} {id}");
        }
    }
}

#[tokio::test]
async fn cancelling_twice_and_answering_after_the_end_change_nothing() {
    let server = server();
    let mut client = checked(&server, Revision::V2026_07_28).await;
    let id = begin(&mut client, "book", json!({})).await;
    let asked = keys(&until(&mut client, &id, "input_required").await);
    client.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    let cancelled = get(&mut client, &id).await;
    assert_eq!(cancelled["status"], "cancelled");
    client.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    answer(&mut client, &id, json!({asked[0].clone(): accept(json!({"seat": "3A"}))})).await;
    let after = get(&mut client, &id).await;
    assert_eq!(
        (&after["status"], &after["lastUpdatedAt"]),
        (&json!("cancelled"), &cancelled["lastUpdatedAt"])
    );
}

#[tokio::test]
async fn tool_that_is_always_a_task_needs_a_client_that_knows_them() {
    let server = server();
    let mut client = crate::checked::connect_with(&server, Revision::V2026_07_28, json!({"elicitation": {}}))
        .await
        .unwrap();
    let error = refused(&mut client, "tools/call", json!({"name": "book", "arguments": {}})).await;
    assert_eq!(error.code, -32021);
    let required = json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    assert_eq!(error.data, required);
    assert_eq!(refused(&mut client, "tasks/get", json!({"taskId": "0".repeat(32)})).await.code, -32021);
}

#[tokio::test]
async fn misfit_answer_uses_up_its_key_and_no_key_comes_twice() {
    let server = server();
    let mut client = checked(&server, Revision::V2026_07_28).await;
    let id = begin(&mut client, "book", json!({})).await;
    let mut seen = BTreeSet::new();
    let mut asked = async |client: &mut crate::checked::Checked| {
        let task = until(client, &id, "input_required").await;
        let [key] = keys(&task).try_into().unwrap();
        assert!(seen.insert(key.clone()), "`{key}` was used twice");
        (key, task)
    };
    let (first, _) = asked(&mut client).await;
    // What is no answer at all asks again, under another key; the old one is not asked any more.
    answer(&mut client, &id, json!({first.clone(): {"seat": "3A"}})).await;
    let (second, _) = asked(&mut client).await;
    answer(&mut client, &id, json!({first: accept(json!({"seat": "1A"}))})).await;
    assert_eq!(keys(&get(&mut client, &id).await), [second.as_str()]);
    answer(&mut client, &id, json!({second: accept(json!({"seat": "3A"}))})).await;
    // The next question is another one, whatever the first was called.
    let (third, task) = asked(&mut client).await;
    assert_eq!(task["inputRequests"][&third]["params"]["message"], "And on the way back?");
    answer(&mut client, &id, json!({third: accept(json!({"seat": "4B"}))})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "3A, 4B");
    assert!(task.get("requestState").is_none());
}

#[tokio::test]
async fn methods_that_2025_11_25_had_are_gone() {
    let server = server();
    let mut client = checked(&server, Revision::V2026_07_28).await;
    let id = begin(&mut client, "book", json!({})).await;
    for method in ["tasks/list", "tasks/result"] {
        assert_eq!(refused(&mut client, method, json!({"taskId": id})).await.code, -32601, "{method}");
    }
}

#[tokio::test]
async fn wish_for_a_task_is_ignored() {
    async fn hello(_: &Ctx, _: ()) -> Result<&'static str> {
        Ok("hello")
    }
    let server = super::server()
        .tool(Tool::new("hello", "Is never a task", hello).with_tasks(TaskPolicy::Never))
        .build()
        .unwrap();
    let mut client = checked(&server, Revision::V2026_07_28).await;
    let call = json!({"name": "hello", "arguments": {}, "task": {"ttl": 1000}});
    let result = client.request("tools/call", call).await.unwrap();
    assert_eq!((&result["resultType"], &result["content"][0]["text"]), (&json!("complete"), &json!("hello")));
}
