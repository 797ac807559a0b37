//! An echo tool on Antiphon, set up like `bare-echo`.

use antiphon::{HttpConfig, prelude::*};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say again.
    text: String,
}

async fn echo(_: &Ctx, args: Echo) -> Result<String> {
    Ok(args.text)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = antiphon_bench::address()?;
    let server = Server::builder("echo", "1.0.0").tool(Tool::new("echo", "Says it again", echo)).build()?;
    let config = HttpConfig::default().with_sessions(false).with_json_response(true);
    let listener = TcpListener::bind(address).await?;
    Ok(server.serve_listener(listener, config, std::future::pending()).await?)
}
