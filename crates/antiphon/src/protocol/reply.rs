//! Results and errors, as the SDK sends them.

use rmcp::model::{CallToolResult, ClientCapabilities, ErrorCode, ErrorData, MetaObject, ResultType};
use serde_json::{Value, json};

use super::Revision;
use crate::{
    error::{Capability, Error, ErrorKind},
    output::ToolOutput,
    trace,
    url_elicitation::{URL_ELICITATION_REQUIRED, UrlElicitationRequired},
};

/// A tool's answer. `isError` is always said.
pub(crate) fn to_call_result(output: ToolOutput, revision: Revision) -> CallToolResult {
    let ToolOutput { content, structured, is_error, meta } = output;
    let mut result = CallToolResult::success(content);
    result.result_type = Some(ResultType::COMPLETE);
    result.is_error = Some(is_error);
    // Before 2026-07-28, structured content is an object or nothing.
    result.structured_content = structured.filter(|value| revision == Revision::Rounds || value.is_object());
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    result
}

/// Tells beside an answer what its run did.
pub(crate) fn put_trace(meta: &mut Option<MetaObject>, trace: Option<Value>) {
    if let Some(trace) = trace {
        meta.get_or_insert_default().0.insert(trace::META.to_owned(), trace);
    }
}

/// What a tool came to, as an answer.
pub(crate) fn to_result(
    result: Result<ToolOutput, Error>,
    revision: Revision,
) -> Result<CallToolResult, ErrorData> {
    match result {
        Ok(output) => Ok(to_call_result(output, revision)),
        Err(error) => tool_error(&error, revision),
    }
}

/// A tool's error: an answer for the model to read, unless MCP has a code for it.
pub(crate) fn tool_error(error: &Error, revision: Revision) -> Result<CallToolResult, ErrorData> {
    error_output(error, revision).map(|output| to_call_result(output, revision))
}

pub(crate) fn error_output(error: &Error, revision: Revision) -> Result<ToolOutput, ErrorData> {
    match (error.kind(), revision) {
        (ErrorKind::Protocol { .. } | ErrorKind::Cancelled, _)
        | (ErrorKind::Unsupported(_), Revision::Rounds)
        | (ErrorKind::UrlElicitationRequired(_), Revision::Session) => return Err(to_error_data(error)),
        // Of the error, only what the author named is logged: its text is for whoever called, and may be about them.
        (ErrorKind::Drift(drift), _) => {
            tracing::error!(
                place = drift.place(),
                "a run does not fit its tool any more; the answer says more"
            );
        }
        (kind @ (ErrorKind::Deadlock | ErrorKind::Misuse(_)), _) => {
            tracing::error!(kind = kind.name(), "a tool is at fault; the answer says how");
        }
        (kind, _) => tracing::debug!(kind = kind.name(), "a tool returned an error"),
    }
    let mut text = format!("{error:#}");
    if let ErrorKind::UrlElicitationRequired(pages) = error.kind() {
        for page in pages {
            text = format!("{text}\n{}: {}", page.message, page.url);
        }
    }
    Ok(ToolOutput::error(text))
}

/// An error as JSON-RPC has it.
pub(crate) fn to_error_data(error: &Error) -> ErrorData {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Protocol { code, message, data } => {
            ErrorData::new(ErrorCode(*code), message.clone(), data.clone())
        }
        ErrorKind::Unsupported(capability) => ErrorData {
            message: message.into(),
            ..ErrorData::missing_required_client_capability(required(*capability))
        },
        ErrorKind::UrlElicitationRequired(elicitations) => {
            let data = UrlElicitationRequired { elicitations: elicitations.clone() }.to_error_data();
            ErrorData::new(ErrorCode(URL_ELICITATION_REQUIRED), message, Some(data))
        }
        ErrorKind::InvalidArguments(_) => ErrorData::invalid_params(message, None),
        _ => ErrorData::internal_error(format!("{error:#}"), None),
    }
}

fn required(capability: Capability) -> ClientCapabilities {
    let declared = match capability {
        Capability::Elicitation => json!({"elicitation": {}}),
        Capability::UrlElicitation => json!({"elicitation": {"url": {}}}),
        Capability::Sampling => json!({"sampling": {}}),
        Capability::SamplingTools => json!({"sampling": {"tools": {}}}),
        Capability::SamplingContext => json!({"sampling": {"context": {}}}),
        Capability::Roots => json!({"roots": {}}),
        Capability::Session => json!({}),
    };
    serde_json::from_value(declared).unwrap_or_default()
}
