//! Serves the game: on standard input and output, or with `--http 127.0.0.1:8000`.
//!
//! The client's model plays. For clients that have none, `MODEL_URL` names a server that speaks as OpenAI's does,
//! such as llama.cpp: `MODEL_URL=http://127.0.0.1:8080/v1`.
//!
//! With `--store postgres://localhost/games --keys 1=<64 hex digits>` a game outlives the process, and any other with
//! the same store and keys goes on with it; `--replica` gives each a name in what is shown of a run. With `--operators 127.0.0.1:9000 --token <24 letters or more>`,
//! `antiphon runs` shows what is going on.
#![expect(clippy::print_stderr, reason = "whoever starts it wants to know where it listens")]

use antiphon::llm::providers::{OpenAiCompatible, ProviderConfig};
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
    let mut server = play_ttt::server();
    if let Ok(url) = std::env::var("MODEL_URL") {
        let config = ProviderConfig::local().with_base_url(url).with_model("default");
        server = server.with_model(OpenAiCompatible::new(config).context("MODEL_URL is not a valid URL")?);
    }
    if let Some(keys) = value("--keys") {
        server = server.with_seal(SealConfig::default().with_keys(keys.parse()?));
    }
    if let Some(url) = value("--store") {
        value("--keys").context("a shared --store needs shared keys; pass --keys 1=<64 hex digits>")?;
        let backend = Backend::connect(url, "play_ttt", QueueConfig::default());
        server = server.with_backend(backend.await.context("--store cannot be used")?);
    }
    if let Some(name) = value("--replica") {
        server = server.with_replica(name);
    }
    let server = server.build()?;
    if let Some(address) = value("--operators") {
        let token = value("--token").context("--operators needs a token; pass --token")?;
        let (listener, router) = (listen(address).await?, server.operator_router(token)?);
        tokio::spawn(antiphon::http::serve(listener, router, ServeConfig::default(), shutdown_signal()));
    }
    let Some(address) = value("--http") else { return Ok(server.serve_stdio().await?) };
    let listener = listen(address).await?;
    eprintln!("play_ttt listens on http://{}/mcp", listener.local_addr()?);
    Ok(server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?)
}

async fn listen(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}
