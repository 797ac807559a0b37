//! The contract's task rows.
//!
//! They are switched on by the server: one that declares tasks is held to them, and one that does not
//! must refuse every one of their methods. Messages are written by hand, because a host of today knows
//! nothing of tasks.

use serde_json::{Value, json};

use crate::world::World;

/// What a server that serves no tasks says to their methods.
const UNKNOWN_METHOD: i32 = -32601;
/// What one that does says to an id it does not know, and to a cancellation that comes too late.
const INVALID_PARAMS: i32 = -32602;

/// Whether the server declares tasks, in the way of the revision.
async fn declared(connection: &antiphon_host::Connection, world: &World) -> bool {
    let capabilities = connection.server().await.capabilities;
    if world.revision.is_modern() {
        capabilities["extensions"].get("io.modelcontextprotocol/tasks").is_some()
    } else {
        capabilities.get("tasks").is_some()
    }
}

/// Begins a task: the tool `nap` takes a while.
async fn begin(connection: &antiphon_host::Connection, world: &World) -> Value {
    let mut params = json!({"name": "nap", "arguments": {}});
    if !world.revision.is_modern() {
        params["task"] = json!({"ttl": 60_000});
    }
    let created = connection.request("tools/call", params).await.expect("a task is created");
    if world.revision.is_modern() { created } else { created["task"].clone() }
}

async fn refused(connection: &antiphon_host::Connection, methods: &[&str]) {
    for method in methods {
        let error = connection.request(method, json!({"taskId": "1"})).await.unwrap_err();
        assert_eq!(error.code(), Some(UNKNOWN_METHOD), "{method}: {error}");
    }
}

pub(crate) async fn can_list_tasks(world: World) {
    let connection = world.plain().await;
    // 2026-07-28 has no list: who has no session has no list of what is theirs.
    if world.revision.is_modern() || !declared(&connection, &world).await {
        return refused(&connection, &["tasks/list"]).await;
    }
    let task = begin(&connection, &world).await;
    let listed = connection.request("tasks/list", json!({})).await.unwrap();
    let ids: Vec<&Value> = listed["tasks"].as_array().unwrap().iter().map(|task| &task["taskId"]).collect();
    assert!(ids.contains(&&task["taskId"]), "{listed}");
}

pub(crate) async fn can_get_a_task_by_id(world: World) {
    let connection = world.plain().await;
    if !declared(&connection, &world).await {
        return refused(&connection, &["tasks/get"]).await;
    }
    let task = begin(&connection, &world).await;
    let got = connection.request("tasks/get", json!({"taskId": task["taskId"]})).await.unwrap();
    assert_eq!((&got["taskId"], &got["status"]), (&task["taskId"], &json!("working")));
    assert!(got["lastUpdatedAt"].is_string(), "{got}");
    let error = connection.request("tasks/get", json!({"taskId": "nobody's"})).await.unwrap_err();
    assert_eq!(error.code(), Some(INVALID_PARAMS));
}

pub(crate) async fn can_cancel_a_task(world: World) {
    let connection = world.plain().await;
    if !declared(&connection, &world).await {
        return refused(&connection, &["tasks/cancel"]).await;
    }
    let id = json!({"taskId": begin(&connection, &world).await["taskId"]});
    connection.request("tasks/cancel", id.clone()).await.unwrap();
    let got = connection.request("tasks/get", id.clone()).await.unwrap();
    assert_eq!(got["status"], "cancelled");
    if !world.revision.is_modern() {
        let error = connection.request("tasks/cancel", id).await.unwrap_err();
        assert_eq!(error.code(), Some(INVALID_PARAMS), "what has ended cannot be cancelled");
    }
}

pub(crate) async fn can_get_the_task_result(world: World) {
    let connection = world.plain().await;
    // On 2026-07-28 the result is in `tasks/get`.
    if world.revision.is_modern() || !declared(&connection, &world).await {
        return refused(&connection, &["tasks/result"]).await;
    }
    let task = begin(&connection, &world).await;
    let result = connection.request("tasks/result", json!({"taskId": task["taskId"]})).await.unwrap();
    assert_eq!(result["content"][0]["text"], "rested");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task["taskId"]);
}
