//! Serves the tools over HTTP, at `/mcp`.
//!
//! Environment variables:
//! - `ADDRESS`: the address to listen on. Default: `127.0.0.1:8000`.
//! - `HOSTS`: the host names that clients use, such as `mcp.example.com`, separated by commas. Default: this machine only.
//! - `ANTIPHON_KEYS`: the encryption keys. With them, a waiting call continues after a restart. `antiphon dev` sets them.

use antiphon::{
    http::{HttpConfig, shutdown_signal},
    prelude::*,
    seal::SealConfig,
};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8000".into());
    let mut config = HttpConfig::default();
    // Without allowed hosts the server rejects all names but those of this machine, because of DNS rebinding.
    if let Ok(hosts) = std::env::var("HOSTS") {
        config = config.with_allowed_hosts(hosts.split(','));
    }
    let mut server = new_project::server();
    let keys = std::env::var("ANTIPHON_KEYS").unwrap_or_default();
    if !keys.is_empty() {
        server = server.with_seal(SealConfig::default().with_keys(keys.parse()?));
    }
    let server: Server = server.build()?;
    let listener = TcpListener::bind(&address).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    let shutdown = shutdown_signal();
    server.serve_listener(listener, config, shutdown).await?;
    Ok(())
}
