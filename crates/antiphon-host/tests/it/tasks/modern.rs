//! Tasks of 2026-07-28.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon_host::{Connection, Error, Form, HostBuilder, HostLimits, Lifecycle, TaskStatus};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::Notify;

use super::{Pipes, ada, host, modern_server::Modern, serve, text};

async fn connect(builder: HostBuilder, server: &Modern) -> (Connection, Pipes) {
    let (endpoint, pipes) = serve(server);
    (builder.build().connect(endpoint).await.unwrap(), pipes)
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_followed_to_its_result() {
    let server = Modern::default();
    let (builder, asked) = ada(Lifecycle::Modern);
    let (connection, _) = connect(builder, &server).await;
    let result = connection.call("greet", json!({})).await.unwrap();
    assert_eq!(text(&result), r#""Ada" "Ada" "accept""#);
    assert_eq!((asked.load(Ordering::SeqCst), server.updates.load(Ordering::SeqCst)), (3, 3));
}

#[tokio::test]
async fn a_task_is_picked_up_by_its_id_after_a_restart() {
    let server = Modern::default();
    let id = {
        let (connection, _) = connect(host(Lifecycle::Modern), &server).await;
        let task = connection.call("nap", json!({})).as_task().await.unwrap();
        task.id().unwrap().to_owned()
    };
    // The handle, the connection and the host are gone; the task is not.
    let (connection, _) = connect(host(Lifecycle::Modern), &server).await;
    let task = connection.task(&id);
    let info = task.status().await.unwrap();
    assert_eq!((info.status, info.id), (TaskStatus::Working, id));
    assert_eq!(info.ttl, Some(Duration::from_millis(rmcp::task_manager::DEFAULT_TASK_TTL_MS)));
    assert_eq!(info.poll_interval, Some(Duration::from_millis(50)));
    server.wake.notify_one();
    assert_eq!(text(&task.wait().await.unwrap()), "rested");
    assert_eq!(text(&task.wait().await.unwrap()), "rested", "a result can be had again");
}

#[tokio::test]
async fn a_lost_connection_does_not_end_the_wait() {
    let server = Modern::default();
    let (connection, pipes) = connect(host(Lifecycle::Modern), &server).await;
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
async fn an_answer_at_once_is_a_finished_handle() {
    let (connection, _) = connect(host(Lifecycle::Modern), &Modern::default()).await;
    let task = connection.call("quick", json!({})).as_task().await.unwrap();
    assert_eq!((task.id(), task.status().await.unwrap().status), (None, TaskStatus::Completed));
    assert_eq!(task.cancel().await.unwrap().status, TaskStatus::Completed);
    assert_eq!(task.updates().count().await, 1);
    assert_eq!(text(&task.wait().await.unwrap()), "done");
}

#[tokio::test]
async fn a_cancelled_task_says_so_to_whoever_waits() {
    let server = Modern::default();
    let (connection, _) = connect(host(Lifecycle::Modern), &server).await;
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    let waiting = tokio::spawn({
        let task = task.clone();
        async move { task.wait().await }
    });
    server.looked.notified().await;
    task.cancel().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::TaskCancelled { id } if Some(&**id) == task.id()), "{error}");
    assert_eq!(task.cancel().await.unwrap().status, TaskStatus::Cancelled);
}

#[tokio::test]
async fn a_failed_task_is_the_servers_error() {
    let (connection, _) = connect(host(Lifecycle::Modern), &Modern::default()).await;
    let error = connection.call("break", json!({})).await.unwrap_err();
    assert!(
        matches!(&error, Error::Server { code: -32050, message, data: Some(data) }
            if message == "broken" && data["part"] == 1),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_unknown_task_is_an_error_of_its_own() {
    let (connection, _) = connect(host(Lifecycle::Modern), &Modern::default()).await;
    let task = connection.task("nobody's");
    for error in [
        task.status().await.unwrap_err(),
        task.wait().await.unwrap_err(),
        task.cancel().await.unwrap_err(),
        pin!(task.updates()).next().await.unwrap().unwrap_err(),
    ] {
        assert!(matches!(&error, Error::TaskUnknown { id } if id == "nobody's"), "{error:?}");
        assert_eq!(error.code(), Some(-32602));
    }
}

#[tokio::test]
async fn a_key_that_stays_pending_is_not_answered_again() {
    let server = Modern { lags: true, ..Modern::default() };
    let (builder, asked) = ada(Lifecycle::Modern);
    let (connection, _) = connect(builder, &server).await;
    let task = connection.call("lag", json!({})).as_task().await.unwrap();
    let waiting = tokio::spawn({
        let task = task.clone();
        async move { task.wait().await }
    });
    while server.updates.load(Ordering::SeqCst) == 0 {
        server.looked.notified().await;
    }
    for _ in 0..4 {
        server.looked.notified().await;
    }
    server.wake.notify_one();
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "awake");
    assert_eq!((asked.load(Ordering::SeqCst), server.updates.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_task_that_never_takes_its_answer_is_stuck() {
    let server = Modern { lags: true, ..Modern::default() };
    let (builder, asked) = ada(Lifecycle::Modern);
    let builder = builder.with_limits(HostLimits::default().with_stuck_polls(2));
    let (connection, _) = connect(builder, &server).await;
    let task = connection.call("lag", json!({})).as_task().await.unwrap();
    for _ in 0..2 {
        let error = task.wait().await.unwrap_err();
        assert!(matches!(&error, Error::TaskStuck { keys, .. } if keys == &["who"]), "{error:?}");
    }
    assert_eq!((asked.load(Ordering::SeqCst), server.updates.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn an_answer_that_is_lost_is_given_again_and_nobody_asked_twice() {
    for reconnects in [0, 5] {
        let server = Modern { loses: Arc::new(AtomicUsize::new(1)), ..Modern::default() };
        let (builder, asked) = ada(Lifecycle::Modern);
        let fast = Duration::from_millis(1);
        let limits = HostLimits::default().with_reconnects(reconnects, fast, fast);
        let (connection, pipes) = connect(builder.with_limits(limits), &server).await;
        *server.pipes.lock().unwrap() = pipes;
        let task = connection.call("lag", json!({})).as_task().await.unwrap();
        server.wake.notify_one();
        if reconnects == 0 {
            // Whoever does not bear losses has to wait again; the answer is kept until then.
            let error = task.wait().await.unwrap_err();
            assert!(matches!(&error, Error::Lost { method, .. } if method == "tasks/update"), "{error:?}");
        }
        assert_eq!(text(&task.wait().await.unwrap()), "awake");
        assert_eq!((asked.load(Ordering::SeqCst), server.updates.load(Ordering::SeqCst)), (1, 1));
    }
}

#[tokio::test]
async fn a_question_is_asked_once_however_many_wait() {
    let server = Modern::default();
    let (builder, asked) = ada(Lifecycle::Modern);
    let (connection, _) = connect(builder, &server).await;
    let one = connection.call("greet", json!({})).as_task().await.unwrap();
    let two = connection.task(one.id().unwrap());
    let (one, two) = tokio::join!(one.wait(), two.wait());
    assert_eq!(text(&one.unwrap()), text(&two.unwrap()));
    assert_eq!((asked.load(Ordering::SeqCst), server.updates.load(Ordering::SeqCst)), (3, 3));
}

/// A host whose forms nobody fills in, and who says when one is shown and when it is withdrawn.
fn hesitant() -> (HostBuilder, Arc<Notify>, Arc<AtomicUsize>) {
    struct Shown(Arc<AtomicUsize>);
    impl Drop for Shown {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (shown, withdrawn) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (show, withdraw) = (Arc::clone(&shown), Arc::clone(&withdrawn));
    let builder = host(Lifecycle::Modern).with_forms(move |_: Form| {
        show.notify_one();
        let form = Shown(Arc::clone(&withdraw));
        async move {
            std::future::pending::<()>().await;
            drop(form);
            antiphon_host::Shown::Cancel
        }
    });
    (builder, shown, withdrawn)
}

#[tokio::test]
async fn a_form_is_withdrawn_when_the_task_goes_on_without_it() {
    let server = Modern::default();
    let (builder, shown, withdrawn) = hesitant();
    let (connection, _) = connect(builder, &server).await;
    let task = connection.call("impatient", json!({})).as_task().await.unwrap();
    let (result, ()) = tokio::join!(task.wait(), async {
        shown.notified().await;
        server.wake.notify_one();
    });
    assert_eq!((text(&result.unwrap()), withdrawn.load(Ordering::SeqCst)), ("went on", 1));
}

#[tokio::test]
async fn a_question_nobody_answered_is_asked_by_the_next_to_wait() {
    let server = Modern::default();
    let (builder, shown, _) = hesitant();
    let (connection, _) = connect(builder, &server).await;
    let task = connection.call("impatient", json!({})).as_task().await.unwrap();
    for _ in 0..2 {
        tokio::select! {
            result = task.wait() => panic!("{result:?}"),
            () = shown.notified() => {}
        }
    }
}

#[tokio::test]
async fn what_the_host_does_not_answer_ends_the_wait_and_not_the_task() {
    let server = Modern::default();
    let (connection, _) = connect(host(Lifecycle::Modern), &server).await;
    let task = connection.call("greet", json!({})).as_task().await.unwrap();
    assert_eq!(task.wait().await.unwrap_err().code(), Some(-32602));
    assert_eq!(task.status().await.unwrap().status, TaskStatus::InputRequired);
}

#[tokio::test]
async fn a_call_that_is_dropped_cancels_its_task_and_a_handle_does_not() {
    let server = Modern::default();
    let (connection, _) = connect(host(Lifecycle::Modern), &server).await;
    tokio::select! {
        result = connection.call("nap", json!({})) => panic!("{result:?}"),
        () = server.looked.notified() => {}
    }
    let dropped = server.last.lock().unwrap().clone();
    let error = connection.task(&dropped).wait().await.unwrap_err();
    assert!(matches!(error, Error::TaskCancelled { .. }), "{error:?}");

    drop(connection.call("nap", json!({})).as_task().await.unwrap());
    let dropped = server.last.lock().unwrap().clone();
    assert_eq!(connection.task(&dropped).status().await.unwrap().status, TaskStatus::Working);
}

#[tokio::test]
async fn patience_ends_the_wait_and_not_the_task() {
    let server = Modern::default();
    let limits = HostLimits::default().with_task_patience(Duration::from_millis(20));
    let (connection, _) = connect(host(Lifecycle::Modern).with_limits(limits), &server).await;
    let Error::TaskUnfinished { id, .. } = connection.call("nap", json!({})).await.unwrap_err() else {
        panic!("the call should run out of patience");
    };
    assert_eq!(connection.task(&id).status().await.unwrap().status, TaskStatus::Working);
}

#[tokio::test]
async fn changes_come_as_a_stream_that_ends_with_the_task() {
    let server = Modern::default();
    let (connection, _) = connect(host(Lifecycle::Modern), &server).await;
    let task = connection.call("nap", json!({})).as_task().await.unwrap();
    let mut updates = pin!(task.updates());
    let mut seen = vec![updates.next().await.unwrap().unwrap().status];
    server.wake.notify_one();
    while let Some(info) = updates.next().await {
        seen.push(info.unwrap().status);
    }
    assert_eq!((seen.first(), seen.last()), (Some(&TaskStatus::Working), Some(&TaskStatus::Completed)));
}

#[tokio::test]
async fn there_is_no_list_and_the_error_says_what_to_do() {
    let (connection, _) = connect(host(Lifecycle::Modern), &Modern::default()).await;
    let error = connection.tasks().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "protocol revision 2026-07-28 has no list of tasks; store the task IDs instead"
    );
}

/// The SDK's server refuses `tasks/*` without the header that names the task.
#[cfg(feature = "http")]
#[tokio::test]
async fn over_http_a_task_is_named_in_the_header() {
    use antiphon_host::Endpoint;
    use rmcp::transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    };

    let server = Modern::default();
    let handler = server.clone();
    let service: StreamableHttpService<Modern, LocalSessionManager> = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = axum::Router::new().nest_service("/mcp", service);
    tokio::spawn(async move { axum::serve(listener, app).await });

    let (builder, asked) = ada(Lifecycle::Modern);
    let connection = builder.build().connect(Endpoint::http(url)).await.unwrap();
    let task = connection.call("greet", json!({})).as_task().await.unwrap();
    assert_eq!(text(&task.wait().await.unwrap()), r#""Ada" "Ada" "accept""#);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert_eq!(task.cancel().await.unwrap().status, TaskStatus::Completed);
}

#[tokio::test]
async fn a_call_whose_task_is_stuck_does_not_cancel_it() {
    let server = Modern { lags: true, ..Modern::default() };
    let (builder, _) = ada(Lifecycle::Modern);
    let builder = builder.with_limits(HostLimits::default().with_stuck_polls(2));
    let (connection, _) = connect(builder, &server).await;
    let Error::TaskStuck { id, .. } = connection.call("lag", json!({})).await.unwrap_err() else {
        panic!("the task should be stuck");
    };
    // Whatever the call has left to say is said before this is answered.
    connection.task(&id).status().await.unwrap();
    server.wake.notify_one();
    assert_eq!(text(&connection.task(&id).wait().await.unwrap()), "awake");
}

#[tokio::test]
async fn a_server_whose_store_is_away_for_a_moment_does_not_end_the_wait() {
    let server = Modern { away: Arc::new(AtomicUsize::new(3)), ..Modern::default() };
    let fast = Duration::from_millis(1);
    let limits = HostLimits::default().with_reconnects(5, fast, fast);
    let (connection, _) = connect(host(Lifecycle::Modern).with_limits(limits), &server).await;
    server.wake.notify_one();
    assert_eq!(text(&connection.call("nap", json!({})).await.unwrap()), "rested");
}
