//! Somebody is taken on, though every process dies on the way.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use antiphon::store::{Backend, Memory, QueueConfig};
use antiphon::{
    Server,
    seal::{KeyRing, SealConfig},
    testing::{Client, Revision},
};
use serde_json::{Value, json};

async fn connect(server: &Server) -> Client {
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    Client::connect_with(server, Revision::V2026_07_28, capabilities).await.unwrap()
}

async fn until(client: &mut Client, id: &Value, status: &str) -> Value {
    for _ in 0..1000 {
        let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was {status}");
}

fn replica(backend: &Backend, keys: &KeyRing) -> Server {
    let seal = SealConfig::default().with_keys(keys.clone());
    onboarding::server().with_backend(backend.clone()).with_seal(seal).build().unwrap()
}

#[tokio::test]
async fn colleague_is_taken_on_by_three_servers_in_turn() {
    let (backend, keys) = (Memory::default().backend(QueueConfig::default()), KeyRing::random());
    let first = replica(&backend, &keys);
    let call = json!({"name": "onboard", "arguments": {"name": "Ada", "first_week": 1}});
    let mut client = connect(&first).await;
    let id = client.request("tools/call", call).await.unwrap()["taskId"].clone();
    until(&mut client, &id, "input_required").await;
    first.shut_down();
    let second = replica(&backend, &keys);
    let mut client = connect(&second).await;
    let answer = json!({"action": "accept", "content": {"approve": true, "desk": "12"}});
    let update = json!({"taskId": id, "inputResponses": {"approval": answer}});
    client.request("tasks/update", update).await.unwrap();
    until(&mut client, &id, "working").await;
    second.shut_down();
    let third = replica(&backend, &keys);
    let mut client = connect(&third).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "Ada has desk 12 and the account ada@example.com");
}
