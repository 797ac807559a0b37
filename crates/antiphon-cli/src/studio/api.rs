//! The HTTP API of the web page.

use std::{convert::Infallible, sync::Arc, time::Duration};

use antiphon_transport::weight::{MAX_PARSED_BYTES, Weight};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, FromRequest, Path, State, rejection::JsonRejection},
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use futures_util::Stream;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{asks::Answer, assets, guard::Guard, refusal::Refusal, session::Wanted, sessions::Sessions};

/// The maximum size of a request body, in bytes.
const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// The interval of keep-alive messages, so that an idle stream is not closed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Shared = State<Arc<Sessions>>;

/// Creates the router of the web page and its API.
pub(super) fn router(sessions: Arc<Sessions>, guard: &Guard) -> Router {
    let api = Router::new()
        .route("/api/servers", get(servers))
        .route("/api/connect", post(connect))
        .route("/api/session/{id}", get(session).delete(close))
        .route("/api/session/{id}/events", get(events))
        .route("/api/session/{id}/traffic", get(traffic))
        .route("/api/session/{id}/prompts", get(prompts))
        .route("/api/session/{id}/prompt", post(prompt))
        .route("/api/session/{id}/resources", get(resources))
        .route("/api/session/{id}/resource", post(resource))
        .route("/api/session/{id}/call", post(call))
        .route("/api/call/{id}/cancel", post(cancel))
        .route("/api/call/{id}/viewer", post(viewer))
        .route("/api/ask/{id}", post(answer))
        .fallback(|| async { Refusal::unknown("page") })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(sessions);
    guard.around(assets::router(), api)
}

/// A JSON request body. If the body is invalid, the error response is also JSON.
struct Body<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, LARGEST_BODY).await.map_err(|_| {
            let why = format!("the request is too large: it has more than {LARGEST_BODY} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        })?;
        // Check the weight before parsing, because two bytes of JSON can become hundreds of bytes in memory.
        Weight::of(&bytes)
            .check(MAX_PARSED_BYTES)
            .map_err(|error| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
        let request = axum::extract::Request::from_parts(parts, bytes.into());
        let read: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        Ok(read.map(|Json(body)| Self(body))?)
    }
}

async fn servers(State(sessions): Shared) -> Json<Value> {
    Json(sessions.known())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Connect {
    server: String,
    #[serde(default)]
    revision: Option<String>,
}

async fn connect(State(sessions): Shared, Body(wanted): Body<Connect>) -> Result<Json<Value>, Refusal> {
    let session = sessions.connect(&wanted.server, wanted.revision.as_deref()).await?;
    match session.describe().await {
        Ok(described) => Ok(Json(described)),
        Err(error) => {
            // The web page did not receive the ID of the session, so the web page could not close this session.
            sessions.remove(&session.id)?.close().await;
            Err(error.into())
        }
    }
}

async fn session(State(sessions): Shared, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    Ok(Json(sessions.find(&id)?.describe().await?))
}

async fn close(State(sessions): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    sessions.remove(&id)?.close().await;
    Ok(StatusCode::NO_CONTENT)
}

async fn events(
    State(sessions): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let session = sessions.find(&id)?;
    let events = session.feed.listen(last_event(&headers));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// Sends the JSON-RPC messages of the connection, and the lines of its program's standard error.
async fn traffic(
    State(sessions): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let session = sessions.find(&id)?;
    let events = session.traffic.listen(last_event(&headers));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn last_event(headers: &HeaderMap) -> u64 {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    last.unwrap_or(0)
}

async fn prompts(State(sessions): Shared, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    Ok(Json(sessions.find(&id)?.prompts().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompt {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

async fn prompt(
    State(sessions): Shared,
    Path(id): Path<String>,
    Body(wanted): Body<Prompt>,
) -> Result<Json<Value>, Refusal> {
    let session = sessions.find(&id)?;
    let got = session.connection.prompt(&wanted.name, Value::Object(wanted.arguments)).await;
    Ok(Json(json!(got.map_err(anyhow::Error::from)?)))
}

async fn resources(State(sessions): Shared, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    Ok(Json(sessions.find(&id)?.resources().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    uri: String,
}

async fn resource(
    State(sessions): Shared,
    Path(id): Path<String>,
    Body(wanted): Body<Resource>,
) -> Result<Json<Value>, Refusal> {
    let read = sessions.find(&id)?.connection.read(&wanted.uri).await;
    Ok(Json(json!(read.map_err(anyhow::Error::from)?)))
}

async fn call(
    State(sessions): Shared,
    Path(id): Path<String>,
    Body(wanted): Body<Wanted>,
) -> Result<Response, Refusal> {
    let call = sessions.find(&id)?.begin(wanted)?;
    Ok((StatusCode::ACCEPTED, Json(json!({"call": call}))).into_response())
}

async fn cancel(State(sessions): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    let session = sessions.of(&id)?;
    session.cancel(&id).then_some(StatusCode::ACCEPTED).ok_or_else(|| Refusal::unknown("call"))
}

/// Returns the URL that shows the result set of a call. The URL contains a signed link that gives access to the result
/// set, so a browser must not store the response.
async fn viewer(State(sessions): Shared, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    let url = sessions.of(&id)?.viewer.open(&id).await?;
    Ok(Json(json!({"url": url.as_str()})))
}

async fn answer(
    State(sessions): Shared,
    Path(id): Path<String>,
    Body(answer): Body<Answer>,
) -> Result<StatusCode, Refusal> {
    let session = sessions.of(&id)?;
    let taken = session.asks.answer(&id, answer);
    taken.then_some(StatusCode::NO_CONTENT).ok_or_else(|| Refusal::unknown("question"))
}
