//! Reads histories in the format of OpenAI. This crate converts a history when it reads the history, and never stores
//! or sends histories in the format of OpenAI.

use serde_json::{Map, Value};

use super::{Block, Content, Message};

/// A history of messages, with the system prompt as a separate field, as in MCP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The system prompt: the text of the `system` and `developer` messages.
    pub system_prompt: Option<String>,
    /// All messages of the history except the `system` and `developer` messages.
    pub messages: Vec<Message>,
}

/// The reason why a history in the format of OpenAI could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {index}: {problem}")]
pub struct OpenAiHistoryError {
    /// The index of the invalid message, counted from 0.
    pub index: usize,
    /// The reason why the message is invalid.
    pub problem: String,
}

impl Conversation {
    /// Reads messages in the format of OpenAI's chat API. The `tool_calls` of the assistant become `tool_use` blocks.
    /// Messages with the role `tool` become `tool_result` blocks of the user. Consecutive messages with the role
    /// `tool` become one message of the user.
    ///
    /// ```
    /// # use antiphon_llm::Conversation;
    /// # use serde_json::json;
    /// let history = Conversation::from_openai(&[
    ///     json!({"role": "user", "content": "Left or right?"}),
    ///     json!({"role": "assistant", "content": null, "tool_calls": [
    ///         {"id": "1", "type": "function", "function": {"name": "go", "arguments": "{\"way\":\"left\"}"}}
    ///     ]}),
    ///     json!({"role": "tool", "tool_call_id": "1", "content": "a wall"}),
    /// ])?;
    /// let result = json!(history.messages[2]);
    /// assert_eq!(result["role"], "user");
    /// assert_eq!(result["content"][0]["toolUseId"], "1");
    /// # Ok::<(), antiphon_llm::OpenAiHistoryError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a message has an unknown role or invalid content.
    pub fn from_openai(messages: &[Value]) -> Result<Self, OpenAiHistoryError> {
        let mut conversation = Self::default();
        for (index, message) in messages.iter().enumerate() {
            conversation.take(message).map_err(|problem| OpenAiHistoryError { index, problem })?;
        }
        Ok(conversation)
    }

    fn take(&mut self, message: &Value) -> Result<(), String> {
        match message["role"].as_str() {
            Some("system" | "developer") => {
                let text = text_of(&message["content"])?;
                let prompt = self.system_prompt.get_or_insert_default();
                if !prompt.is_empty() {
                    prompt.push_str("\n\n");
                }
                prompt.push_str(&text);
            }
            Some("user") => self.messages.push(Message::user(blocks_of(&message["content"])?)),
            Some("assistant") => {
                let mut blocks = blocks_of(&message["content"])?;
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    blocks.push(tool_use(call)?);
                }
                if blocks.is_empty() {
                    return Err("the assistant message has neither `content` nor `tool_calls`".into());
                }
                self.messages.push(Message::assistant(blocks));
            }
            Some("tool") => {
                let id =
                    message["tool_call_id"].as_str().ok_or("the `tool` message has no `tool_call_id`")?;
                let result = Block::tool_result(id, [Content::text(text_of(&message["content"])?)]);
                match self.messages.last_mut() {
                    Some(last) if last.tool_results().next().is_some() => last.content.push(result),
                    _ => self.messages.push(Message::user(result)),
                }
            }
            Some(other) => return Err(format!("the role `{other}` is not supported")),
            None => return Err("the message has no `role`".into()),
        }
        Ok(())
    }
}

fn text_of(content: &Value) -> Result<String, String> {
    let blocks = blocks_of(content)?;
    let texts: Option<Vec<&str>> = blocks.iter().map(Block::as_text).collect();
    Ok(texts
        .ok_or("messages of the roles `system`, `developer` and `tool` can contain only text")?
        .join("\n"))
}

fn blocks_of(content: &Value) -> Result<Vec<Block>, String> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Block::text(text)]),
        Value::Array(parts) => parts.iter().map(block).collect(),
        other => Err(format!("`content` must be a text or a list of parts, not {other}")),
    }
}

fn block(part: &Value) -> Result<Block, String> {
    match part["type"].as_str() {
        Some("text") => Ok(Block::text(part["text"].as_str().ok_or("a `text` part has no `text`")?)),
        Some("image_url") => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
            let (mime_type, data) = data.ok_or("an `image_url` part must have a base64 `data:` URL")?;
            Ok(Block::image(data, mime_type))
        }
        Some("input_audio") => {
            let audio = &part["input_audio"];
            let data = audio["data"].as_str().ok_or("an `input_audio` part has no `data`")?;
            Ok(Block::audio(data, format!("audio/{}", audio["format"].as_str().unwrap_or("wav"))))
        }
        other => Err(format!("parts of the type `{}` are not supported", other.unwrap_or("(none)"))),
    }
}

fn tool_use(call: &Value) -> Result<Block, String> {
    let id = call["id"].as_str().ok_or("a tool call has no `id`")?;
    let name = call["function"]["name"].as_str().ok_or("a tool call has no `function.name`")?;
    let input = match &call["function"]["arguments"] {
        Value::Object(arguments) => arguments.clone(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => serde_json::from_str(text)
            .map_err(|error| format!("the arguments of the call `{id}` are not a JSON object: {error}"))?,
        Value::Null => Map::new(),
        other => return Err(format!("the arguments of the call `{id}` must be a JSON object, not {other}")),
    };
    Ok(Block::tool_use(id, name, Value::Object(input)))
}
