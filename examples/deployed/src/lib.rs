//! A server as it is deployed: what it is told comes from the environment, callers show who they are and take no more than
//! their share, what it tells goes to a log, to a collector of spans and to whoever scrapes it, and when it is asked to end
//! it ends in peace.

mod settings;
mod tools;
mod traces;

use std::{future::Future, time::Duration};

use antiphon::{
    Health, HttpConfig, Limits, Prometheus, Quota, Rate, SealConfig, ServeConfig, Telemetry,
    auth::{ApiKey, Auth},
    sampling::Budget,
};
use antiphon_results::{DualResponseServer, DualResponseServerOptions, SharedStore};
use antiphon_snapshot::Snapshots;
use antiphon_store::{Backend, QueueConfig};
use anyhow::Context as _;
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
    let backend = Backend::connect(&settings.store, "onboarding", QueueConfig::default())
        .await
        .context("STORE_URL names no store that can be reached")?;
    let metrics = Prometheus::new("onboarding")?;
    let auth = auth(&settings)?;
    let results = results(&settings, &backend, auth.as_ref())?;
    let limits = limits(&settings);
    let mut seal = SealConfig::default();
    if let Some(keys) = settings.keys {
        seal = seal.with_keys(keys);
    }
    let mut builder = tools::add(onboarding::server())
        .with_backend(backend)
        .with_seal(seal)
        .with_limits(limits)
        .with_replica(settings.replica)
        .with_telemetry(Telemetry::new(&metrics));
    if let Some(auth) = auth {
        builder = builder.with_auth(auth);
    }
    if let Some(orders) = &settings.orders {
        builder = tools::add_orders(builder, orders);
    }
    if let Some(results) = &results {
        builder = tools::add_results(builder, results.clone());
    }
    let server = builder.build()?;

    // Probes and figures have a port of their own, which no balancer leads to. It is open to the very end.
    let health = server.health(Health::default().with_metrics(&metrics));
    let listener = bind(&settings.health).await?;
    let watched = tokio::spawn(async move { axum::serve(listener, health).await });

    let mut config = HttpConfig::default();
    if !settings.hosts.is_empty() {
        config = config.with_allowed_hosts(settings.hosts);
    }
    let listener = bind(&settings.listen).await?;
    let mut app = server.router(config);
    if let Some(results) = &results {
        app = app.nest("/resources", results.router());
    }
    let ending = server.clone();
    let ends = async move {
        shutdown.await;
        // Open event streams would keep the server from ending for as long as their clients like.
        ending.shut_down();
    };
    antiphon::serve(listener, app, ServeConfig::default(), ends).await;
    // What this process works on for others comes to its end, too; what does not in time goes on elsewhere.
    server.work(std::future::ready(())).await;
    if let Some(results) = results {
        results.shutdown().await?;
    }
    watched.abort();
    Ok(())
}

/// Who may call; nobody is asked where no keys are given out.
fn auth(settings: &Settings) -> anyhow::Result<Option<Auth>> {
    let keys: Vec<_> = settings.api_keys.iter().map(|(who, hash)| ApiKey::hashed(who, hash)).collect();
    if keys.is_empty() {
        return Ok(None);
    }
    Ok(Some(Auth::builder(format!("{}/mcp", settings.public)).with_api_keys(keys).build()?))
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
    let snapshots = Snapshots::open(address).context("SNAPSHOTS_URL names no place for rows")?;
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
