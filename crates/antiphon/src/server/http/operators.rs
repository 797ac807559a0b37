//! The HTTP routes for operators.

use std::{convert::Infallible, fmt, sync::Arc};

use antiphon_http::MIN_SECRET_BYTES;
use antiphon_transport::{
    guard::{Guard, loopback_hosts},
    identity::Identity,
};
use axum::{
    Json, Router,
    extract::{FromRequestParts, Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Server;
use crate::{
    error::{BuildError, Error, Result},
    task::{RunChanged, Runs, TaskStatus},
};

/// The configuration of the operator routes. The configuration determines which callers can use the operator routes,
/// and which host names the routes accept.
#[derive(Clone)]
pub struct OperatorConfig {
    protect: Protect,
    allowed_hosts: Vec<String>,
}

/// A function that adds the authentication of operators to the operator routes.
type Protect = Arc<dyn Fn(&Server, Router) -> Result<Router, BuildError> + Send + Sync>;

impl OperatorConfig {
    /// Creates a configuration that allows callers who send the bearer token `token`. The token must have at least 24
    /// bytes. The operator routes accept only requests to loopback hosts, unless you set other hosts with
    /// [`with_allowed_hosts`](Self::with_allowed_hosts).
    pub fn new(token: impl Into<String>) -> Self {
        let token = token.into();
        Self::protected(move |_, routes| with_token(routes, &token))
    }

    /// Creates a configuration in which `protect` adds the authentication of operators. The operator routes accept only
    /// requests to loopback hosts.
    pub(super) fn protected(
        protect: impl Fn(&Server, Router) -> Result<Router, BuildError> + Send + Sync + 'static,
    ) -> Self {
        Self { protect: Arc::new(protect), allowed_hosts: loopback_hosts() }
    }

    /// Sets the accepted `Host` headers. The check of `Host` headers prevents DNS rebinding. In a DNS rebinding attack,
    /// a web page points its own host name to your server and then sends requests to the routes. An empty list means
    /// that all hosts are accepted. Default: the loopback hosts.
    #[must_use]
    pub fn with_allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }
}

impl From<&str> for OperatorConfig {
    fn from(token: &str) -> Self {
        Self::new(token)
    }
}

impl From<String> for OperatorConfig {
    fn from(token: String) -> Self {
        Self::new(token)
    }
}

impl From<&String> for OperatorConfig {
    fn from(token: &String) -> Self {
        Self::new(token)
    }
}

impl fmt::Debug for OperatorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorConfig").field("allowed_hosts", &self.allowed_hosts).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns HTTP routes for operators, to list, inspect, retry, cancel and purge runs. Merge the operator routes
    /// into your application, preferably on a port that only operators can reach.
    ///
    /// | route | effect |
    /// |---|---|
    /// | `GET /runs?status=&after=&limit=` | lists runs |
    /// | `GET /runs/{owner}/{id}` | returns a run and its timeline, without recorded values |
    /// | `POST /runs/{owner}/{id}/retry` | retries the run |
    /// | `POST /runs/{owner}/{id}/cancel` | cancels the run |
    /// | `DELETE /runs/{owner}/{id}` | removes the run, if the run has ended |
    ///
    /// The server logs each retry, cancellation and purge under the target `antiphon::audit`. Each log entry contains
    /// the action, the run, the result and the operator. The operator is a principal, or the first digits of the
    /// SHA-256 digest of the bearer token.
    ///
    /// The operator routes accept only loopback host names, unless you allow other host names. The operator routes
    /// reject requests from web pages:
    ///
    /// ```
    /// # fn example(server: &antiphon::Server, token: &str) -> Result<axum::Router, antiphon::BuildError> {
    /// use antiphon::http::OperatorConfig;
    ///
    /// let config = OperatorConfig::new(token).with_allowed_hosts(["ops.internal:9000"]);
    /// let admin = axum::Router::new().nest("/admin", server.operator_router(config)?);
    /// # Ok(admin)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the server has no tasks, or if the bearer token is shorter than 24 bytes. Returns an error
    /// if the configuration contains an invalid scope. Returns an error if the configuration contains a scope, but the
    /// server has no `Auth`.
    pub fn operator_router(&self, config: impl Into<OperatorConfig>) -> Result<Router, BuildError> {
        let OperatorConfig { protect, allowed_hosts } = config.into();
        let routes = protect(self, self.operator_routes()?)?;
        let door = Guard::new(&allowed_hosts, &[]);
        let door = middleware::from_fn(move |request: Request, next: Next| {
            let door = door.clone();
            async move {
                let (parts, body) = request.into_parts();
                match door.admit(&parts) {
                    Ok(()) => next.run(Request::from_parts(parts, body)).await,
                    Err((status, why)) => (status, Json(json!({"error": why}))).into_response(),
                }
            }
        });
        Ok(routes.layer(door))
    }

    fn operator_routes(&self) -> Result<Router, BuildError> {
        let runs = self.runs().ok_or_else(|| {
            refuse(
                "this server has no tasks, so it has no runs to operate; add tasks with `ServerBuilder::with_tasks`".into(),
            )
        })?;
        Ok(Router::new()
            .route("/runs", get(list))
            .route("/runs/{owner}/{id}", get(inspect).delete(purge))
            .route("/runs/{owner}/{id}/retry", post(retry))
            .route("/runs/{owner}/{id}/cancel", post(cancel))
            .with_state(runs))
    }
}

pub(super) fn refuse(problem: String) -> BuildError {
    BuildError { problems: vec![problem] }
}

fn with_token(routes: Router, token: &str) -> Result<Router, BuildError> {
    if token.len() < MIN_SECRET_BYTES {
        return Err(refuse(format!(
            "the operator token is shorter than {MIN_SECRET_BYTES} bytes; create one with `openssl rand -hex 32`"
        )));
    }
    let expected: [u8; 32] = Sha256::digest(token).into();
    // A token does not contain the name of the operator. So the audit log contains the first digits of the token's
    // digest, which distinguish several tokens.
    let digits = u32::from_be_bytes([expected[0], expected[1], expected[2], expected[3]]);
    let operator = Operator(format!("token {digits:08x}"));
    Ok(routes.layer(middleware::from_fn(move |mut request: Request, next: Next| {
        let operator = operator.clone();
        async move {
            if admits(&expected, request.headers()) {
                request.extensions_mut().insert(operator);
                return next.run(request).await;
            }
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            let body = Json(json!({"error": "the operator token is missing or wrong; send it as `Authorization: Bearer <token>`"}));
            (StatusCode::UNAUTHORIZED, challenge, body).into_response()
        }
    })))
}
fn admits(expected: &[u8; 32], headers: &HeaderMap) -> bool {
    let brought = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = brought.and_then(|value| value.strip_prefix("Bearer "));
    // The digests have equal length, and `same` compares the digests in constant time.
    token.is_some_and(|token| same(&<[u8; 32]>::from(Sha256::digest(token.trim())), expected))
}

/// Returns whether two digests are equal, in constant time.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other));
    // `black_box` prevents an optimization that ends the loop at the first different byte.
    std::hint::black_box(differs) == 0
}

/// The name of the operator, for the audit log.
#[derive(Clone, Debug)]
struct Operator(String);

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        if let Some(operator) = parts.extensions.get::<Self>() {
            return Ok(operator.clone());
        }
        if let Some(identity) = parts.extensions.get::<Identity>() {
            return Ok(Self(identity.principal().to_owned()));
        }
        Ok(Self("unknown".into()))
    }
}

impl Operator {
    /// Logs the action, the run, the operator and the result. The log entry does not contain recorded values of the
    /// run.
    fn audit<T: serde::Serialize>(&self, action: &'static str, run: &str, result: &Result<T>) {
        let operator = &*self.0;
        match result {
            Ok(changed) => {
                let result = serde_json::to_string(changed).unwrap_or_default();
                tracing::info!(target: "antiphon::audit", operator, action, run, result, "operator request");
            }
            Err(error) => {
                tracing::warn!(target: "antiphon::audit", operator, action, run, %error, "operator request failed");
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Page {
    status: Option<TaskStatus>,
    after: Option<String>,
    #[serde(default = "hundred")]
    limit: usize,
}

fn hundred() -> usize {
    100
}

type Name = Path<(String, String)>;

fn named(Path((owner, id)): Name) -> String {
    format!("{owner}/{id}")
}

async fn list(State(runs): State<Runs>, Query(page): Query<Page>) -> Response {
    match runs.list(page.status, page.after.as_deref(), page.limit).await {
        Ok(page) => Json(page).into_response(),
        Err(error) => failed(&error),
    }
}

async fn inspect(State(runs): State<Runs>, name: Name) -> Response {
    match runs.inspect(&named(name)).await {
        Ok(Some(report)) => Json(report).into_response(),
        Ok(None) => unknown(),
        Err(error) => failed(&error),
    }
}

async fn retry(State(runs): State<Runs>, operator: Operator, name: Name) -> Response {
    let run = named(name);
    let result = runs.retry(&run).await;
    operator.audit("retry", &run, &result);
    changed(result)
}

async fn cancel(State(runs): State<Runs>, operator: Operator, name: Name) -> Response {
    let run = named(name);
    let result = runs.cancel(&run).await;
    operator.audit("cancel", &run, &result);
    changed(result)
}

async fn purge(State(runs): State<Runs>, operator: Operator, name: Name) -> Response {
    let run = named(name);
    let result = runs.purge(&run).await;
    operator.audit("purge", &run, &result);
    match result {
        // The run has not ended, so the operator cannot purge it.
        Err(error) if matches!(error.kind(), crate::ErrorKind::Tool(_)) => {
            (StatusCode::CONFLICT, Json(json!({"error": error.to_string()}))).into_response()
        }
        result => changed(result),
    }
}

fn changed(result: Result<RunChanged>) -> Response {
    match result {
        Ok(RunChanged::Unknown) => unknown(),
        Ok(changed) => Json(json!({"result": changed})).into_response(),
        Err(error) => failed(&error),
    }
}

fn unknown() -> Response {
    (StatusCode::NOT_FOUND, Json(json!({"error": "there is no such run"}))).into_response()
}

fn failed(error: &Error) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"error": error.to_string()}))).into_response()
}
