//! Serves the onboarding, and works on it.
//!
//! `onboarding --store postgres://localhost/hr --keys 1=<64 hex digits> --http 127.0.0.1:8000`, as often as you like, on
//! other ports. With `--operators 127.0.0.1:9000 --token <24 letters or more>`, `antiphon runs` shows what is going on.

use antiphon::store::{Backend, QueueConfig};
use antiphon::{
    http::{HttpConfig, ServeConfig, shutdown_signal},
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
    let mut seal = SealConfig::default();
    if let Some(keys) = value("--keys") {
        seal = seal.with_keys(keys.parse()?);
    }
    let url = value("--store").unwrap_or("memory:");
    let backend = Backend::connect(url, "onboarding", QueueConfig::default())
        .await
        .context("--store cannot be used")?;
    let server = onboarding::server().with_backend(backend).with_seal(seal).build()?;
    if let Some(address) = value("--operators") {
        let token = value("--token").context("--operators needs a token; pass --token")?;
        let (listener, router) = (TcpListener::bind(address).await?, server.operator_router(token)?);
        tokio::spawn(antiphon::http::serve(listener, router, ServeConfig::default(), shutdown_signal()));
    }
    let address = value("--http").unwrap_or("127.0.0.1:8000");
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    Ok(server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?)
}
