use antiphon::store::Backend;
use antiphon::{
    ServerBuilder,
    http::{Health, HttpConfig, ServeConfig, shutdown_signal},
    prelude::*,
    seal::{KeyRing, SealConfig},
    telemetry::Prometheus,
};
use axum::Router;
use tokio::net::TcpListener;

// ANCHOR: seal
fn trips() -> Result<ServerBuilder> {
    let keys: KeyRing = std::env::var("SEAL_KEYS")?.parse()?; // `1=<64 hex digits>`
    let seal = SealConfig::default().with_keys(keys);
    Ok(Server::builder("trips", "1.0.0").with_seal(seal))
}
// ANCHOR_END: seal

// ANCHOR: backend
fn with_sessions_on_all_replicas(trips: ServerBuilder, backend: Backend) -> ServerBuilder {
    trips.with_backend(backend)
}
// ANCHOR_END: backend

// ANCHOR: health
fn probes(server: &Server, metrics: &Prometheus) -> Router {
    server.health_router(Health::default().with_metrics(metrics))
}
// ANCHOR_END: health

// ANCHOR: drain
async fn serve(server: Server, rows: Router, listener: TcpListener) {
    let app = server.router(HttpConfig::default()).nest("/resources", rows);
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
}
// ANCHOR_END: drain

// ANCHOR: hosts
fn on_the_internet() -> HttpConfig {
    HttpConfig::default()
        .with_allowed_hosts(["mcp.example.com"])
        .with_allowed_origins(["https://app.example.com:443"])
}
// ANCHOR_END: hosts

// ANCHOR: principal
/// A value that your middleware adds to the request.
#[derive(Clone)]
struct User {
    id: String,
}

fn known(trips: ServerBuilder) -> ServerBuilder {
    trips.with_principal(|parts| parts.extensions.get::<User>().map(|user| user.id.clone()))
}
// ANCHOR_END: principal
