//! Lines without an end: what a client may send over a pipe, and what that costs.

use std::time::Duration;

use antiphon::prelude::*;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    time::timeout,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"long","version":"1"}}}"#;
const MOMENT: Duration = Duration::from_secs(60);

/// The longest line that is read, twice: once as it comes, once as the SDK reads it, and what an allocator keeps.
const MOST: usize = 96 * 1024;

/// The most this process has held in memory, in KiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn line_without_an_end_costs_no_more_than_the_longest_that_is_read() {
    let server = Server::builder("lines", "1.0.0").build().unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { server.serve_stream(far).await });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(format!("{INITIALIZE}\n").as_bytes()).await.unwrap();
    timeout(MOMENT, lines.next_line()).await.unwrap().unwrap();
    let before = peak();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..256 {
        timeout(MOMENT, writer.write_all(&piece)).await.expect("it is read").unwrap();
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < MOST, "256 MiB without an end took {grown} KiB");
    // What follows its end is read as ever.
    writer.write_all(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    let answer = timeout(MOMENT, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(answer.contains(r#""id":1"#), "{answer}");
}
