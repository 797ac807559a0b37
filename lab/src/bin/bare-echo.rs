//! An echo tool on the bare SDK, with a router that is built once: what Antiphon is measured against.

use std::sync::{Arc, LazyLock};

use axum::serve::ListenerExt as _;
use rmcp::{
    ErrorData, ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

// ANCHOR: tool
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say again.
    text: String,
}

#[derive(Clone)]
struct Bare;

static ROUTER: LazyLock<ToolRouter<Bare>> = LazyLock::new(Bare::tool_router);

#[tool_router]
impl Bare {
    #[tool(description = "Says it again")]
    async fn echo(&self, Parameters(args): Parameters<Echo>) -> Result<String, ErrorData> {
        Ok(args.text)
    }
}

#[tool_handler(router = ROUTER)]
impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}
// ANCHOR_END: tool

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    config.json_response = true;
    let service = StreamableHttpService::new(|| Ok(Bare), Arc::new(LocalSessionManager::default()), config);
    let listener = TcpListener::bind(lab::programs::address()?).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
