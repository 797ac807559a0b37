//! Serves the refunds.
//!
//! `refund` serves over stdio. `refund --http 127.0.0.1:8000 --keys 1=<64 hex digits> --replica replica-a` is one of
//! several replicas.

use antiphon::{
    http::{HttpConfig, shutdown_signal},
    seal::SealConfig,
};
use anyhow::Context as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let mut server = refund::server();
    if let Some(keys) = value("--keys") {
        server = server.with_seal(SealConfig::default().with_keys(keys.parse()?));
    }
    if let Some(name) = value("--replica") {
        server = server.with_replica(name);
    }
    let server = server.build()?;
    let Some(address) = value("--http") else { return Ok(server.serve_stdio().await?) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    Ok(server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?)
}
