use axum::Router;

// ANCHOR: metrics
use antiphon::{
    ServerBuilder,
    http::Health,
    prelude::*,
    telemetry::{Prometheus, Telemetry},
};

fn counted(trips: ServerBuilder) -> Result<(Server, Router)> {
    let metrics = Prometheus::new("trips")?;
    let server = trips.with_telemetry(Telemetry::new(&metrics)).build()?;
    let watched = server.health_router(Health::default().with_metrics(&metrics)); // /livez, /readyz, /metrics
    Ok((server, watched))
}
// ANCHOR_END: metrics
