//! Programs that print, stay silent, or are not servers.

use std::{
    error::Error as _,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use antiphon_host::{
    Connection, Direction, Endpoint, Error as HostError, Host, HostBuilder, HostLimits, Lifecycle,
    StrayOutput,
};
use serde_json::json;

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"printer","version":"1"}}}"#;

fn shell(script: &str) -> Endpoint {
    Endpoint::command("sh", ["-c", script])
}

fn host() -> HostBuilder {
    Host::builder("h", "1").with_lifecycle(Lifecycle::Legacy)
}

/// Connects to a program that initializes, and then runs `rest`.
async fn connect(host: HostBuilder, before: &str, rest: &str) -> Connection {
    let script = format!("read x; {before} echo '{INITIALIZED}'; read x; {rest}");
    host.build().connect(shell(&script)).await.unwrap()
}

/// The cause of a failed connection.
fn cause(error: &HostError) -> String {
    assert!(matches!(error, HostError::Connect { .. }), "{error:?}");
    error.source().unwrap().to_string()
}

#[tokio::test]
async fn text_on_standard_output_is_reported_once_and_does_not_end_the_connection() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&lines);
    let host = host().with_stray_output(move |stray| reported.lock().unwrap().push(stray.clone()));
    let tools = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
    let rest = format!("read x; echo '[INFO] listing'; echo '{tools}'; read x");
    let connection = connect(host, "echo 'loading the model'; echo loaded;", &rest).await;
    assert_eq!(connection.tools().await.unwrap().len(), 0);
    let lines = lines.lock().unwrap();
    assert_eq!(lines.iter().map(StrayOutput::line).collect::<Vec<_>>(), ["loading the model"]);
    assert_eq!(
        lines[0].to_string(),
        "the program wrote a line to standard output that is not an MCP message: `loading the model`; \
         a server must write logs to standard error"
    );
}

#[tokio::test]
async fn messages_and_standard_error_of_a_program_are_reported() {
    let (frames, lines) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (seen, heard) = (Arc::clone(&frames), Arc::clone(&lines));
    let host = host()
        .with_frames(move |frame| seen.lock().unwrap().push(frame.clone()))
        .with_standard_error(move |line| heard.lock().unwrap().push(line.to_owned()));
    let script =
        format!("echo one >&2; echo two >&2; read x; echo '{INITIALIZED}'; read x; exec cat >/dev/null");
    let endpoint = Endpoint::child("sh", move || {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", &script]).stderr(std::process::Stdio::piped());
        command
    });
    let connection = host.build().connect(endpoint).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while lines.lock().unwrap().len() < 2 {
        assert!(Instant::now() < deadline, "{:?}", lines.lock().unwrap());
        tokio::task::yield_now().await;
    }
    let told = |frames: &[antiphon_host::Frame], direction: Direction| -> Vec<serde_json::Value> {
        let frames = frames.iter().filter(|frame| frame.direction == direction);
        frames.map(|frame| frame.message["method"].clone()).collect()
    };
    {
        let frames = frames.lock().unwrap();
        assert_eq!(told(&frames, Direction::Sent), [json!("initialize"), json!("notifications/initialized")]);
        let received: Vec<_> = frames.iter().filter(|it| it.direction == Direction::Received).collect();
        assert_eq!(received[0].message["result"]["serverInfo"]["name"], "printer");
    }
    assert_eq!(*lines.lock().unwrap(), ["one", "two"]);
    connection.close().await;
}

#[tokio::test]
async fn the_error_of_a_call_whose_answer_is_unreadable_names_the_text() {
    // The tool prints without a line break, so its response is a part of the printed line.
    let rest = r#"read x; printf 'working... '; echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'; "#;
    let banner = "echo 'Welcome to the server';";
    let waits = connect(host(), banner, &format!("{rest} exec sleep 1000")).await;
    let error = waits.call("work", json!({})).timeout(Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(&error, HostError::Timeout { .. }), "{error:?}");
    assert!(error.source().unwrap().to_string().contains("not an MCP message: `working... {"), "{error:?}");

    let ends = connect(host(), banner, rest).await;
    let error = ends.call("work", json!({})).await.unwrap_err();
    assert!(matches!(&error, HostError::Lost { stray: Some(_), .. }), "{error:?}");
    assert!(error.source().unwrap().to_string().contains("not an MCP message: `working... {"), "{error:?}");
}

#[tokio::test]
async fn a_banner_from_the_start_is_not_the_cause_of_later_errors() {
    let banner = "echo 'Welcome to the server';";
    let waits = connect(host(), banner, "exec sleep 1000").await;
    let error = waits.call("work", json!({})).timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(&error, HostError::Timeout { stray: None, .. }), "{error:?}");

    let ends = connect(host(), banner, "read x").await;
    let error = ends.call("work", json!({})).await.unwrap_err();
    assert!(matches!(&error, HostError::Lost { stray: None, .. }), "{error:?}");
}

#[tokio::test]
async fn a_program_that_is_not_a_server_is_recognized_at_once() {
    let begun = Instant::now();
    // With long lines, the limit in bytes is reached after fewer lines.
    let line = "busy".repeat(500);
    for lifecycle in [Lifecycle::Auto, Lifecycle::Modern, Lifecycle::Legacy] {
        let host = host().with_lifecycle(lifecycle).build();
        let echo = host.connect(Endpoint::command("cat", [] as [&str; 0])).await.unwrap_err();
        assert!(cause(&echo).contains("sent the host's own request back"), "{echo:?}");
        let noise = host.connect(Endpoint::command("yes", [line.as_str()])).await.unwrap_err();
        assert!(cause(&noise).contains("which begins with `busybusy"), "{noise:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "it waited for the limit");
}

#[tokio::test]
async fn a_program_that_does_not_answer_has_a_time_limit() {
    let limits = HostLimits::default().with_connect_timeout(Duration::from_millis(300));
    for lifecycle in [Lifecycle::Auto, Lifecycle::Legacy] {
        let host = host().with_lifecycle(lifecycle).with_limits(limits.clone()).build();
        let error = host.connect(shell("echo starting; exec sleep 1000")).await.unwrap_err();
        let cause = cause(&error);
        assert!(cause.starts_with("the server did not answer within 300ms, the time limit"), "{cause}");
    }
}

#[tokio::test]
async fn the_error_of_a_program_that_stops_names_its_output() {
    let error = host().build().connect(shell("read x; echo usage: serve PORT; exit 2")).await.unwrap_err();
    let cause = cause(&error);
    assert!(cause.contains("(exit status: 2); its standard output has a line"), "{cause}");
    assert!(cause.ends_with("`usage: serve PORT`"), "{cause}");
}
