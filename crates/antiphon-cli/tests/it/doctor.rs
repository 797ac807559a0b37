//! `antiphon doctor`.

use std::time::Duration;

use antiphon::{
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};
use axum::http::StatusCode;
use insta::assert_snapshot;
use serde_json::json;
use tokio::net::TcpListener;

use crate::ground::{Ended, Folder, Served};

async fn work(_: &Ctx, _: ()) -> Result<String> {
    Ok("done".to_owned())
}

/// Without what differs from run to run.
fn settled(ended: &Ended, url: &str) -> String {
    let mut text = ended.whole().replace(url, "[server]");
    while let Some((before, after)) = text.split_once(" (connected in ") {
        let rest = after.split_once(')').unwrap().1;
        text = format!("{before}{rest}");
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_is_well_is_described_with_what_works() {
    let folder = Folder::new();
    let served = Served::start_with(|server| {
        server
            .with_tasks(TaskConfig::default())
            .with_instructions("Ask for schools.")
            .tool(Tool::new("work", "Works for long", work).with_tasks(TaskPolicy::WhenLong))
    })
    .await;
    let seen = folder.run(&["doctor", &served.mcp]).await;
    assert_snapshot!(settled(&seen, &served.mcp), @"
    exit 0
    --- out
    [server]
      school 1.2.3
      ok       speaks 2026-07-28 and 2025-11-25
      ok       offers 3 tools, 0 resources, 1 resource template
      ok       declares: sends its log, tells of changed resources, tells of changed tools, tasks, dual responses
      ok       says how to use it: Ask for schools.
      ok       runs tasks on 2026-07-28 and 2025-11-25
               hint: a call goes on when you leave; `antiphon tasks` finds it again
      ok       answers with more rows than it shows (dual responses)
               hint: `antiphon results` pages, sorts and exports them
      ok       1 of 3 tools say what their answers look like (output schemas)
      ok       web pages of others are refused (403)
      ok       keeps sessions for hosts of 2025-11-25

    --- err
    ");
    let value = &folder.run(&["doctor", &served.mcp, "--json"]).await.json()[0];
    assert_eq!(value["usable"], true);
    assert_eq!(value["attempts"][0]["spoken"], "2026-07-28");
    assert_eq!(value["declared"]["tools"][0], "greet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_cannot_be_used_ends_with_one_and_says_what_to_do() {
    let folder = Folder::new();
    let away = folder.run(&["doctor", "http://127.0.0.1:1/mcp"]).await;
    assert_eq!(away.code, Some(1));
    assert!(away.out.contains("problem  the connection failed"), "{away:?}");
    assert!(away.out.contains("hint: is it running"), "{away:?}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let challenge = [("WWW-Authenticate", "Bearer")];
    let app = axum::Router::new().fallback(move || async move { (StatusCode::UNAUTHORIZED, challenge) });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let refused = folder.run(&["doctor", &url]).await;
    assert!(refused.out.contains("the server requires authentication"), "{refused:?}");
    assert!(refused.out.contains("ANTIPHON_TOKEN"), "{refused:?}");

    let program = tokio::time::timeout(Duration::from_secs(30), folder.run(&["doctor", "false"])).await;
    let program = program.unwrap();
    assert!(program.out.contains("start it by hand"), "{program:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_are_looked_at_and_one_that_is_not_well_is_named() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let both = folder.run(&["doctor", &served.mcp, "http://127.0.0.1:1/mcp"]).await;
    assert_eq!(both.code, Some(1));
    assert!(both.out.contains("ok       speaks 2026-07-28 and 2025-11-25"), "{both:?}");
    assert!(both.err.starts_with("error: `http://127.0.0.1:1/mcp` cannot be used"), "{both:?}");
    let unknown = folder.run(&["doctor", &served.mcp, "nosuch", "--json"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let values = unknown.json();
    assert_eq!((&values[0]["usable"], &values[1]["usable"]), (&true.into(), &false.into()));
    assert!(values[1]["findings"][0]["message"].as_str().unwrap().starts_with("there is no server `nosuch`"));
}

#[tokio::test]
async fn key_in_an_address_is_in_no_report() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    let server = json!({"url": "http://127.0.0.1:9/mcp?api_key=${KEY_OF_A_TEST}"});
    folder.write("config/servers.json", &json!({"mcpServers": {"kept": server}}).to_string());
    for arguments in [&["doctor", "kept", "--json"][..], &["doctor", "kept"], &["tools", "kept"]] {
        let said = folder.run_with(arguments, &[("KEY_OF_A_TEST", "sekret")], "").await;
        assert!(!said.whole().contains("sekret"), "{arguments:?}: {said:?}");
    }
}
