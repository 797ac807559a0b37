//! What an orchestrator asks a replica: whether it lives, whether it can work, and its figures.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{Server, Shared};

/// How long an answer is good for: probes that come in a crowd ask the stores once.
const FRESH: Duration = Duration::from_secs(1);

/// Returns the figures, as Prometheus reads them.
type Metrics = Arc<dyn Fn() -> String + Send + Sync>;
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What a replica says of itself, for [`Server::health_router`].
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::http::Health;
///
/// # async fn reach_the_database() -> Result<(), std::io::Error> { Ok(()) }
/// let health = Health::default().with_timeout(Duration::from_secs(1)).with_check("database", reach_the_database);
/// ```
#[derive(Clone)]
#[must_use = "it says nothing until a server serves it"]
pub struct Health {
    timeout: Duration,
    checks: Vec<(String, Check)>,
    metrics: Option<Metrics>,
}

impl Default for Health {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(2), checks: Vec::new(), metrics: None }
    }
}

impl Health {
    /// Sets how long each part may take to answer before it counts as gone. Less than the probe's own patience.
    /// Default: 2 seconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a check of your own. While it fails or takes too long, the replica is unready and gets no requests. Check
    /// what this replica lacks, such as a licence or a loaded model. A service that all replicas share takes all of
    /// them out when it fails.
    ///
    /// The check's error goes to the log; the response only says that the check failed.
    pub fn with_check<F, Fut, E>(mut self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        let check: Check = Arc::new(move || {
            let asked = check();
            Box::pin(async move { asked.await.map_err(|error| error.to_string()) })
        });
        self.checks.push((name.into(), check));
        self
    }

    /// Serves these figures at `/metrics`.
    #[cfg(feature = "prometheus")]
    pub fn with_metrics(mut self, metrics: &crate::telemetry::Prometheus) -> Self {
        let metrics = metrics.clone();
        self.metrics = Some(Arc::new(move || metrics.text()));
        self
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks: Vec<_> = self.checks.iter().map(|(name, _)| name).collect();
        f.debug_struct("Health")
            .field("timeout", &self.timeout)
            .field("checks", &checks)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Routes for whoever watches over the process. Merge them into an application of your own, best on a port that only
    /// they reach: nobody is asked who they are.
    ///
    /// | route | what it says |
    /// |---|---|
    /// | `GET /livez` | 200 for as long as the process can answer at all. It asks nobody: a store that is gone is no reason to restart |
    /// | `GET /readyz` | 200 `ready`, or 200 `degraded` if the store or the queue does not answer in time; 503 if one of your own checks fails, or if the server is shutting down |
    /// | `GET /metrics` | the figures, as Prometheus reads them, with [`Health::with_metrics`] |
    ///
    /// All replicas share the store. If its failure made them unready, a failover of some seconds would take all of
    /// them out at once, also for calls that need no store. So the replica reports `degraded` and keeps its place:
    /// calls that need the store fail, the others succeed. Watch `antiphon_queue_depth` and the log for the rest.
    ///
    /// ```
    /// # fn example(server: &antiphon::Server) -> axum::Router {
    /// use antiphon::http::{Health, HttpConfig};
    ///
    /// server.router(HttpConfig::default()).merge(server.health_router(Health::default()))
    /// # }
    /// ```
    pub fn health_router(&self, health: Health) -> Router {
        let metrics = health.metrics.clone();
        let watched = Arc::new(Watched { shared: Arc::clone(&self.shared), health, seen: Mutex::new(None) });
        let router =
            Router::new().route("/livez", get(alive)).route("/readyz", get(ready)).with_state(watched);
        match metrics {
            Some(metrics) => router.route("/metrics", get(async move || figures(metrics()))),
            None => router,
        }
    }
}

async fn alive() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

fn figures(text: String) -> Response {
    let format = [(axum::http::header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (format, text).into_response()
}

struct Watched {
    shared: Arc<Shared>,
    health: Health,
    seen: Mutex<Option<(Instant, Seen)>>,
}

/// What became of each check.
type Seen = BTreeMap<String, &'static str>;

const OK: &str = "ok";

async fn ready(State(watched): State<Arc<Watched>>) -> Response {
    if watched.shared.service.runtime.shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "shutting down"}))).into_response();
    }
    // Only this replica is affected, so the load balancer should send requests to another one.
    if let Some(problem) = watched.shared.service.tasks.as_ref().and_then(|tasks| tasks.problem()) {
        let said = json!({"status": "unready", "problem": problem});
        return (StatusCode::SERVICE_UNAVAILABLE, Json(said)).into_response();
    }
    let pause = watched.shared.service.tasks.as_ref().and_then(|tasks| tasks.pause());
    let seen = watched.look().await;
    let fails = |(name, _): &(String, Check)| seen.get(name).is_some_and(|said| *said != OK);
    let (status, word) = if watched.health.checks.iter().any(fails) {
        (StatusCode::SERVICE_UNAVAILABLE, "unready")
    } else if pause.is_some() || seen.values().any(|said| *said != OK) {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "ready")
    };
    let mut said = json!({"status": word, "checks": seen});
    if let Some(pause) = pause {
        said["problem"] = pause.into();
    }
    (status, Json(said)).into_response()
}

impl Watched {
    /// Who comes while somebody looks waits for what they see.
    async fn look(&self) -> Seen {
        let mut seen = self.seen.lock().await;
        if let Some((at, seen)) = &*seen
            && at.elapsed() < FRESH
        {
            return seen.clone();
        }
        let checks = self.own().into_iter().chain(self.health.checks.clone());
        let asked = checks.map(|(name, check)| async move {
            let said = match tokio::time::timeout(self.health.timeout, check()).await {
                Ok(Ok(())) => OK,
                Ok(Err(error)) => {
                    tracing::warn!(check = name, error, "a health check failed");
                    "failed"
                }
                Err(_) => {
                    tracing::warn!(check = name, "a health check had no answer in time");
                    "timed out"
                }
            };
            (name, said)
        });
        let found: Seen = join_all(asked).await.into_iter().collect();
        *seen = Some((Instant::now(), found.clone()));
        found
    }

    /// The parts that all replicas share. Without the bus the server still answers: see the guide to deploying.
    fn own(&self) -> Vec<(String, Check)> {
        let Some(backend) = &self.shared.service.runtime.backend else { return Vec::new() };
        let store = Arc::clone(&backend.store);
        let mut checks: Vec<(String, Check)> = vec![(
            "store".into(),
            Arc::new(move || {
                let store = Arc::clone(&store);
                Box::pin(async move {
                    store.get("health/ready").await.map(drop).map_err(|error| error.to_string())
                })
            }),
        )];
        if let Some(tasks) = self.shared.service.tasks.clone() {
            checks.push((
                "queue".into(),
                Arc::new(move || {
                    let tasks = Arc::clone(&tasks);
                    Box::pin(async move { tasks.answers().await.map_err(|error| error.to_string()) })
                }),
            ));
        }
        checks
    }
}
