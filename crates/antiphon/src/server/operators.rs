//! An HTTP endpoint for whoever operates the server.

use axum::{
    Json, Router,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{BuildError, Server};
use crate::{
    error::{Error, Result},
    task::{RunChanged, Runs, TaskStatus},
};

/// The shortest token that is taken: as many letters as cannot be guessed.
const SHORTEST: usize = 24;

impl Server {
    /// Routes to list, inspect, retry, cancel and purge runs, for whoever brings `token` as a bearer token. Merge them into an
    /// application of your own, best on a port that only operators reach.
    ///
    /// | route | what it does |
    /// |---|---|
    /// | `GET /runs?status=&after=&limit=` | lists runs |
    /// | `GET /runs/{owner}/{id}` | one run, with its timeline; no values |
    /// | `POST /runs/{owner}/{id}/retry` | has it tried again |
    /// | `POST /runs/{owner}/{id}/cancel` | cancels it |
    /// | `DELETE /runs/{owner}/{id}` | removes it, if it has ended |
    ///
    /// ```
    /// # fn example(server: &antiphon::Server, token: &str) -> Result<axum::Router, antiphon::BuildError> {
    /// let admin = axum::Router::new().nest("/admin", server.operators(token)?);
    /// # Ok(admin)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Where the server has no tasks, or the token is shorter than 24 bytes.
    pub fn operators(&self, token: &str) -> Result<Router, BuildError> {
        let refuse = |problem: String| BuildError { problems: vec![problem] };
        let runs = self.runs().ok_or_else(|| {
            refuse(
                "there are no runs to operate: give the server tasks with `ServerBuilder::with_tasks`".into(),
            )
        })?;
        if token.len() < SHORTEST {
            return Err(refuse(format!(
                "an operator's token must have {SHORTEST} bytes or more; make one with `openssl rand -hex 32`"
            )));
        }
        // Digests are compared, so that the time it takes tells nothing of the token.
        let expected: [u8; 32] = Sha256::digest(token).into();
        let guard = middleware::from_fn(move |request: Request, next: Next| async move {
            if admits(&expected, request.headers()) {
                return next.run(request).await;
            }
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, Json(json!({"error": "bring the operator's token"})))
                .into_response()
        });
        Ok(Router::new()
            .route("/runs", get(list))
            .route("/runs/{owner}/{id}", get(inspect).delete(purge))
            .route("/runs/{owner}/{id}/retry", post(retry))
            .route("/runs/{owner}/{id}/cancel", post(cancel))
            .layer(guard)
            .with_state(runs))
    }
}

fn admits(expected: &[u8; 32], headers: &HeaderMap) -> bool {
    let brought = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = brought.and_then(|value| value.strip_prefix("Bearer "));
    token.is_some_and(|token| <[u8; 32]>::from(Sha256::digest(token.trim())) == *expected)
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

async fn retry(State(runs): State<Runs>, name: Name) -> Response {
    changed(runs.retry(&named(name)).await)
}

async fn cancel(State(runs): State<Runs>, name: Name) -> Response {
    changed(runs.cancel(&named(name)).await)
}

async fn purge(State(runs): State<Runs>, name: Name) -> Response {
    match runs.purge(&named(name)).await {
        // It is in a state in which it cannot be.
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
