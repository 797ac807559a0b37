//! The results of tools.

use antiphon_llm::{Block, Content, ToolCall, ToolResultBlock};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    base::{json_bytes, serialized_bytes},
    error::Result,
    model::ContentBlock,
    schema,
};

/// The result of a tool: content for the model, structured content for the client, an error flag, and metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The content blocks for the model.
    pub content: Vec<ContentBlock>,
    /// The structured content for the client. The structured content can be any JSON value.
    pub structured: Option<Value>,
    /// Whether the tool failed. If the tool failed, the content describes the failure.
    pub is_error: bool,
    /// The result's `_meta`.
    pub meta: Map<String, Value>,
}

impl ToolOutput {
    /// Creates a result with these content blocks.
    pub fn new(content: impl IntoIterator<Item = ContentBlock>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// Creates a result with one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([ContentBlock::text(text)])
    }

    /// Creates a result that describes a failure to the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Adds a content block to the result.
    #[must_use]
    pub fn with(mut self, block: ContentBlock) -> Self {
        self.content.push(block);
        self
    }

    /// Adds an image to the result. `bytes` is the content of the image file.
    #[must_use]
    pub fn with_image(self, bytes: &[u8], mime_type: &str) -> Self {
        self.with(ContentBlock::image(STANDARD.encode(bytes), mime_type))
    }

    /// Adds audio to the result. `bytes` is the content of the audio file.
    #[must_use]
    pub fn with_audio(self, bytes: &[u8], mime_type: &str) -> Self {
        self.with(ContentBlock::audio(STANDARD.encode(bytes), mime_type))
    }

    /// Sets the structured content. If the result has no content blocks, this method also adds a text block with the
    /// same JSON, for clients that read only text.
    #[must_use]
    pub fn with_structured(mut self, structured: Value) -> Self {
        if self.content.is_empty() {
            self.content.push(ContentBlock::text(structured.to_string()));
        }
        self.structured = Some(structured);
        self
    }

    /// Adds an entry to the result's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }
}

/// The return value of a tool, prompt or resource function.
pub(crate) trait Returned {
    /// Returns the approximate number of bytes that the value needs in a message. The exact number is a little larger,
    /// because of field names and escaped characters.
    fn bytes(&self) -> usize;

    /// Returns whether the value describes a failure.
    fn is_error(&self) -> bool {
        false
    }
}

impl Returned for ToolOutput {
    fn bytes(&self) -> usize {
        let blocks = self.content.iter().map(|block| match block {
            ContentBlock::Text(text) => text.text.len(),
            ContentBlock::Image(image) => image.data.len(),
            ContentBlock::Audio(audio) => audio.data.len(),
            other => serialized_bytes(other),
        });
        let meta = self.meta.iter().map(|(name, value)| name.len() + json_bytes(value));
        blocks.sum::<usize>() + self.structured.as_ref().map_or(0, json_bytes) + meta.sum::<usize>()
    }

    fn is_error(&self) -> bool {
        self.is_error
    }
}

/// Structured content of a tool: any serializable value whose type has a JSON Schema.
///
/// The schema of the type becomes the tool's `outputSchema`. The value becomes the `structuredContent` of the result.
/// The result also contains a text block with the same JSON, for clients that do not read structured content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// A type that a tool's function can return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return text, content blocks, a `ToolOutput`, or `Json(data)` for data with a schema"
)]
pub trait IntoToolOutput {
    /// Returns the schema of the structured content, or `None` if the type has no schema.
    fn output_schema() -> Option<Map<String, Value>> {
        None
    }

    /// Converts the value into the result of a tool.
    fn into_tool_output(self) -> Result<ToolOutput>;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(self)
    }
}

impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::default())
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for &'static str {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for ContentBlock {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::new([self]))
    }
}

impl IntoToolOutput for Vec<ContentBlock> {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::new(self))
    }
}

impl<T: Serialize + JsonSchema> IntoToolOutput for Json<T> {
    fn output_schema() -> Option<Map<String, Value>> {
        Some(schema::of::<T>())
    }

    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(ToolOutput::default().with_structured(serde_json::to_value(self.0)?))
    }
}

/// The result of a [`ToolCall`], with the ID of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The ID of the tool call to which this result belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The content blocks for the model.
    pub content: Vec<ContentBlock>,
    /// The structured content for the client.
    #[serde(rename = "structuredContent", default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Whether the tool failed. If the tool failed, the content describes the failure. In JSON, an absent field
    /// `isError` means `false`.
    #[serde(default)]
    pub is_error: bool,
    /// Additional data about the result. In the MCP message, the additional data is the `_meta` of the result.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl ToolResult {
    /// Creates the result of `call` from `output`.
    pub fn new(call: &ToolCall, output: ToolOutput) -> Self {
        let ToolOutput { content, structured, is_error, meta } = output;
        Self { id: Some(call.id.clone()), content, structured, is_error, metadata: meta }
    }

    /// Converts the result into a `tool_result` block for a conversation with a model. The block contains the
    /// structured content. The `_meta` of the block contains the metadata.
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

/// Converts a content block of the SDK into a content block of `antiphon-llm`. Both Rust types use the JSON format of
/// MCP. A block of an unknown kind becomes text, so that the model can read the block.
fn content(block: ContentBlock) -> Content {
    let written = serde_json::to_value(block).unwrap_or_default();
    Content::deserialize(&written).unwrap_or_else(|_| Content::text(written.to_string()))
}
