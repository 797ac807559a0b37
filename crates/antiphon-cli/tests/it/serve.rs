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
    let folder = Folder::new();
    assert_snapshot!(folder.run(&["serve"]).await.out, @"
    EXAMPLE       ABOUT
    checkout      a tool that must not charge twice
    institutions  an answer with more rows than a model can read; needs --http and --database
    onboarding    a run that takes days, as a task
    play_ttt      a game of tic-tac-toe against a model; --model-url for clients that have none
    ");
    let unknown = folder.run(&["serve", "zebra"]).await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("are checkout, institutions, onboarding, play_ttt"), "{unknown:?}");
    let bare = folder.run(&["serve", "institutions"]).await;
    assert!(bare.code == Some(2) && bare.err.contains("--database"), "{bare:?}");
    let down = ["--http", "127.0.0.1:0", "--database", "postgres://ada@127.0.0.1:1/school"];
    let down = folder.run(&[&["serve", "institutions"][..], &down].concat()).await;
    assert!(down.err.contains("the database cannot be reached"), "{down:?}");
    assert!(down.err.contains("Connection refused"), "{down:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn example_is_served_over_stdio() {
    let folder = Folder::new();
    let server = format!("{} serve checkout", env!("CARGO_BIN_EXE_antiphon"));
    let shown = folder.run(&["connect", "shop", &server, "--json"]).await;
    assert_eq!(shown.json()["counts"]["tools"], 1, "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn example_says_where_it_listens_over_http() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_antiphon"))
        .args(["serve", "onboarding", "--http", "127.0.0.1:0"])
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
    assert_eq!(server.tools().await.unwrap()[0].name, "onboard");
}
