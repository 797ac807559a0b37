//! Admission of requests. This module checks rate limits and quotas, and creates the errors for rejected requests.

use antiphon_transport::{drain::TOO_MUCH, streamable::Streamable};
use rmcp::{
    ErrorData,
    model::{ErrorCode, Extensions},
};
use serde_json::Value;

use super::{Client, invoke::Call};
use crate::{
    base::json_bytes,
    limits::{Admission, AdmissionRequest, Refused},
    mcp::Service,
    prompt::Completion,
    tool::Tool,
};

/// Admits a tool call. Returns an error if the call would exceed a limit.
pub(super) async fn enter(
    service: &Service,
    call: &Call<'_>,
    principal: Option<&str>,
    client: &Client,
) -> Result<Admission, ErrorData> {
    let responses = call.responses.iter().flatten().map(|(_, answer)| json_bytes(answer)).sum::<usize>();
    let bytes = json_bytes(call.arguments) + responses + call.state.map_or(0, str::len);
    let tool = (call.method == "tools/call").then_some((call.name, call.quota));
    let place = service
        .runtime
        .limiter
        .enter(&service.runtime.limits, AdmissionRequest { principal, tool, bytes })
        .await;
    place.map_err(|refused| refusal(service, &refused, client.extensions()))
}

/// Admits a completion request. A completion request runs a function of the author, so the server applies the same
/// limits as to a tool call.
pub(super) async fn enter_completion(
    service: &Service,
    completion: &Completion,
    extensions: &Extensions,
) -> Result<Admission, ErrorData> {
    let principal = service.principal(extensions);
    let arguments = completion.arguments.iter().map(|(name, value)| name.len() + value.len());
    let bytes = completion.value.len() + arguments.sum::<usize>();
    let request = AdmissionRequest { principal: principal.as_deref(), tool: None, bytes };
    let place = service.runtime.limiter.enter(&service.runtime.limits, request).await;
    place.map_err(|refused| refusal(service, &refused, extensions))
}

/// Counts a call whose run is a task from the beginning. Afterwards, only the limits for tasks apply to the run.
pub(super) async fn count(
    service: &Service,
    tool: &Tool,
    arguments: &Value,
    client: &Client,
) -> Result<(), ErrorData> {
    let principal = service.principal(client.extensions());
    let (principal, bytes) = (principal.as_deref(), json_bytes(arguments));
    let request = AdmissionRequest { principal, tool: Some((tool.name(), tool.quota)), bytes };
    let place = service.runtime.limiter.enter(&service.runtime.limits, request).await;
    place.map(drop).map_err(|refused| refusal(service, &refused, client.extensions()))
}

/// Admits a request that the server answers immediately.
pub(super) fn pass(service: &Service, extensions: &Extensions) -> Result<(), ErrorData> {
    let passed =
        service.runtime.limiter.pass(&service.runtime.limits, service.principal(extensions).as_deref());
    passed.map_err(|refused| refusal(service, &refused, extensions))
}

/// Removes a request that [`pass`] has admitted from the count.
pub(super) fn refund(service: &Service, extensions: &Extensions) {
    service.runtime.limiter.refund(&service.runtime.limits, service.principal(extensions).as_deref());
}

/// Returns the error for a rejected request. Over HTTP, this function also tells the transport when the client should
/// retry.
pub(super) fn refusal(service: &Service, refused: &Refused, extensions: &Extensions) -> ErrorData {
    service.runtime.recorder.shed();
    tell(refused, extensions);
    tracing::debug!(reason = refused.message(), "a request was rejected because of a limit");
    ErrorData::new(ErrorCode(TOO_MUCH), refused.message().to_owned(), Some(refused.data()))
}

fn tell(refused: &Refused, extensions: &Extensions) {
    let parts = extensions.get::<http::request::Parts>();
    if let Some(streamable) = parts.and_then(|parts| parts.extensions.get::<Streamable>()) {
        let (own, seconds) = refused.advice();
        streamable.shed.set(own, seconds);
    }
}
