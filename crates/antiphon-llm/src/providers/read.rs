//! Converts a response of rig to a reply.

use std::collections::HashSet;

use rig_core::{
    completion::{CompletionResponse, FinishReason},
    message::{AssistantContent, DocumentSourceKind, Image, MimeType as _, ToolCall},
};
use serde_json::Value;

use super::retry::random_bits;
use crate::{
    message::Block,
    reply::{Reply, Usage, stop},
};

/// The `_meta` key under which a reply lists the parts of the request that were not sent to the provider, with the
/// reasons.
pub const NOTES_META: &str = "antiphon/notes";

/// Converts `response` to a reply of `model`.
pub(super) fn reply(response: &CompletionResponse, model: &str) -> Reply {
    let mut content = Vec::new();
    let mut ids = HashSet::new();
    let mut cut = false;
    for part in &response.choice {
        match part {
            AssistantContent::Text(text) if !text.text.is_empty() => content.push(Block::text(&text.text)),
            AssistantContent::ToolCall(call) => {
                // Incomplete arguments of a tool call are not repaired, but become a text block.
                if let Some(written) = &call.function.invalid_arguments {
                    cut = true;
                    content.push(Block::text(written));
                } else {
                    content.push(tool_use(call, &mut ids));
                }
            }
            AssistantContent::Image(image) => content.push(picture(image)),
            // MCP has no content type for reasoning.
            _ => {}
        }
    }
    let refused = refusal(response);
    if content.is_empty() {
        content.push(Block::text(refused.clone().unwrap_or_default()));
    }
    let calls = content.iter().any(|block| block.as_tool_use().is_some());
    let reason = match response.finish_reason() {
        _ if refused.is_some() => stop::REFUSAL.to_owned(),
        Some(FinishReason::Length) if cut || !calls => stop::MAX_TOKENS.to_owned(),
        _ if calls => stop::TOOL_USE.to_owned(),
        Some(FinishReason::Other(reason)) => reason,
        _ if at_stop_sequence(&response.raw) => stop::STOP_SEQUENCE.to_owned(),
        _ => stop::END_TURN.to_owned(),
    };
    let reply = Reply::new(response.model().unwrap_or(model), content).with_stop_reason(reason);
    let usage = &response.usage;
    match (usage.input_tokens, usage.output_tokens) {
        (None, None) => reply,
        (input, output) => reply.with_usage(Usage {
            input_tokens: input.unwrap_or_default(),
            output_tokens: output.unwrap_or_default(),
        }),
    }
}

/// Adds notes to `reply` about parts of the request that were not sent to the provider.
pub(super) fn with_notes(mut reply: Reply, notes: Vec<String>) -> Reply {
    if !notes.is_empty() {
        reply.meta.insert(NOTES_META.into(), notes.into());
    }
    reply
}

fn tool_use(call: &ToolCall, ids: &mut HashSet<String>) -> Block {
    let mut id = call.id.to_string();
    if id.is_empty() || !ids.insert(id.clone()) {
        id = fresh_id();
        ids.insert(id.clone());
    }
    Block::tool_use(id, call.function.name.as_str(), call.function.arguments_value())
}

/// Returns a new ID for a tool call that has no ID from the provider.
pub(super) fn fresh_id() -> String {
    format!("call_{:016x}", random_bits())
}

fn picture(image: &Image) -> Block {
    match (&image.data, &image.media_type) {
        (DocumentSourceKind::Base64(data), Some(kind)) => Block::image(data, kind.to_mime_type()),
        (DocumentSourceKind::Url(url), _) => Block::text(url),
        _ => Block::text("(an image that cannot be shown)"),
    }
}

/// Returns the reason if the model or its provider refused to reply.
fn refusal(response: &CompletionResponse) -> Option<String> {
    if let Some(error) = &response.error {
        return Some(error.clone());
    }
    let raw = &response.raw;
    let said = raw.pointer("/choices/0/message/refusal").and_then(Value::as_str);
    let parts = raw["output"].as_array().into_iter().flatten();
    let mut parts = parts.flat_map(|item| item["content"].as_array().into_iter().flatten());
    let said = said.or_else(|| parts.find_map(|part| part["refusal"].as_str()));
    match said.filter(|said| !said.is_empty()) {
        Some(said) => Some(said.to_owned()),
        None if response.finish_reason() == Some(FinishReason::ContentFilter) => {
            Some("the provider filtered the reply".into())
        }
        None => None,
    }
}

/// Returns whether a stop sequence ended the reply. Only Anthropic and vLLM report the stop sequence.
fn at_stop_sequence(raw: &Value) -> bool {
    raw["stop_reason"] == "stop_sequence"
        || raw.pointer("/choices/0/stop_reason").is_some_and(Value::is_string)
}
