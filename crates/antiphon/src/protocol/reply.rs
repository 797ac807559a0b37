//! Converts the results and errors of runs into types of the SDK.

use rmcp::model::{CallToolResult, ClientCapabilities, ErrorCode, ErrorData, MetaObject, ResultType};
use serde_json::{Value, json};

use super::Revision;
use crate::{
    error::{Capability, Error, ErrorKind},
    output::ToolOutput,
    trace,
    url_elicitation::{URL_ELICITATION_REQUIRED, UrlElicitationRequired},
};

/// Converts the output of a tool into an MCP result. This function always sets the field `isError`.
pub(crate) fn to_call_result(output: ToolOutput, revision: Revision) -> CallToolResult {
    let ToolOutput { content, structured, is_error, meta } = output;
    let mut result = CallToolResult::success(content);
    result.result_type = Some(ResultType::COMPLETE);
    result.is_error = Some(is_error);
    // Before 2026-07-28, MCP allows only a JSON object as structured content.
    result.structured_content = structured.filter(|value| revision == Revision::Rounds || value.is_object());
    result.meta = (!meta.is_empty()).then_some(MetaObject(meta));
    result
}

/// Adds the trace of a run to the `_meta` of the response.
pub(crate) fn put_trace(meta: &mut Option<MetaObject>, trace: Option<Value>) {
    if let Some(trace) = trace {
        meta.get_or_insert_default().0.insert(trace::META.to_owned(), trace);
    }
}

/// Converts the result or the error of a tool into the response to the client.
pub(crate) fn to_result(
    result: Result<ToolOutput, Error>,
    revision: Revision,
) -> Result<CallToolResult, ErrorData> {
    match result {
        Ok(output) => Ok(to_call_result(output, revision)),
        Err(error) => tool_error(&error, revision),
    }
}

/// Converts the error of a tool into a result that the model can read. If MCP defines an error code for the kind of the
/// error, this function returns a JSON-RPC error instead.
pub(crate) fn tool_error(error: &Error, revision: Revision) -> Result<CallToolResult, ErrorData> {
    error_output(error, revision).map(|output| to_call_result(output, revision))
}

pub(crate) fn error_output(error: &Error, revision: Revision) -> Result<ToolOutput, ErrorData> {
    match (error.kind(), revision) {
        (ErrorKind::Protocol { .. } | ErrorKind::Cancelled, _)
        | (ErrorKind::Unsupported(_), Revision::Rounds)
        | (ErrorKind::UrlElicitationRequired(_), Revision::Session) => return Err(to_error_data(error)),
        // The text of the error is for the caller, and can contain personal data. So the log contains only names that
        // the author of the tool has chosen.
        (ErrorKind::Drift(drift), _) => {
            tracing::error!(
                place = drift.place(),
                "drift: on replay, the tool's code does not match the journal of the run; the response contains the details"
            );
        }
        (kind @ (ErrorKind::Deadlock | ErrorKind::Misuse(_)), _) => {
            tracing::error!(kind = kind.name(), "a tool has a bug; the response contains the details");
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

/// Converts an error into a JSON-RPC error.
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
