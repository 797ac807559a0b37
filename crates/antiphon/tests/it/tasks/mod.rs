//! Runs that outlive the request that began them.

mod again;
mod deploy;
mod engine;
#[cfg(feature = "http")]
mod owners;
mod replicas;
mod rounds;
mod session;
mod unattended;
mod waiting;

use std::time::Duration;

use antiphon::{
    Server, ServerBuilder,
    task::TaskConfig,
    testing::{Client, Failed, Revision},
};
use serde_json::{Value, json};

use crate::checked::{self, Checked};

/// What a client declares that can be asked everything and knows tasks.
pub(crate) fn everything() -> Value {
    json!({
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "roots": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    })
}

pub(crate) fn quick() -> TaskConfig {
    TaskConfig::default()
        .with_heartbeat_interval(Duration::from_millis(200))
        .with_poll_interval(Duration::from_millis(20))
}

pub(super) async fn client(server: &Server) -> Client {
    Client::connect_with(server, Revision::V2026_07_28, everything()).await.unwrap()
}

pub(super) fn server() -> ServerBuilder {
    Server::builder("tasks", "1.0.0").with_tasks(quick())
}

/// A client that can be asked everything, and whose frames are checked.
pub(super) async fn checked(server: &Server, revision: Revision) -> Checked {
    checked::connect_with(server, revision, everything()).await.unwrap()
}

/// The JSON-RPC error a request is answered with.
pub(super) async fn refused(client: &mut Client, method: &str, params: Value) -> Failed {
    let answer = client.request(method, params).await;
    let error = answer.map(|result| panic!("`{method}` was answered with {result}")).unwrap_err();
    error.source().and_then(|error| error.downcast_ref::<Failed>()).unwrap().clone()
}

/// Begins a task and returns its id.
pub(super) async fn begin(client: &mut Client, tool: &str, arguments: Value) -> String {
    let created = client.request("tools/call", json!({"name": tool, "arguments": arguments})).await.unwrap();
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].as_str().unwrap().to_owned()
}

pub(super) async fn get(client: &mut Client, id: &str) -> Value {
    client.request("tasks/get", json!({"taskId": id})).await.unwrap()
}

/// Looks at a task until it is so.
pub(super) async fn until(client: &mut Client, id: &str, status: &str) -> Value {
    for _ in 0..1000 {
        let task = get(client, id).await;
        if task["status"] == status {
            return task;
        }
        let ended = ["completed", "failed", "cancelled"].contains(&task["status"].as_str().unwrap());
        assert!(!ended, "waiting for {status}: {task}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the task never was {status}: {}", get(client, id).await);
}

pub(super) async fn answer(client: &mut Client, id: &str, responses: Value) {
    client.request("tasks/update", json!({"taskId": id, "inputResponses": responses})).await.unwrap();
}

pub(super) fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}
