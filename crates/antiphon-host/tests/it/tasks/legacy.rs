//! Tasks of 2025-11-25.

use std::{
    pin::pin,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use antiphon_host::{Connection, Error, Event, HostBuilder, HostLimits, Lifecycle, TaskStatus};
use futures_util::StreamExt as _;
use serde_json::json;

use super::{
    Pipes, ada, host,
    legacy_server::{Legacy, Manners},
    serve, text,
};

const HOUR: Duration = Duration::from_secs(3600);

fn polite() -> Legacy {
    Legacy::new(Manners::Polite)
}

async fn connect(builder: HostBuilder, server: &Legacy) -> (Connection, Pipes) {
    let (endpoint, pipes) = serve(server);
    (builder.build().connect(endpoint).await.unwrap(), pipes)
}

#[tokio::test]
async fn a_task_is_asked_for_with_its_ttl_and_waited_for() {
    let server = polite();
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    let task = connection.call("nap", json!({})).as_task().ttl(HOUR).await.unwrap();
    let info = task.status().await.unwrap();
    assert_eq!((info.status, task.id()), (TaskStatus::Working, Some(&*info.id)));
    assert_eq!(info.created.as_deref(), Some("2026-01-01T00:00:00Z"));
    // The SDK drops these from a working task; they are remembered from its making.
    assert_eq!((info.ttl, info.poll_interval), (Some(HOUR), Some(Duration::from_millis(50))));
    server.wake.notify_one();
    let result = task.wait().await.unwrap();
    assert_eq!(text(&result), "rested");
    assert_eq!(json!(result)["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], *task.id().unwrap());
}

#[tokio::test]
async fn questions_are_answered_while_the_result_is_waited_for() {
    let (builder, asked) = ada(Lifecycle::Legacy);
    // The bound on an answer is not one on the person.
    let builder = builder.with_limits(HostLimits::default().with_timeout(Duration::from_secs(10)));
    let (connection, _) = connect(builder, &polite()).await;
    let task = connection.call("greet", json!({})).as_task().await.unwrap();
    assert_eq!(task.status().await.unwrap().status, TaskStatus::InputRequired);
    assert_eq!(text(&task.wait().await.unwrap()), r#"Hello, "Ada""#);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_tool_that_can_only_be_a_task_is_called_like_any_other() {
    let (builder, asked) = ada(Lifecycle::Legacy);
    let (connection, _) = connect(builder, &polite()).await;
    assert_eq!(text(&connection.call("greet", json!({})).await.unwrap()), r#"Hello, "Ada""#);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_task_is_asked_for_only_where_there_can_be_one() {
    for (tool, manners) in
        [("plain", Manners::Polite), ("silent", Manners::Polite), ("nap", Manners::Undeclared)]
    {
        let server = Legacy::new(manners);
        let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
        let task = connection.call(tool, json!({})).as_task().await.unwrap();
        assert_eq!((task.id(), text(&task.wait().await.unwrap())), (None, "at once"), "{tool}");
        assert_eq!(server.plain.load(Ordering::SeqCst), 1, "{tool}");
    }
}

#[tokio::test]
async fn a_server_that_passes_over_the_wish_has_the_result_at_once() {
    let server = Legacy::new(Manners::Deaf);
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    assert_eq!((task.id(), text(&task.wait().await.unwrap())), (None, "at once"));
}

#[tokio::test]
async fn a_task_is_picked_up_by_its_id_after_a_restart() {
    let server = polite();
    let id = {
        let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
        connection.call("nap", json!({})).as_task().await.unwrap().id().unwrap().to_owned()
    };
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    server.wake.notify_one();
    assert_eq!(text(&connection.task(&id).wait().await.unwrap()), "rested");
}

#[tokio::test]
async fn a_lost_connection_does_not_end_the_wait() {
    let server = polite();
    let (connection, pipes) = connect(host(Lifecycle::Legacy), &server).await;
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    let waiting = tokio::spawn({
        let task = task.clone();
        async move { task.wait().await }
    });
    for _ in 0..3 {
        server.looked.notified().await;
        pipes.cut();
    }
    server.looked.notified().await;
    server.wake.notify_one();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "rested");
}

#[tokio::test]
async fn a_connection_lost_while_somebody_is_asked_has_them_asked_again() {
    let server = polite();
    let shown = Arc::new(tokio::sync::Notify::new());
    let show = Arc::clone(&shown);
    let times = std::sync::atomic::AtomicUsize::new(0);
    let builder = host(Lifecycle::Legacy).with_forms(move |_: antiphon_host::Form| {
        let first = times.fetch_add(1, Ordering::SeqCst) == 0;
        let show = Arc::clone(&show);
        async move {
            if first {
                show.notify_one();
                std::future::pending::<()>().await;
            }
            antiphon_host::Shown::Accept(json!({"name": "Ada"}))
        }
    });
    let (connection, pipes) = connect(builder, &server).await;
    let (result, ()) = tokio::join!(connection.call("greet", json!({})), async {
        shown.notified().await;
        pipes.cut();
    });
    assert_eq!(text(&result.unwrap()), r#"Hello, "Ada""#);
}

#[tokio::test]
async fn a_cancelled_task_says_so_and_one_that_has_ended_stays_as_it_ended() {
    let server = polite();
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    assert_eq!(task.cancel().await.unwrap().status, TaskStatus::Cancelled);
    let error = task.wait().await.unwrap_err();
    assert!(matches!(&error, Error::TaskCancelled { id } if Some(&**id) == task.id()), "{error:?}");

    // The nap that was cancelled takes the first wake.
    server.wake.notify_one();
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    tokio::join!(async { task.wait().await.unwrap() }, async {
        loop {
            server.wake.notify_one();
            server.looked.notified().await;
            if task.status().await.unwrap().status.is_finished() {
                break;
            }
        }
    });
    assert_eq!(task.cancel().await.unwrap().status, TaskStatus::Completed);
}

#[tokio::test]
async fn a_task_cancelled_while_its_result_is_waited_for_says_so() {
    let server = polite();
    let (builder, _) = ada(Lifecycle::Legacy);
    let builder = builder.with_forms(|_: antiphon_host::Form| std::future::pending());
    let (connection, _) = connect(builder, &server).await;
    let task = connection.call("greet", json!({})).as_task().await.unwrap();
    tokio::select! {
        result = task.wait() => panic!("{result:?}"),
        () = server.awaited.notified() => {}
    }
    task.cancel().await.unwrap();
    let error = task.wait().await.unwrap_err();
    assert!(matches!(error, Error::TaskCancelled { .. }), "{error:?}");
}

#[tokio::test]
async fn a_failed_task_is_its_own_error_even_if_that_reads_like_an_unknown_one() {
    let (connection, _) = connect(host(Lifecycle::Legacy), &polite()).await;
    let task = connection.call("break", json!({})).as_task().await.unwrap();
    let error = task.wait().await.unwrap_err();
    assert!(
        matches!(&error, Error::Server { code: -32602, message, .. } if message == "no such month"),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_unknown_task_is_an_error_of_its_own() {
    let (connection, _) = connect(host(Lifecycle::Legacy), &polite()).await;
    let task = connection.task("nobody's");
    for error in
        [task.status().await.unwrap_err(), task.wait().await.unwrap_err(), task.cancel().await.unwrap_err()]
    {
        assert!(matches!(&error, Error::TaskUnknown { id } if id == "nobody's"), "{error:?}");
    }
}

#[tokio::test]
async fn every_page_of_tasks_is_listed_even_if_they_go_round_in_circles() {
    for manners in [Manners::Polite, Manners::Circles] {
        let server = Legacy::new(manners);
        let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
        for _ in 0..3 {
            connection.call("nap", json!({})).as_task().ttl(HOUR).await.unwrap();
        }
        let tasks = connection.tasks().await.unwrap();
        let ids: Vec<&str> = tasks.iter().take(3).map(|task| &*task.id).collect();
        assert_eq!(ids, ["task-0", "task-1", "task-2"]);
        assert_eq!(tasks[2].ttl, Some(HOUR));
        assert!(manners == Manners::Circles || tasks.len() == 3);
    }
}

#[tokio::test]
async fn what_a_server_tells_of_a_task_is_heard_in_order() {
    let server = polite();
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let (builder, _) = ada(Lifecycle::Legacy);
    let builder = builder.with_events(move |event| {
        if let Event::Task(info) = event {
            heard.lock().unwrap().push((info.id, info.status));
        }
    });
    let (connection, _) = connect(builder, &server).await;
    let nap = connection.call("nap", json!({})).as_task().await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let listening = connection.on_task("task-1", move |info| {
        tell.lock().unwrap().push((info.status, info.message.clone(), info.poll_interval));
    });
    connection.call("greet", json!({})).await.unwrap();
    drop(listening);
    nap.cancel().await.unwrap();
    assert_eq!(
        *events.lock().unwrap(),
        [("task-1".to_owned(), TaskStatus::Completed), ("task-0".to_owned(), TaskStatus::Cancelled)]
    );
    let message = Some("now completed".to_owned());
    assert_eq!(*told.lock().unwrap(), [(TaskStatus::Completed, message, Some(Duration::from_millis(50)))]);
}

#[tokio::test]
async fn changes_come_as_a_stream_as_soon_as_they_are_told() {
    let server = polite();
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    let mut updates = pin!(task.updates());
    assert_eq!(updates.next().await.unwrap().unwrap().status, TaskStatus::Working);
    server.wake.notify_one();
    let last = updates.next().await.unwrap().unwrap();
    assert_eq!((last.status, last.message.as_deref()), (TaskStatus::Completed, Some("now completed")));
    assert!(updates.next().await.is_none());
}

#[tokio::test]
async fn progress_goes_on_after_the_task_was_made() {
    let server = polite();
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = Arc::clone(&seen);
    let call =
        connection.call("nap", json!({})).progress(move |step| progress.lock().unwrap().push(step.progress));
    let task = call.as_task().await.unwrap();
    server.wake.notify_one();
    task.wait().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0]);
}

#[tokio::test]
async fn wrapped_tasks_and_results_are_understood() {
    let server = Legacy::new(Manners::Wraps);
    let (builder, _) = ada(Lifecycle::Legacy);
    let (connection, _) = connect(builder, &server).await;
    let task = connection.call("nap", json!({})).as_task().ttl(HOUR).await.unwrap();
    let info = task.status().await.unwrap();
    assert_eq!((info.status, info.ttl), (TaskStatus::Working, None));
    assert_eq!(text(&connection.call("greet", json!({})).await.unwrap()), r#"Hello, "Ada""#);
    assert_eq!(task.cancel().await.unwrap().status, TaskStatus::Cancelled);
}

/// The SDK reads any answer with `_meta` as a tool's result. The layer that carries tasks can help; where
/// there is none, the task must not be taken for a finished call.
#[tokio::test]
async fn a_task_that_the_sdk_lost_is_no_result() {
    let server = Legacy::new(Manners::Meta);
    let (connection, _) = connect(host(Lifecycle::Legacy), &server).await;
    let error = connection.call("nap", json!({})).as_task().await.unwrap_err();
    assert!(matches!(&error, Error::Malformed { method, .. } if method == "tools/call"), "{error:?}");
}
