//! `antiphon serve`.

use std::{process::Stdio, time::Duration};

use antiphon_host::{Defaults, Endpoint, Host};
use insta::assert_snapshot;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::ground::Folder;

#[tokio::test]
async fn examples_are_listed_and_wrong_ones_refused() {
    if !cfg!(feature = "backends") {
        eprintln!("skipped: the feature `backends` is not enabled");
        return;
    }
    let folder = Folder::new();
    assert_snapshot!(folder.run(&["serve"]).await.out, @"
    EXAMPLE       ABOUT
    hello         a tool that asks for your name
    checkout      a tool that must not charge twice
    institutions  an answer with more rows than a model can read; needs --http and --database
    onboarding    a run that takes days, as a task
    play_ttt      a game of tic-tac-toe against a model; --model-url for clients that have none
    ");
    let unknown = folder.run(&["serve", "zebra"]).await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("are hello, checkout, institutions, onboarding, play_ttt"), "{unknown:?}");
    let bare = folder.run(&["serve", "institutions"]).await;
    assert!(bare.code == Some(2) && bare.err.contains("--database"), "{bare:?}");
    let down = ["--http", "127.0.0.1:0", "--database", "postgres://ada@127.0.0.1:1/school"];
    let down = folder.run(&[&["serve", "institutions"][..], &down].concat()).await;
    assert!(down.err.contains("the database cannot be reached"), "{down:?}");
    assert!(down.err.contains("Connection refused"), "{down:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn example_is_served_over_stdio_and_its_question_is_answered() {
    let folder = Folder::new();
    let server = format!("{} serve hello", env!("CARGO_BIN_EXE_antiphon"));
    let shown = folder.run(&["connect", "desk", &server, "--json"]).await;
    assert_eq!(shown.json()["counts"]["tools"], 1, "{shown:?}");
    folder.write("answers.json", r#"{"name": {"name": "Ada"}}"#);
    for revision in crate::support::BOTH {
        let call = ["call", "--revision", revision, "--answers", "answers.json", "desk", "greet"];
        let answered = folder.run(&call).await;
        assert_eq!((answered.code, answered.out.as_str()), (Some(0), "Hello, Ada!\n"), "{answered:?}");
    }
}

/// A build without databases names the feature that adds them.
#[tokio::test]
async fn build_without_databases_says_how_to_get_them() {
    if cfg!(feature = "backends") {
        return;
    }
    let folder = Folder::new();
    for words in [["serve", "institutions"].as_slice(), &["serve", "hello", "--store", "redis://127.0.0.1"]] {
        let refused = folder.run(words).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("crates/antiphon-cli --features backends`"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn example_says_where_it_listens_over_http() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_antiphon"))
        .args(["serve", "hello", "--http", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await.unwrap();
    let line = line.unwrap().unwrap();
    let url = line.split_whitespace().nth(3).unwrap().trim_end_matches(';');
    let host = Host::builder("test", "1").with_forms(Defaults).build();
    let server = host.connect(Endpoint::http(url)).await.unwrap();
    assert_eq!(server.tools().await.unwrap()[0].name, "greet");
}
