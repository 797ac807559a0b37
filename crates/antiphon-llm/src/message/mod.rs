//! Messages to and from a model, in the format of MCP.

mod openai;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

pub use self::openai::{Conversation, OpenAiHistoryError};

/// The role of the author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The author is the user, or a program that acts for the user.
    User,
    /// The author is the model.
    Assistant,
}

/// One message of a conversation with a model.
///
/// In JSON, `content` is one block or a list of blocks. The deserializer accepts one block and a list of blocks. The
/// serializer writes a single text, image or audio block without a list, for clients before MCP 2025-11-25. The
/// serializer writes any other content as a list.
///
/// ```
/// # use antiphon_llm::{Block, Message};
/// # use serde_json::json;
/// let message = Message::user("Which way?");
/// assert_eq!(json!(message), json!({"role": "user", "content": {"type": "text", "text": "Which way?"}}));
///
/// let call = Message::assistant(Block::tool_use("call_1", "go", json!({"way": "left"})));
/// assert_eq!(json!(call)["content"][0]["type"], "tool_use");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The content blocks of the message.
    #[serde(with = "one_or_many")]
    pub content: Vec<Block>,
    /// The `_meta` of the message.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Message {
    /// Creates a message whose author is the user.
    pub fn user(content: impl IntoBlocks) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message whose author is the model.
    pub fn assistant(content: impl IntoBlocks) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Creates a message of the author `role`.
    pub fn new(role: Role, content: impl IntoBlocks) -> Self {
        Self { role, content: content.into_blocks(), meta: Map::new() }
    }

    /// Returns the text of all text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }

    /// Returns the tool calls in the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = ToolCall> + '_ {
        self.content.iter().filter_map(Block::as_tool_use).map(|block| block.clone().into())
    }

    /// Returns the tool results in the message, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResultBlock> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

/// A type that can be the content of a [`Message`]: a text, a block or several blocks.
pub trait IntoBlocks {
    /// Converts the value into content blocks.
    fn into_blocks(self) -> Vec<Block>;
}

impl IntoBlocks for &str {
    fn into_blocks(self) -> Vec<Block> {
        vec![Block::text(self)]
    }
}

impl IntoBlocks for String {
    fn into_blocks(self) -> Vec<Block> {
        vec![Block::text(self)]
    }
}

impl IntoBlocks for Block {
    fn into_blocks(self) -> Vec<Block> {
        vec![self]
    }
}

impl IntoBlocks for Vec<Block> {
    fn into_blocks(self) -> Vec<Block> {
        self
    }
}

impl<const N: usize> IntoBlocks for [Block; N] {
    fn into_blocks(self) -> Vec<Block> {
        self.into()
    }
}

/// A content block: a part of a [`Message`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// A content block with text.
    Text(TextBlock),
    /// A content block with an image.
    Image(MediaBlock),
    /// A content block with audio.
    Audio(MediaBlock),
    /// A tool call that the model requests.
    ToolUse(ToolUseBlock),
    /// The result of a tool call.
    ToolResult(ToolResultBlock),
}

impl Block {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), rest: Map::new() })
    }

    /// Creates an image block. `data` is the image file in base64.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(MediaBlock { data: data.into(), mime_type: mime_type.into(), rest: Map::new() })
    }

    /// Creates an audio block. `data` is the audio file in base64.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(MediaBlock { data: data.into(), mime_type: mime_type.into(), rest: Map::new() })
    }

    /// Creates a block with a tool call. If `input` is not an object, the tool call has an empty object as its input.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        let Value::Object(input) = input else { return Self::tool_use(id, name, Map::new().into()) };
        Self::ToolUse(ToolUseBlock { id: id.into(), name: name.into(), input, rest: Map::new() })
    }

    /// Creates a block with the result of the tool call that has the ID `tool_use_id`.
    pub fn tool_result(tool_use_id: impl Into<String>, content: impl IntoIterator<Item = Content>) -> Self {
        Self::ToolResult(ToolResultBlock {
            tool_use_id: tool_use_id.into(),
            content: content.into_iter().collect(),
            is_error: false,
            structured_content: None,
            rest: Map::new(),
        })
    }

    /// Creates a block with the result of the failed tool call that has the ID `tool_use_id`. `message` describes the
    /// error.
    pub fn tool_error(tool_use_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self::ToolResult(ToolResultBlock {
            tool_use_id: tool_use_id.into(),
            content: vec![Content::text(message)],
            is_error: true,
            structured_content: None,
            rest: Map::new(),
        })
    }

    /// Returns the text of this block, if the block is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// Returns the tool call in this block, if the block is a `tool_use` block.
    pub fn as_tool_use(&self) -> Option<&ToolUseBlock> {
        match self {
            Self::ToolUse(block) => Some(block),
            _ => None,
        }
    }
}

/// A content block with text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextBlock {
    /// The text.
    pub text: String,
    /// The `annotations`, the `_meta` and all other fields of the block.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A content block with an image or audio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "MediaOnTheWire")]
pub struct MediaBlock {
    /// The bytes of the image file or audio file, in base64.
    pub data: String,
    /// The media type, for example `image/png` or `audio/wav`. MCP requires the media type, so the serializer always
    /// writes the media type. If a received block has no media type, the deserializer detects the media type from the
    /// first bytes of the file. If the detection fails, the media type is `application/octet-stream`.
    pub mime_type: String,
    /// The `annotations`, the `_meta` and all other fields of the block.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MediaOnTheWire {
    data: String,
    mime_type: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl From<MediaOnTheWire> for MediaBlock {
    fn from(MediaOnTheWire { data, mime_type, rest }: MediaOnTheWire) -> Self {
        let mime_type = mime_type.unwrap_or_else(|| media_type_of(&data).to_owned());
        Self { data, mime_type, rest }
    }
}

/// Detects the media type from the first bytes of base64 data.
fn media_type_of(data: &str) -> &'static str {
    const SIGNATURES: [(&str, &str); 4] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("SUQz", "audio/mpeg"),
    ];
    let known = SIGNATURES.iter().find(|(signature, _)| data.starts_with(signature));
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

/// A content block with a tool call that the model requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUseBlock {
    /// The ID of the tool call. The result of the tool call contains the same ID as the tool call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments of the tool call.
    pub input: Map<String, Value>,
    /// The `_meta` and all other fields of the block.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A content block with the result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultBlock {
    /// The ID of the tool call to which this result belongs.
    pub tool_use_id: String,
    /// The content of the tool's result.
    pub content: Vec<Content>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The tool's result as structured data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The `_meta` and all other fields of the block.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ToolResultBlock {
    /// Returns the text of all text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }
}

/// A part of the result that a tool returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// A content block with text.
    Text(TextBlock),
    /// A content block with an image.
    Image(MediaBlock),
    /// A content block with audio.
    Audio(MediaBlock),
    /// A link to a resource, with the fields of MCP's `ResourceLink` such as `uri` and `name`.
    ResourceLink(Map<String, Value>),
    /// An embedded resource. The field `resource` of this map contains the `uri`, and either the `text` or the `blob`.
    Resource(Map<String, Value>),
}

impl Content {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), rest: Map::new() })
    }

    /// Returns the text of this content, if the content is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// A tool call that a model requests.
///
/// In a `tool_use` block, the arguments have the name `input`. In a `tools/call` request, the arguments have the name
/// `arguments`. `ToolCall` uses the name `arguments`. You can convert a `tool_use` block into a `ToolCall`, and a
/// `ToolCall` into a `tool_use` block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The ID of the tool call. The result of the tool call contains the same ID as the tool call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments of the tool call.
    pub arguments: Map<String, Value>,
}

impl ToolCall {
    /// Parses a tool call from untrusted JSON. The JSON must have the fields `id`, `name` and `arguments`.
    ///
    /// # Errors
    ///
    /// Returns a message that names the missing or invalid field.
    pub fn from_value(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| format!("not a tool call: {error}"))
    }

    /// Parses a tool call like [`from_value`](Self::from_value), but also accepts the older name `input` for
    /// `arguments`.
    ///
    /// # Errors
    ///
    /// Returns a message that names the missing or invalid field.
    pub fn from_value_lenient(mut value: Value) -> Result<Self, String> {
        if let Value::Object(call) = &mut value
            && !call.contains_key("arguments")
            && let Some(input) = call.remove("input")
        {
            call.insert("arguments".into(), input);
        }
        Self::from_value(value)
    }

    /// Parses the arguments of the tool call as a value of the type `T`.
    ///
    /// # Errors
    ///
    /// Returns an error if the arguments do not match the type `T`.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(Value::Object(self.arguments.clone()))
    }
}

impl From<ToolUseBlock> for ToolCall {
    fn from(block: ToolUseBlock) -> Self {
        Self { id: block.id, name: block.name, arguments: block.input }
    }
}

impl From<ToolCall> for ToolUseBlock {
    fn from(call: ToolCall) -> Self {
        Self { id: call.id, name: call.name, input: call.arguments, rest: Map::new() }
    }
}

/// Reads and writes `content` in the format of MCP: one block, or a list of blocks.
pub(crate) mod one_or_many {
    use super::{Block, Deserialize, Deserializer, Serialize, Serializer, Value};

    pub(crate) fn serialize<S: Serializer>(blocks: &[Block], serializer: S) -> Result<S::Ok, S::Error> {
        match blocks {
            [lone @ (Block::Text(_) | Block::Image(_) | Block::Audio(_))] => lone.serialize(serializer),
            several => several.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
        let content = Value::deserialize(deserializer)?;
        let read = |block: Value| Block::deserialize(block).map_err(|error| super::named::<D>(&error));
        match content {
            Value::Array(blocks) => blocks.into_iter().map(read).collect(),
            Value::Object(_) => Ok(vec![read(content)?]),
            _ => {
                Err(serde::de::Error::custom("`content` must be a content block or a list of content blocks"))
            }
        }
    }
}

fn named<'de, D: Deserializer<'de>>(error: &serde_json::Error) -> D::Error {
    D::Error::custom(format_args!("not a content block: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn media_without_a_type_is_read_and_written_with_one() {
        for (data, expected) in [
            ("iVBORw0KGgoAAAANSUhEUg==", "image/png"),
            ("/9j/4AAQSkZJRg==", "image/jpeg"),
            ("R0lGODlhAQABAAAAACw=", "image/gif"),
            ("AA==", "application/octet-stream"),
        ] {
            let block: Block = serde_json::from_value(json!({"type": "image", "data": data})).unwrap();
            let written = json!({"type": "image", "data": data, "mimeType": expected});
            assert_eq!(json!(block), written);
        }
        let named = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav", "_meta": {"a": 1}});
        assert_eq!(json!(serde_json::from_value::<Block>(named.clone()).unwrap()), named);
        let content: Content = serde_json::from_value(json!({"type": "image", "data": "AA=="})).unwrap();
        assert_eq!(json!(content)["mimeType"], "application/octet-stream");
    }
}
