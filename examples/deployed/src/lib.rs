//! A server as it is deployed: what it is told comes from the environment, callers show who they are and take no more than
//! their share, what it tells goes to a log, to a collector of spans and to whoever scrapes it, and when it is asked to end
//! it ends in peace.

mod errands;
mod settings;
mod tools;
mod traces;

use std::{future::Future, time::Duration};

use antiphon::results::{DualResponseServer, DualResponseServerOptions, SharedStore};
use antiphon::snapshot::Snapshots;
use antiphon::store::{Backend, QueueConfig};
use antiphon::transport::{
    sse::{self, SseConfig},
    websocket::{self, WebSocketConfig},
};
use antiphon::{
    Limits, Server,
    auth::{ApiKey, Auth, Introspection},
    http::{Health, HttpConfig, ServeConfig},
    limits::{Quota, Rate},
    sampling::Budget,
    seal::SealConfig,
    task::TaskConfig,
    telemetry::{Prometheus, Telemetry},
};
use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;

pub use self::{settings::Settings, traces::Traces};

/// Serves until `shutdown` ends, and then until what is in hand has come to its end.
///
/// # Errors
///
/// When the store cannot be reached, or an address cannot be listened on.
pub async fn serve(
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let lease = Duration::from_secs(settings.lease);
    let backend = Backend::connect(&settings.store, "onboarding", QueueConfig::default().with_lease(lease))
        .await
        .context("the store of STORE_URL cannot be reached")?;
    let metrics = Prometheus::new("onboarding")?;
    let auth = auth(&settings)?;
    let results = results(&settings, &backend, auth.as_ref())?;
    let limits = limits(&settings);
    let mut seal = SealConfig::default()
        .with_ttl(Duration::from_secs(settings.seal_life))
        .with_skew(Duration::from_secs(settings.seal_skew));
    if let Some(keys) = settings.keys {
        seal = seal.with_keys(keys);
    }
    // A worker reports six times during its lease, so that one late report costs nothing.
    let life = Duration::from_secs(settings.task_life);
    let tasks = TaskConfig::default()
        .with_ttl(life)
        .with_heartbeat_interval(lease / 6)
        .with_workers(settings.workers)
        .with_max_queued(settings.backlog)
        .with_repair_interval(Duration::from_secs(settings.repair_interval))
        .with_audit_interval(Duration::from_secs(settings.audit_interval));
    let drain = Duration::from_secs(settings.drain);
    let mut builder = tools::add(onboarding::server())
        .with_drain(drain)
        .with_tasks(tasks)
        .with_backend(backend)
        .with_seal(seal)
        .with_limits(limits)
        .with_replica(settings.replica.clone())
        .with_telemetry(Telemetry::new(&metrics));
    if let Some(auth) = &auth {
        builder = builder.with_auth(auth.clone());
    }
    if let Some(orders) = &settings.orders {
        builder = tools::add_orders(builder, orders);
    }
    if let Some(ledger) = &settings.effects {
        builder = errands::add(builder, ledger, &settings.replica, settings.issuer.is_some());
    }
    if let Some(results) = &results {
        builder = tools::add_results(builder, results.clone());
    }
    let server = builder.build()?;

    // The port of the clients is open before `/readyz` can say that the server is ready.
    let clients = bind(&settings.listen).await?;
    // Probes and metrics have their own port, which no load balancer leads to. It is open to the very end.
    let mut health = server.health_router(Health::default().with_metrics(&metrics));
    if let Some(token) = &settings.operators {
        health = health.merge(server.operator_router(token)?);
    }
    let listener = bind(&settings.health).await?;
    let watched = tokio::spawn(async move { axum::serve(listener, health).await });

    let mut config = HttpConfig::default();
    let mut sockets = WebSocketConfig::default().with_tasks(true);
    let mut events = SseConfig::default().with_tasks(true);
    if !settings.hosts.is_empty() {
        config = config.with_allowed_hosts(settings.hosts.clone());
        sockets = sockets.with_allowed_hosts(settings.hosts.clone());
        events = events.with_allowed_hosts(settings.hosts);
    }
    let mut app = server.router(config);
    if let Some(results) = &results {
        app = app.nest("/resources", results.router());
    }
    // Other transports than streamable HTTP, behind the same authentication.
    let mut others = Router::new();
    if settings.websocket {
        others = others.merge(over_websocket(server.clone(), sockets));
    }
    if settings.sse {
        others = others.merge(over_sse(server.clone(), events));
    }
    app = app.merge(match &auth {
        Some(auth) => others.layer(auth.layer()),
        None => others,
    });
    // It completes the requests in flight, and returns the jobs of unfinished legs to the queue.
    let serving = ServeConfig::default().with_drain(Duration::from_secs(settings.drain));
    server.serve_router(clients, app, serving, shutdown).await;
    if let Some(results) = results {
        results.shutdown().await?;
    }
    watched.abort();
    Ok(())
}

/// Clients over WebSocket, one connection each.
fn over_websocket(server: Server, config: WebSocketConfig) -> Router {
    websocket::router(config, move |transport| {
        let server = server.clone();
        async move {
            if let Err(error) = server.serve_transport(transport).await {
                tracing::warn!(%error, "a WebSocket connection ended with an error");
            }
        }
    })
}

/// Clients over HTTP+SSE, one session each.
fn over_sse(server: Server, config: SseConfig) -> Router {
    sse::router(config, move |transport| {
        let server = server.clone();
        async move {
            if let Err(error) = server.serve_transport(transport).await {
                tracing::warn!(%error, "an HTTP+SSE session ended with an error");
            }
        }
    })
}

/// Returns how callers authenticate; `None` only if the settings explicitly allow anybody.
fn auth(settings: &Settings) -> anyhow::Result<Option<Auth>> {
    let keys: Vec<_> = settings.api_keys.iter().map(|(who, hash)| ApiKey::hashed(who, hash)).collect();
    if keys.is_empty() && settings.issuer.is_none() {
        anyhow::ensure!(
            settings.anybody,
            "the server has no authentication: set API_KEYS, OAUTH_ISSUER, or ALLOW_ANYBODY=1"
        );
        tracing::warn!("every caller is served without authentication, because ALLOW_ANYBODY is 1");
        return Ok(None);
    }
    let check = Duration::from_secs(settings.token_check);
    let mut auth = Auth::builder(format!("{}/mcp", settings.public)).with_api_keys(keys).with_recheck(check);
    if let (Some(issuer), Some((id, secret))) = (&settings.issuer, &settings.client) {
        let introspection = Introspection::new(issuer, id, secret)
            .with_leeway(Duration::from_secs(settings.seal_skew))
            .with_cache(check);
        auth = auth.with_introspection(introspection);
    }
    Ok(Some(auth.build()?))
}

/// What each caller may take.
fn limits(settings: &Settings) -> Limits {
    let mut limits = Limits::default().with_queue(100, Duration::from_millis(500));
    if let Some(rate) = settings.rate {
        limits =
            limits.with_principal(Quota::default().with_rate(Rate::per_second(rate).with_burst(rate * 3)));
    }
    if let Some(tokens) = settings.tokens {
        limits = limits.with_model(Budget::per(Duration::from_mins(1)).with_max_tokens(tokens));
    }
    limits
}

/// Where result sets are: known to all replicas, and to their owners alone.
fn results(
    settings: &Settings,
    backend: &Backend,
    auth: Option<&Auth>,
) -> anyhow::Result<Option<DualResponseServer>> {
    let Some(address) = &settings.snapshots else { return Ok(None) };
    let snapshots = Snapshots::open(address).context("SNAPSHOTS_URL cannot be used")?;
    let mut options = DualResponseServerOptions::new(format!("{}/resources", settings.public))
        .with_store(SharedStore::new(backend.clone()))
        .with_snapshots(snapshots);
    if let Some(auth) = auth {
        options = options.with_authenticate(auth.clone());
    }
    Ok(Some(DualResponseServer::new(options)?))
}

async fn bind(address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    Ok(listener)
}
