//! The reply of a model: MCP's `CreateMessageResult`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    message::{Block, IntoBlocks, Message, Role, ToolCall, one_or_many},
    request::Request,
};

/// The reasons why a model stopped writing. MCP also allows other stop reasons, which a reply keeps unchanged.
pub mod stop {
    /// The model stopped because the reply is complete.
    pub const END_TURN: &str = "endTurn";
    /// The model stopped at a stop sequence.
    pub const STOP_SEQUENCE: &str = "stopSequence";
    /// The model stopped because it reached the maximum number of tokens.
    pub const MAX_TOKENS: &str = "maxTokens";
    /// The model stopped because it calls tools.
    pub const TOOL_USE: &str = "toolUse";
    /// The model or its provider refused to reply. MCP does not define the stop reason `refusal`.
    pub const REFUSAL: &str = "refusal";
}

/// The reply of a model, with the fields and the format of MCP's `CreateMessageResult`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The author of the reply, which is the model.
    pub role: Role,
    /// The content blocks of the reply.
    #[serde(with = "one_or_many")]
    pub content: Vec<Block>,
    /// The name of the model that replied.
    #[serde(default)]
    pub model: String,
    /// The reason why the model stopped writing. The module [`stop`] lists the reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The `_meta` of the reply. The token usage is under [`USAGE_META`].
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// The number of JSON bytes per token, for the estimate of a number of tokens.
const TOKEN_BYTES: usize = 4;

/// The `_meta` key under which a reply contains its token usage.
pub const USAGE_META: &str = "antiphon/usage";

impl Reply {
    /// Creates a reply of `model`.
    pub fn new(model: impl Into<String>, content: impl IntoBlocks) -> Self {
        let content = content.into_blocks();
        let calls = content.iter().any(|block| block.as_tool_use().is_some());
        let stop_reason = if calls { stop::TOOL_USE } else { stop::END_TURN };
        Self {
            role: Role::Assistant,
            content,
            model: model.into(),
            stop_reason: Some(stop_reason.into()),
            meta: Map::new(),
        }
    }

    /// Sets the reason why the model stopped writing. The module [`stop`] lists the reasons.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Sets the token usage of the reply.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        let usage = serde_json::to_value(usage).unwrap_or_default();
        self.meta.insert(USAGE_META.into(), usage);
        self
    }

    /// Returns the token usage of the reply, if the provider sent the token usage.
    pub fn usage(&self) -> Option<Usage> {
        Usage::deserialize(self.meta.get(USAGE_META)?).ok()
    }

    /// Returns the number of tokens of the request and the reply: the provider's value, or an estimate.
    ///
    /// The estimate is one token per 4 bytes of JSON. Because of the estimate, token limits also work with providers
    /// that do not send the number of tokens.
    pub fn tokens(&self, request: &Request) -> u64 {
        if let Some(usage) = self.usage() {
            return usage.input_tokens.saturating_add(usage.output_tokens);
        }
        let bytes = |json: serde_json::Result<Vec<u8>>| json.map_or(0, |json| json.len());
        let bytes = bytes(serde_json::to_vec(request)) + bytes(serde_json::to_vec(&self.content));
        bytes.div_ceil(TOKEN_BYTES) as u64
    }

    /// Returns the text of all text blocks of the reply, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }

    /// Returns the tool calls in the reply, in order.
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        self.content.iter().filter_map(Block::as_tool_use).map(|block| block.clone().into()).collect()
    }

    /// Returns whether the reply was truncated at the maximum number of tokens.
    pub fn is_cut_off(&self) -> bool {
        self.stop_reason.as_deref() == Some(stop::MAX_TOKENS)
    }

    /// Converts the reply into a message that you can add to a history.
    pub fn to_message(&self) -> Message {
        Message::new(self.role, self.content.clone())
    }
}

/// The token usage of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The number of tokens in the request (input tokens).
    #[serde(default)]
    pub input_tokens: u64,
    /// The number of tokens in the reply (output tokens).
    #[serde(default)]
    pub output_tokens: u64,
}
