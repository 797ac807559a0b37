//! Standard input and output, as a shell has them: nobody reads on, and Ctrl-C.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tokio::io::AsyncWriteExt as _;

use crate::{
    ground::{Folder, Served},
    support,
    talk::server,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_nobody_reads_is_no_failure() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let answer = served.answer().await;
    let set = answer["structuredContent"]["resource"]["url"].as_str().unwrap();
    for arguments in [
        &["completions", "bash"][..],
        &["doctor", &served.mcp],
        &["doctor", &served.mcp, "--json"],
        &["connect", "school", &served.mcp],
        &["connect", "--remove", "school", "--json"],
        &["new", "hello", "--path", concat!(env!("CARGO_MANIFEST_DIR"), "/../.."), "--json"],
        &["results", set],
        &["results", set, "--json"],
        &["results", "export", set],
        &["results", "export", set, "--output", "all.csv", "--json"],
        &["results", "pin", set, "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
        command
            .args(arguments)
            .current_dir(folder.path())
            .env("ANTIPHON_CONFIG_DIR", folder.path().join("config"))
            .stdin(Stdio::null())
            .stdout(writer);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("error:"), "{arguments:?}: {said}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_is_heard_while_standard_input_is_read() {
    let url = support::serve(&server()).await;
    let folder = support::Folder::new();
    let mut command = support::command(&folder);
    command.args(["call", "--arguments", "-", &url, "echo"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // More than a pipe holds: it is all gone only when it is being read.
    input.write_all(&vec![b' '; 1 << 20]).await.unwrap();
    let id = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let ended =
        tokio::time::timeout(Duration::from_secs(20), child.wait()).await.expect("it goes on reading");
    assert_eq!(ended.unwrap().code(), Some(130));
    drop(input);
}
