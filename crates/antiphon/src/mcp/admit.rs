//! Who is let in, what they take, and what is said to whom is not.

use antiphon_transport::{drain::TOO_MUCH, streamable::Streamable};
use rmcp::{
    ErrorData,
    model::{ErrorCode, Extensions, PromptMessage, ResourceContents},
};
use serde::Serialize;
use serde_json::Value;

use super::{Client, invoke::Call};
use crate::{
    error::{Error, ErrorKind, Result},
    limits::{Admission, Refused, Visitor},
    mcp::Service,
    model::ContentBlock,
    prompt::Completion,
    resource::Contents,
    run::Run,
    tool::{Tool, ToolOutput},
};

/// Lets a call in.
pub(super) async fn enter(
    service: &Service,
    call: &Call<'_>,
    principal: Option<&str>,
    client: &Client,
) -> Result<Admission, ErrorData> {
    let responses = call.responses.iter().flatten().map(|(_, answer)| weight(answer)).sum::<usize>();
    let bytes = weight(call.arguments) + responses + call.state.map_or(0, str::len);
    let tool = (call.method == "tools/call").then_some((call.name, call.quota));
    let place = service.runtime.gate.enter(&service.runtime.limits, Visitor { principal, tool, bytes }).await;
    place.map_err(|refused| refusal(service, &refused, client.extensions()))
}

/// Lets a completion in: the author's function runs for it, as for a call.
pub(super) async fn enter_completion(
    service: &Service,
    completion: &Completion,
    extensions: &Extensions,
) -> Result<Admission, ErrorData> {
    let principal = service.principal(extensions);
    let arguments = completion.arguments.iter().map(|(name, value)| name.len() + value.len());
    let bytes = completion.value.len() + arguments.sum::<usize>();
    let visitor = Visitor { principal: principal.as_deref(), tool: None, bytes };
    let place = service.runtime.gate.enter(&service.runtime.limits, visitor).await;
    place.map_err(|refused| refusal(service, &refused, extensions))
}

/// Counts a call that becomes a task at once. From then on it is its workers'.
pub(super) async fn count(
    service: &Service,
    tool: &Tool,
    arguments: &Value,
    client: &Client,
) -> Result<(), ErrorData> {
    let principal = service.principal(client.extensions());
    let (principal, bytes) = (principal.as_deref(), weight(arguments));
    let visitor = Visitor { principal, tool: Some((tool.name(), tool.quota)), bytes };
    let place = service.runtime.gate.enter(&service.runtime.limits, visitor).await;
    place.map(drop).map_err(|refused| refusal(service, &refused, client.extensions()))
}

/// Lets a request through that is answered at once.
pub(super) fn pass(service: &Service, extensions: &Extensions) -> Result<(), ErrorData> {
    let passed = service.runtime.gate.pass(&service.runtime.limits, service.principal(extensions).as_deref());
    passed.map_err(|refused| refusal(service, &refused, extensions))
}

/// What whoever is not let in is told. Over HTTP, whoever sends the answer hears of it, too.
pub(super) fn refusal(service: &Service, refused: &Refused, extensions: &Extensions) -> ErrorData {
    service.runtime.recorder.shed();
    tell(refused, extensions);
    tracing::debug!(reason = refused.message(), "a request was refused");
    ErrorData::new(ErrorCode(TOO_MUCH), refused.message().to_owned(), Some(refused.data()))
}

fn tell(refused: &Refused, extensions: &Extensions) {
    let parts = extensions.get::<http::request::Parts>();
    if let Some(streamable) = parts.and_then(|parts| parts.extensions.get::<Streamable>()) {
        let (own, seconds) = refused.advice();
        streamable.shed.set(own, seconds);
    }
}

/// Counts what the run answers with, and refuses what nobody could read.
pub(super) fn not_too_much(run: &Run, answer: &impl Weighed) -> Result<()> {
    let (bytes, most) = (answer.weight(), run.runtime.limits.output_bytes);
    if let Some(place) = &run.place {
        place.spend(bytes);
    }
    if bytes <= most {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Limit(format!(
        "the answer has {bytes} bytes, more than the {most} one may have; return less, return a result set (`Ctx::dual_response`), or raise `Limits::with_output_bytes`"
    )))
    .terminal())
}

/// Something that is sent, and about how many bytes it takes. Written out it takes a little more: the names of its
/// fields, and what has to be escaped.
pub(super) trait Weighed {
    fn weight(&self) -> usize;
}

impl Weighed for ToolOutput {
    fn weight(&self) -> usize {
        let blocks = self.content.iter().map(|block| match block {
            ContentBlock::Text(text) => text.text.len(),
            ContentBlock::Image(image) => image.data.len(),
            ContentBlock::Audio(audio) => audio.data.len(),
            other => written(other),
        });
        let meta = self.meta.iter().map(|(name, value)| name.len() + weight(value));
        blocks.sum::<usize>() + self.structured.as_ref().map_or(0, weight) + meta.sum::<usize>()
    }
}

impl Weighed for Vec<PromptMessage> {
    fn weight(&self) -> usize {
        written(self)
    }
}

impl Weighed for Contents {
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            // In Base64, three bytes are four.
            Self::Blob(bytes) => bytes.len().div_ceil(3) * 4,
            Self::Raw(contents) => contents.iter().map(|contents: &ResourceContents| written(contents)).sum(),
        }
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + weight(item)).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum::<usize>()
        }
    }
}

fn written(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}
