//! The contract's task rows.

use std::time::Duration;

use antiphon_host::{Connection, Error, Form, Shown, TaskHandle, TaskStatus};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::mpsc;

use crate::world::{Transport, World, within};

/// What a server says to a method that its revision does not have.
const UNKNOWN_METHOD: i32 = -32601;

/// Begins a task: the tool `rest` takes a while.
async fn begin(connection: &Connection) -> TaskHandle {
    let call = connection.call("rest", json!({})).as_task().ttl(Duration::from_secs(60));
    let task = within(async { call.await }).await.expect("a task is created");
    assert!(task.id().is_some(), "the call was answered at once");
    task
}

/// Another connection, which knows nothing but the id. Over stdio it would be to another server, with tasks of its own.
async fn elsewhere(world: &World, connection: &Connection) -> Connection {
    if world.transport == Transport::Stdio { connection.clone() } else { world.plain().await }
}

async fn is_unknown(connection: &Connection, method: &str) {
    let error = connection.request(method, json!({"taskId": "1"})).await.unwrap_err();
    assert_eq!(error.code(), Some(UNKNOWN_METHOD), "{method}: {error}");
}

pub(crate) async fn can_list_tasks(world: World) {
    let connection = world.plain().await;
    if world.revision.is_modern() {
        // It has no list: who has no session has no list of what is theirs.
        assert!(matches!(connection.tasks().await, Err(Error::Misuse(_))));
        world.sends_foreign("tasks/list");
        return is_unknown(&connection, "tasks/list").await;
    }
    let (one, other) = (begin(&connection).await, begin(&connection).await);
    let listed = within(connection.tasks()).await.unwrap();
    for task in [one, other] {
        assert!(listed.iter().any(|listed| Some(listed.id.as_str()) == task.id()), "{listed:?}");
    }
}

pub(crate) async fn can_get_a_task_by_id(world: World) {
    let connection = world.plain().await;
    let task = begin(&connection).await;
    let elsewhere = elsewhere(&world, &connection).await.task(task.id().unwrap());
    let info = within(elsewhere.status()).await.unwrap();
    assert_eq!((Some(info.id.as_str()), info.status), (task.id(), TaskStatus::Working));
    assert!(info.created.is_some() && info.last_updated.is_some(), "{info:?}");
    assert_eq!(info.poll_interval, Some(Duration::from_millis(50)));
    // On 2026-07-28 the server alone decides, and it keeps a task until its run has ended, and then for an hour.
    let kept = (!world.revision.is_modern()).then_some(Duration::from_secs(60));
    assert_eq!(info.ttl, kept);
    let nobody = connection.task("00000000000000000000000000000000");
    assert!(matches!(within(nobody.status()).await, Err(Error::TaskUnknown { .. })));
}

pub(crate) async fn can_cancel_a_task(world: World) {
    let connection = world.plain().await;
    let task = begin(&connection).await;
    within(task.cancel()).await.unwrap();
    assert_eq!(within(task.status()).await.unwrap().status, TaskStatus::Cancelled);
    assert!(matches!(within(task.wait()).await, Err(Error::TaskCancelled { .. })));
    let finished = begin(&connection).await;
    within(finished.wait()).await.unwrap();
    let raw = json!({"taskId": finished.id()});
    let again = connection
        .request(if world.revision.is_modern() { "tasks/cancel" } else { "antiphon/tasks/cancel" }, raw);
    match within(again).await {
        // 2026-07-28 only takes note of the wish.
        Ok(_) => assert!(world.revision.is_modern()),
        Err(error) => assert_eq!(error.code(), Some(-32602), "what has ended cannot be cancelled: {error}"),
    }
    assert_eq!(within(finished.status()).await.unwrap().status, TaskStatus::Completed);
}

pub(crate) async fn can_get_the_task_result(world: World) {
    let connection = world.plain().await;
    let task = begin(&connection).await;
    let result = within(task.wait()).await.unwrap();
    assert_eq!(result.content[0].as_text().map(|text| text.text.as_str()), Some("rested"));
    if world.revision.is_modern() {
        // There, the result is in `tasks/get`.
        world.sends_foreign("tasks/result");
        return is_unknown(&connection, "tasks/result").await;
    }
    let meta = serde_json::to_value(&result.meta).unwrap();
    assert_eq!(meta["io.modelcontextprotocol/related-task"]["taskId"], json!(task.id()));
    // It can be had again, and by whoever comes later.
    within(elsewhere(&world, &connection).await.task(task.id().unwrap()).wait()).await.unwrap();
}

pub(crate) async fn receives_task_update_notifications(world: World) {
    let connection = world.plain().await;
    let task = begin(&connection).await;
    let (heard, mut hears) = mpsc::unbounded_channel();
    let _listening = connection.on_task(task.id().unwrap(), move |info| {
        let _ = heard.send(info.status);
    });
    if world.revision.is_modern() {
        // The SDK lets no such notification through, so a host looks.
        let updates = task.updates().map(|info| info.map(|info| info.status)).collect::<Vec<_>>();
        let updates: Result<Vec<_>, _> = within(updates).await.into_iter().collect();
        assert_eq!(updates.unwrap().last(), Some(&TaskStatus::Completed));
        return;
    }
    let last = within(async {
        while let Some(status) = hears.recv().await {
            if status == TaskStatus::Completed {
                return true;
            }
        }
        false
    });
    assert!(last.await, "nobody told that it is over");
}

pub(crate) async fn a_task_asks_and_goes_on(world: World) {
    let form = |_: Form| std::future::ready(Shown::Accept(json!({"name": "Ada"})));
    let connection = world.connect(world.host().with_forms(form)).await;
    let call = connection.call("wonder", json!({})).as_task();
    let task = within(async { call.await }).await.unwrap();
    let result = within(task.wait()).await.unwrap();
    assert_eq!(result.content[0].as_text().map(|text| text.text.as_str()), Some("Ada, then"));
    // Whoever does not care whether it is a task gets the same.
    let plain = within(async { connection.call("wonder", json!({})).await }).await.unwrap();
    assert_eq!(plain.content[0].as_text().map(|text| text.text.as_str()), Some("Ada, then"));
}
