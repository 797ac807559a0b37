//! What a model replies: MCP's `CreateMessageResult`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    message::{Block, IntoBlocks, Message, Role, ToolCall, one_or_many},
    request::Request,
};

/// Why a model stopped. MCP leaves the list open: anything else is passed on as it came.
pub mod stop {
    /// It had said what it had to say.
    pub const END_TURN: &str = "endTurn";
    /// It met a stop sequence.
    pub const STOP_SEQUENCE: &str = "stopSequence";
    /// It may not say more.
    pub const MAX_TOKENS: &str = "maxTokens";
    /// It wants to call tools.
    pub const TOOL_USE: &str = "toolUse";
    /// It would not, or its provider would not let it. Not one of MCP's own values.
    pub const REFUSAL: &str = "refusal";
}

/// What a model replied, with the fields and the shape of MCP's `CreateMessageResult`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// Who speaks.
    pub role: Role,
    /// What it said.
    #[serde(with = "one_or_many")]
    pub content: Vec<Block>,
    /// The model that replied.
    #[serde(default)]
    pub model: String,
    /// Why it stopped; see [`stop`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What else there is to say: what it cost is under [`USAGE_META`].
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// How many bytes of JSON are about a token.
const TOKEN_BYTES: usize = 4;

/// Where a reply's `_meta` says what it cost.
pub const USAGE_META: &str = "antiphon/usage";

impl Reply {
    /// A reply of `model`'s.
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

    /// Says why the model stopped.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Says what the reply cost.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        let usage = serde_json::to_value(usage).unwrap_or_default();
        self.meta.insert(USAGE_META.into(), usage);
        self
    }

    /// What the reply cost, if its provider said so.
    pub fn usage(&self) -> Option<Usage> {
        Usage::deserialize(self.meta.get(USAGE_META)?).ok()
    }

    /// How many tokens the request and the reply cost: as the provider says, or an estimate if it does not say.
    ///
    /// The estimate is a token for each 4 bytes of JSON, so that a provider without usage is not free of charge for those
    /// who limit tokens.
    pub fn tokens(&self, request: &Request) -> u64 {
        if let Some(usage) = self.usage() {
            return usage.input_tokens.saturating_add(usage.output_tokens);
        }
        let bytes = |json: serde_json::Result<Vec<u8>>| json.map_or(0, |json| json.len());
        let bytes = bytes(serde_json::to_vec(request)) + bytes(serde_json::to_vec(&self.content));
        bytes.div_ceil(TOKEN_BYTES) as u64
    }

    /// Its text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }

    /// The tools the model wants to call, in order.
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        self.content.iter().filter_map(Block::as_tool_use).map(|block| block.clone().into()).collect()
    }

    /// Whether the model was cut off.
    pub fn is_cut_off(&self) -> bool {
        self.stop_reason.as_deref() == Some(stop::MAX_TOKENS)
    }

    /// The reply as a message of a history.
    pub fn to_message(&self) -> Message {
        Message::new(self.role, self.content.clone())
    }
}

/// What a reply cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// What was read.
    #[serde(default)]
    pub input_tokens: u64,
    /// What was written.
    #[serde(default)]
    pub output_tokens: u64,
}
