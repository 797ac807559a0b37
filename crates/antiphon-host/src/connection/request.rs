//! One request and its response.

use std::{fmt, sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{CancelledNotificationParam, ClientRequest, RequestId},
    service::{Peer, PeerRequestOptions, ServiceError},
};
#[cfg(feature = "proxy")]
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Inner, is_modern};
use crate::{
    answering::token,
    error::{Error, Result},
    event::{Event, Listening, Progress, Round},
};

/// Options of a request.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    pub(crate) rounds: Option<Arc<dyn Fn(Round) + Send + Sync>>,
    pub(crate) log_level: Option<String>,
    /// Whether to wait for the response without a timeout.
    pub(crate) patient: bool,
    /// The capabilities that a 2026-07-28 request declares instead of the host's capabilities.
    #[cfg(feature = "proxy")]
    pub(crate) capabilities: Option<Value>,
}

/// The response of a server.
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// The registration of the progress listener. If the response is a task, the listener stays registered after the
    /// response.
    pub(crate) listening: Listening,
}

/// Sends one request and waits for its response.
pub(super) async fn request(
    peer: &Peer<RoleClient>,
    method: &str,
    mut params: Value,
    options: &Options,
    inner: &Inner,
) -> Result<Answer> {
    let told = inner.answering.telling.request(official(method), &mut params);
    let answer = told.within(exchange(peer, method, params, options, inner)).await;
    told.ended(answer.as_ref().map(|answer| &answer.value));
    answer
}

async fn exchange(
    peer: &Peer<RoleClient>,
    method: &str,
    mut params: Value,
    options: &Options,
    inner: &Inner,
) -> Result<Answer> {
    if let Some(level) = options.log_level.as_ref().filter(|_| is_modern(peer)) {
        params["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
    }
    let named = || official(method).to_owned();
    let malformed = |problem: &dyn fmt::Display| Error::Malformed {
        method: official(method).to_owned(),
        problem: problem.to_string(),
    };
    let typed: ClientRequest =
        serde_json::from_value(json!({"method": method, "params": params})).map_err(|error| {
            Error::Misuse(format!("the parameters of `{}` are not valid: {error}", official(method)))
        })?;
    let timeout = options.timeout.or(inner.limits.timeout).filter(|_| !options.patient);
    let sent = match timeout {
        Some(timeout) => PeerRequestOptions::with_timeout(timeout),
        None => PeerRequestOptions::no_options(),
    };
    #[cfg(feature = "proxy")]
    let sent = declaring(sent, options.capabilities.as_ref().filter(|_| is_modern(peer)));
    // A program that prints text to its standard output can make its own response unreadable. Lines from before the
    // request, such as a banner, cannot be the cause.
    let strays = inner.answering.events.strays();
    let lines = strays.lines();
    let stray = || strays.since(lines);
    let lost = || Error::Lost { method: named(), stray: stray() };
    let failed = |error: ServiceError| match error {
        ServiceError::McpError(error) => {
            Error::Server { code: error.code.0, message: error.message.into_owned(), data: error.data }
        }
        ServiceError::Timeout { timeout } => {
            Error::Timeout { method: named(), after: timeout, stray: stray() }
        }
        #[cfg(feature = "http")]
        ServiceError::TransportSend(error) => inner.endpoint.refused(&error).unwrap_or_else(lost),
        #[cfg(not(feature = "http"))]
        ServiceError::TransportSend(_) => lost(),
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => lost(),
        error => malformed(&error),
    };
    let handle = peer.send_cancellable_request(typed, sent).await.map_err(failed)?;
    // Without a listener for this call, the host reports progress as an event.
    let events = inner.answering.events.clone();
    let listener = options
        .progress
        .clone()
        .unwrap_or_else(|| Arc::new(move |progress| events.tell(Event::Progress(progress))));
    let listening = inner.answering.events.listen(token(&handle.progress_token), &listener);
    let mut abandoned = Abandoned { peer: peer.clone(), id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    abandoned.id = None;
    let value = serde_json::to_value(answer.map_err(failed)?).map_err(|error| malformed(&error))?;
    Ok(Answer { value, listening })
}

/// Sets the capabilities that a 2026-07-28 request declares.
#[cfg(feature = "proxy")]
fn declaring(mut options: PeerRequestOptions, capabilities: Option<&Value>) -> PeerRequestOptions {
    if let Some(Ok(capabilities)) = capabilities.map(rmcp::model::ClientCapabilities::deserialize) {
        let mut meta = rmcp::model::RequestMetaObject::default();
        meta.set_client_capabilities(capabilities);
        options.meta = Some(meta);
    }
    options
}

/// Returns the MCP name of a method. Some methods have a different internal name, because the SDK would handle the MCP
/// name of these methods incorrectly.
fn official(method: &str) -> &str {
    match method.strip_prefix("antiphon/") {
        Some("tasks/call") => "tools/call",
        Some(task) if task.starts_with("tasks/") => task,
        _ => method,
    }
}

/// A guard that cancels the request at the server if the caller no longer waits for the response.
struct Abandoned {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = Some("the caller cancelled the request".to_owned());
            let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason)).await;
        });
    }
}

pub(crate) fn parse<T: DeserializeOwned>(method: &str, value: Value) -> Result<T> {
    T::deserialize(value)
        .map_err(|error| Error::Malformed { method: official(method).to_owned(), problem: error.to_string() })
}
