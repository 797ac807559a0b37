//! An echo tool on Antiphon, over every transport: `--stdio`, or all the others at `--http ADDRESS`.

use antiphon::{http::HttpConfig, prelude::*};
use antiphon_transport::{
    sse::{self, SseConfig},
    websocket::{self, WebSocketConfig},
};

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
    let server = Server::builder("echo", "1.0.0").tool(Tool::new("echo", "Says it again", echo)).build()?;
    if lab::programs::is_asked("--stdio") {
        return Ok(server.serve_stdio().await?);
    }
    // A client that goes is how every measurement ends, so how serving it ended says nothing.
    let (over_websocket, over_sse) = (server.clone(), server.clone());
    let websocket = websocket::router(WebSocketConfig::default(), move |transport| {
        let server = over_websocket.clone();
        async move { drop(server.serve_transport(transport).await) }
    });
    let sse = sse::router(SseConfig::default(), move |transport| {
        let server = over_sse.clone();
        async move { drop(server.serve_transport(transport).await) }
    });
    let router = server
        .router(HttpConfig::default().with_sessions(false))
        .merge(server.router(HttpConfig::default().with_path("/session")))
        .merge(websocket)
        .merge(sse);
    lab::programs::serve(router).await
}
