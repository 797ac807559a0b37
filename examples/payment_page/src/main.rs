//! `cargo run -p payment_page`: an MCP server with a payment page, on port 8080.

use antiphon::http::ServeConfig;
use payment_page::{Shop, app};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    let app = app(Shop::new("http://127.0.0.1:8080".parse()?))?;
    antiphon::http::serve(listener, app, ServeConfig::default(), std::future::pending()).await;
    Ok(())
}
