//! What the servers and workers of benchmarks and chaos share.

pub mod figures;
pub mod rows;
pub mod store;

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

/// The address after `--http`.
///
/// # Errors
///
/// When there is none.
pub fn address() -> anyhow::Result<SocketAddr> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--http");
    let address = arguments.nth(1).context("say where to listen: --http 127.0.0.1:8080")?;
    address.parse().with_context(|| format!("`{address}` is not a socket address; try 127.0.0.1:8080"))
}

/// Whether `argument` is on the command line.
pub fn is_asked(argument: &str) -> bool {
    std::env::args().skip(1).any(|it| it == argument)
}

/// Serves `router` at the address after `--http`, until the process is ended.
///
/// # Errors
///
/// When the address is missing or taken.
pub async fn serve(router: axum::Router) -> anyhow::Result<()> {
    // Answers are several small writes; without this each may wait 40 ms.
    let listener = TcpListener::bind(address()?).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
