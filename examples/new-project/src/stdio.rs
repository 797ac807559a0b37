//! Serves the tools over standard input and output. The client starts this program.

use std::io::IsTerminal;

use antiphon::{prelude::*, seal::SealConfig};

#[tokio::main]
async fn main() -> Result<()> {
    // Standard output carries MCP messages only, so messages for users go to standard error.
    if std::io::stdin().is_terminal() {
        eprintln!("waiting for an MCP client on standard input; in another terminal, try:");
        eprintln!("  antiphon call \"cargo run --quiet\" greet");
    }
    let mut server = new_project::server();
    // With stored keys, a waiting call continues after a restart. `antiphon dev` sets them.
    let keys = std::env::var("ANTIPHON_KEYS").unwrap_or_default();
    if !keys.is_empty() {
        server = server.with_seal(SealConfig::default().with_keys(keys.parse()?));
    }
    server.build()?.serve_stdio().await?;
    Ok(())
}
