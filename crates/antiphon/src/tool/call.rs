use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ToolOutput;
use crate::model::{ContentBlock, SamplingMessageContentBlock, ToolResultContent, ToolUseContent};

/// A wish to call a tool: what a model says it wants.
///
/// A `tool_use` block calls its data `input`, a `tools/call` request calls them `arguments`; this
/// type follows the request, and converts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Links the result to the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What to call it with.
    pub arguments: Map<String, Value>,
}

impl ToolCall {
    /// Reads a call from data of unknown origin: `id`, `name` and `arguments` must all be there.
    ///
    /// # Errors
    ///
    /// A sentence that names what is missing or wrong.
    pub fn from_value(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| format!("not a tool call: {error}"))
    }

    /// As [`from_value`](Self::from_value), but takes `input` for `arguments` too, as calls were
    /// written before the two had one name.
    ///
    /// # Errors
    ///
    /// A sentence that names what is missing or wrong.
    pub fn from_value_lenient(mut value: Value) -> Result<Self, String> {
        if let Value::Object(call) = &mut value
            && !call.contains_key("arguments")
            && let Some(input) = call.remove("input")
        {
            call.insert("arguments".into(), input);
        }
        Self::from_value(value)
    }
}

impl From<ToolUseContent> for ToolCall {
    fn from(block: ToolUseContent) -> Self {
        Self { id: block.id, name: block.name, arguments: block.input }
    }
}

impl From<ToolCall> for ToolUseContent {
    fn from(call: ToolCall) -> Self {
        Self::new(call.id, call.name, call.arguments)
    }
}

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
    pub fn into_block(self) -> SamplingMessageContentBlock {
        let id = self.id.unwrap_or_default();
        SamplingMessageContentBlock::ToolResult(if self.is_error {
            ToolResultContent::error(id, self.content)
        } else {
            ToolResultContent::new(id, self.content)
        })
    }
}
