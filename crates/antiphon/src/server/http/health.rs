//! Health routes for orchestrators and monitoring: liveness, readiness and metrics.

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

/// How long the results of the checks are cached. While the results are cached, further probes do not run the checks
/// again.
const FRESH: Duration = Duration::from_secs(1);

/// A function that returns the metrics in Prometheus format.
type Metrics = Arc<dyn Fn() -> String + Send + Sync>;
type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The configuration of the health checks, for [`Server::health_router`].
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
#[must_use = "a `Health` does nothing until a server serves it"]
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
    /// Sets the maximum duration of each check. If a check takes longer than this duration, the check fails. Choose a
    /// shorter duration than the timeout of the orchestrator's probe. Default: 2 seconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a health check. If the check fails or times out, `/readyz` returns status 503, so that the replica receives
    /// no requests. Add only checks for requirements of this one replica, such as a licence or a loaded model. If you
    /// check a service that all replicas share, a failure of this service takes all replicas out of the load balancer.
    ///
    /// If the check fails, the server logs the error. The HTTP response contains only the name and the status of the
    /// check, without the error.
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

    /// Adds the route `/metrics`, which returns the metrics of this Prometheus meter provider.
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
    /// Returns HTTP routes for orchestrators and monitoring, which report the health of the server. The health routes
    /// do not authenticate callers. So serve these routes on a separate internal port if possible.
    ///
    /// - `GET /livez`: returns 200 while the process can respond. The route `/livez` does not check the store, because
    ///   a store outage is not a reason to restart the process.
    /// - `GET /readyz`: returns 200 with `ready` or `degraded`, or returns 503. The route returns `degraded` if the
    ///   store or the queue fails or times out, or if task records cannot be decrypted. The route returns 503 if one of
    ///   your checks fails, or if the server is shutting down. The route also returns 503 while the replica's key ring
    ///   does not match the key rings of the other replicas.
    /// - `GET /metrics`: returns the metrics in Prometheus format, if you set [`Health::with_metrics`].
    ///
    /// All replicas share the store. If `/readyz` returned 503 when the store fails, even a short failover would stop
    /// all traffic, including calls that need no store. So if the store fails, `/readyz` returns 200 with `degraded`,
    /// and the replica still receives requests. While the store is not available, calls that need the store fail, and
    /// other calls succeed. To detect failures of the store, monitor `antiphon_queue_depth` and the log.
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

/// A map from the name of each check to the result of this check.
type Seen = BTreeMap<String, &'static str>;

const OK: &str = "ok";

async fn ready(State(watched): State<Arc<Watched>>) -> Response {
    if watched.shared.service.runtime.shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "shutting down"}))).into_response();
    }
    // Problems of the key ring affect only this replica, so the load balancer should send requests to another replica.
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
    /// Runs all checks and returns the results. Concurrent callers share one run of the checks.
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
                    tracing::warn!(check = name, "a health check timed out");
                    "timed out"
                }
            };
            (name, said)
        });
        let found: Seen = join_all(asked).await.into_iter().collect();
        *seen = Some((Instant::now(), found.clone()));
        found
    }

    /// Returns the checks of the store and the queue, which all replicas share. This method does not check the bus,
    /// because a server without a working bus can still respond. See the deployment guide.
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
