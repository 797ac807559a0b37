//! What the benchmark servers share.

use std::net::SocketAddr;

use anyhow::Context as _;

/// The address after `--http`.
///
/// # Errors
///
/// When there is none.
pub fn address() -> anyhow::Result<SocketAddr> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--http");
    let address = arguments.nth(1).context("say where to listen: --http 127.0.0.1:8080")?;
    address.parse().with_context(|| format!("`{address}` is no address; try 127.0.0.1:8080"))
}
