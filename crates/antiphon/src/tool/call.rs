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
    /// The structured content.
    #[serde(rename = "structuredContent", default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
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
        let ToolOutput { content, structured, is_error, meta } = output;
        Self { id: Some(call.id.clone()), content, structured, is_error, metadata: meta }
    }

    /// The result as the `tool_result` block that closes a `tool_use`, with its structured content and its metadata as
    /// `_meta`.
    pub fn into_block(self) -> Block {
        let mut rest = Map::new();
        if !self.metadata.is_empty() {
            rest.insert("_meta".into(), Value::Object(self.metadata));
        }
        Block::ToolResult(ToolResultBlock {
            tool_use_id: self.id.unwrap_or_default(),
            content: self.content.into_iter().map(content).collect(),
            is_error: self.is_error,
            structured_content: self.structured,
            rest,
        })
    }
}

/// A block of the SDK's as one of ours: both have MCP's shape. A block of a kind that this version does not know becomes
/// text, so that the model is shown it.
fn content(block: ContentBlock) -> Content {
    let written = serde_json::to_value(block).unwrap_or_default();
    Content::deserialize(&written).unwrap_or_else(|_| Content::text(written.to_string()))
}
