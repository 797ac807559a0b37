//! The everything server: what the official MCP conformance suite calls, lists and reads.
//!
//! `everything --http 127.0.0.1:8000`, or `everything --stdio`. Every tool is there once; the suite's
//! two revisions, 2025-11-25 and 2026-07-28, call the same functions.
//!
//! - `content`: tools that answer at once, with each kind of content.
//! - `asking`: tools that ask the person, the model or the client, and go on with the answer.
//! - `forms`: what a form can look like.
//! - `jobs`: tools whose runs outlive the call.
//! - `notices`: tools that say something beside their answer.
//! - `prompts` and `resources`.

mod asking;
mod content;
mod forms;
mod jobs;
mod notices;
mod prompts;
mod resources;

use antiphon::{Server, http::HttpConfig};
use anyhow::{Context as _, bail};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = Server::builder("everything", env!("CARGO_PKG_VERSION"))
        .with_title("Everything")
        .with_description("What the official MCP conformance suite expects of a server");
    let server = content::add_to(server);
    let server = asking::add_to(server);
    let server = forms::add_to(server);
    let server = notices::add_to(server);
    let server = jobs::add_to(server);
    let server = prompts::add_to(server);
    let server = resources::add_to(server).build()?;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let served = match arguments[..] {
        ["--stdio"] => server.serve_stdio().await,
        ["--http", address] => {
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
            let config = HttpConfig::default();
            announce(&format!("listening on http://{}{}", listener.local_addr()?, config.path()));
            server.serve_listener(listener, config, std::future::pending()).await
        }
        _ => bail!("usage: everything --http ADDRESS, or everything --stdio"),
    };
    Ok(served?)
}

#[expect(clippy::print_stderr, reason = "who starts the server reads this line to know that it is up")]
fn announce(line: &str) {
    eprintln!("{line}");
}
