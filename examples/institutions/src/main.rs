//! Serves the reports: MCP at `/mcp`, result sets at `/resources`.
//!
//! `institutions --database postgres://… [--http 127.0.0.1:3001] [--base-url http://…/resources] [--store redis://…]`.
//! Without `--store` result sets are kept in memory; with it, start as many as you like behind one base URL.

use antiphon::http::{HttpConfig, ServeConfig, shutdown_signal};
use antiphon::results::{DualResponseServerOptions, SharedStore};
use antiphon::store::{Backend, QueueConfig};
use anyhow::Context as _;
use institutions::{data, results, server};
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "whoever starts it wants to know where it is")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let database =
        value("--database").context("--database is missing; pass postgres://user:password@host/name")?;
    let pool = PgPoolOptions::new().connect(database).await.context("--database cannot be reached")?;
    data::prepare(&pool).await.context("the table of institutions could not be created")?;

    let listener = TcpListener::bind(value("--http").unwrap_or("127.0.0.1:3001")).await?;
    let address = listener.local_addr()?;
    let base = value("--base-url").map_or_else(|| format!("http://{address}/resources"), ToOwned::to_owned);
    let mut options = DualResponseServerOptions::new(base);
    if let Some(store) = value("--store") {
        let space = value("--space").unwrap_or("institutions");
        let backend =
            Backend::connect(store, space, QueueConfig::default()).await.context("--store cannot be used")?;
        options = options.with_store(SharedStore::new(backend));
    }
    let results = results(options, pool)?;
    let server = server(&results).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    eprintln!("listening on http://{address}/mcp, result sets at {}", results.base_url());
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
    results.shutdown().await?;
    Ok(())
}
