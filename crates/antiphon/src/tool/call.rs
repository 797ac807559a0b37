use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ToolOutput;
use crate::{
    model::ContentBlock,
    sampling::{Block, Content, ToolResultBlock},
};

pub use antiphon_llm::ToolCall;

/// What came of a [`ToolCall`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The content blocks.
    pub content: Vec<ContentBlock>,
    /// Whether the content tells of a failure. Always written; taken as `false` where it is missing.
    #[serde(default)]
    pub is_error: bool,
    /// What else there is to say; `_meta` on the wire.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl ToolResult {
    /// What `output` is, as the answer to `call`.
    pub fn new(call: &ToolCall, output: ToolOutput) -> Self {
        let ToolOutput { content, structured: _, is_error, meta } = output;
        Self { id: Some(call.id.clone()), content, is_error, metadata: meta }
    }

    /// The result as the `tool_result` block that closes a `tool_use`.
    pub fn into_block(self) -> Block {
        let content = self.content.into_iter().filter_map(|block| {
            // The SDK's blocks and ours have the same shape: it is MCP's.
            Content::deserialize(serde_json::to_value(block).ok()?).ok()
        });
        Block::ToolResult(ToolResultBlock {
            tool_use_id: self.id.unwrap_or_default(),
            content: content.collect(),
            is_error: self.is_error,
            structured_content: None,
            rest: Map::new(),
        })
    }
}
