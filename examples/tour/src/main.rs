//! Serves the tour.
//!
//! `tour --stdio`, or `tour --http 127.0.0.1:8000`. Replicas share a key ring: `--keys 2=<64 hex
//! digits>,1=<64 hex digits>`; the first seals, all of them open.

use antiphon::{http::HttpConfig, seal::SealConfig};
use anyhow::Context as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut seal = SealConfig::default();
    if let Some(keys) = value_of(&arguments, "--keys") {
        seal = seal.with_keys(keys.parse()?);
    }
    let server = tour::server(seal).build()?;
    let served = match value_of(&arguments, "--http") {
        Some(address) => {
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
            server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
        }
        None => server.serve_stdio().await,
    };
    Ok(served?)
}

fn value_of<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    arguments.get(at + 1).map(String::as_str)
}
