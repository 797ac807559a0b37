//! Serves the checkout.
//!
//! `checkout --store redis://localhost --keys 1=<64 hex digits> --http 127.0.0.1:8000 --ledger ledger.txt`, as
//! often as you like, on other ports. `--single-use` makes every `requestState` good for one use, too.

use std::time::Duration;

use antiphon::store::{Backend, QueueConfig};
use antiphon::{
    Limits,
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
    let mut seal = SealConfig::default().with_single_use(arguments.iter().any(|it| it == "--single-use"));
    if let Some(keys) = value("--keys") {
        seal = seal.with_keys(keys.parse()?);
    }
    let mut limits = Limits::default();
    if let Some(millis) = value("--beat-ms") {
        limits = limits.with_claim_heartbeat(Duration::from_millis(millis.parse()?));
    }
    let url = value("--store").unwrap_or("memory:");
    let space = value("--space").unwrap_or("checkout");
    let backend = Backend::connect(url, space, QueueConfig::default()).await.context("cannot use --store")?;
    let server = checkout::server(checkout::Ledger::new(value("--ledger").unwrap_or("ledger.txt")))
        .with_backend(backend)
        .with_seal(seal)
        .with_limits(limits)
        .build()?;
    let address = value("--http").unwrap_or("127.0.0.1:8000");
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    Ok(server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?)
}
