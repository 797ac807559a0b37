use antiphon::results::{DualResponseServerOptions, Owner, client::FetchAllOptions};
use antiphon_host::{Connection, Endpoint, Host};
use axum::Router;
use serde_json::json;

// ANCHOR: routes
use antiphon::{
    http::{HttpConfig, ServeConfig, shutdown_signal},
    prelude::*,
    results::DualResponseServer,
};
use tokio::net::TcpListener;

async fn serve(server: Server, results: DualResponseServer, listener: TcpListener) -> Result<()> {
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
    results.shutdown().await?;
    Ok(())
}
// ANCHOR_END: routes

// ANCHOR: stdio
async fn serve_stdio(server: Server, results: DualResponseServer, listener: TcpListener) -> Result<()> {
    let rows = Router::new().nest("/resources", results.router());
    tokio::spawn(antiphon::http::serve(listener, rows, ServeConfig::default(), std::future::pending()));
    server.serve_stdio().await?;
    Ok(())
}
// ANCHOR_END: stdio

// ANCHOR: owner
/// A value that your middleware adds to the request.
#[derive(Clone)]
struct Caller {
    subject: String,
    organisation: String,
}

fn owned(options: DualResponseServerOptions) -> DualResponseServerOptions {
    options.with_authenticate(|parts: &http::request::Parts| {
        let caller = parts.extensions.get::<Caller>()?;
        Some(Owner::principal(&caller.subject).with_tenant(&caller.organisation))
    })
}
// ANCHOR_END: owner

fn bar(_: u64, _: u64) {}

// ANCHOR: fetch
async fn every_row(host: &Host) -> antiphon::Result<usize> {
    let server: Connection = host.connect(Endpoint::http("https://api.example.com/mcp")).await?;
    let result = server.call("search_institutions", json!({"state": "NJ"})).await?;
    let Some(set) = server.dual_response(&result) else { return Ok(0) };
    let rows = set.fetch_all(FetchAllOptions::new().with_progress(bar)).await?;
    Ok(rows.len())
}
// ANCHOR_END: fetch
