//! The help desk as it goes to work: on the network, several times, for callers it knows, within bounds, in sight.
#![expect(clippy::print_stderr, reason = "whoever starts it wants to know where it is")]

// ANCHOR: program
use std::time::Duration;

use antiphon::store::{Backend, QueueConfig};
use antiphon::{
    Limits,
    auth::{ApiKey, Auth, Issuer},
    http::{Health, HttpConfig, ServeConfig, shutdown_signal},
    limits::{Quota, Rate},
    prelude::*,
    seal::SealConfig,
    task::TaskConfig,
    telemetry::{Prometheus, Telemetry},
};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Problem {
    /// The problem, in one sentence.
    problem: String,
}

#[derive(Deserialize, JsonSchema)]
struct Urgency {
    /// Does it keep you from working?
    urgent: bool,
}

async fn file_ticket(ctx: &Ctx, Problem { problem }: Problem) -> Result<String> {
    let Urgency { urgent } = ctx.elicit("How bad is it?").await?.accepted()?;
    let when = if urgent { "today" } else { "this week" };
    Ok(format!("{problem}: we call {} back {when}.", ctx.principal().unwrap_or("you")))
}

/// Reads a required environment variable.
fn setting(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| Error::tool(format!("{name} is not set")))
}

#[tokio::main]
async fn main() -> Result<()> {
    let public = setting("PUBLIC_URL")?; // the public URL: https://desk.example.com/mcp
    let mut auth = Auth::builder(&public).with_scopes(["desk"]);
    if let Ok(hash) = std::env::var("NIGHTLY_KEY_SHA256") {
        auth = auth.with_api_keys([ApiKey::hashed("nightly", &hash).with_scopes(["desk"])]);
    }
    if let Ok(issuer) = std::env::var("ISSUER") {
        auth = auth.with_issuer(Issuer::new(issuer));
    }

    let each_caller = Quota::default().with_rate(Rate::per_second(20).with_burst(50)).with_concurrent(16);
    let metrics = Prometheus::new("desk")?;
    let backend = Backend::connect(&setting("STORE_URL")?, "desk", QueueConfig::default()).await?;
    let server = Server::builder("desk", env!("CARGO_PKG_VERSION"))
        .with_auth(auth.build()?)
        .with_backend(backend)
        .with_seal(SealConfig::default().with_keys(setting("SEAL_KEYS")?.parse()?))
        .with_tasks(TaskConfig::default())
        .with_limits(
            Limits::default().with_principal(each_caller).with_queue(100, Duration::from_millis(500)),
        )
        .with_telemetry(Telemetry::new(&metrics))
        .tool(Tool::new("file_ticket", "Files a ticket", file_ticket))
        .build()?;

    // Probes and metrics have a separate port, because they do not authenticate callers.
    let watched = server.health_router(Health::default().with_metrics(&metrics));
    let inside = TcpListener::bind(setting("HEALTH_ADDRESS")?).await?;
    tokio::spawn(antiphon::http::serve(inside, watched, ServeConfig::default(), std::future::pending()));

    let mut config = HttpConfig::default();
    if let Ok(hosts) = std::env::var("ALLOWED_HOSTS") {
        config = config.with_allowed_hosts(hosts.split(','));
    }
    let listener = TcpListener::bind(setting("ADDRESS")?).await?;
    eprintln!("{public} is served on {}", listener.local_addr()?);
    // On SIGTERM the server completes calls in flight. Other replicas continue unfinished tasks.
    server.serve_listener(listener, config, shutdown_signal()).await?;
    Ok(())
}
// ANCHOR_END: program
