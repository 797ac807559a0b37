use std::ops::Deref;

use antiphon_llm::{
    IncludeContext, Message, ModelPreferences, Reply, Request, ToolCall, ToolChoice, ToolDefinition,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Dynamic, ParseError, PromptInput, Schema, Tools};
use crate::exchange::AnyExchange;

/// A description of a request to a model, as plain data without type parameters. Use this type in tools that receive
/// the description of the request at run time.
///
/// ```
/// # use antiphon::sampling::SampleConfig;
/// let config: SampleConfig = serde_json::from_value(serde_json::json!({
///     "prompt": "Pick a cell.",
///     "schema": {"type": "object", "properties": {"cell": {"type": "integer"}}},
///     "maxTokens": 100,
/// }))?;
/// # let _ = config;
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SampleConfig {
    /// The prompt. Set either `prompt` or `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The messages of the conversation so far. Set either `messages` or `prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The maximum length of the reply, in tokens. Default: 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The models that the tool prefers for this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// The sampling temperature of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The stop sequences: texts before which the model ends its reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// The servers whose context the client can add to the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// The JSON Schema that the model's reply must match. You cannot combine `schema` with `tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The tools that the model can call. You cannot combine `tools` with `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolDefinition>>,
    /// Whether the model must call a tool. The field `tool_choice` requires `tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
}

/// The error message for a request that contains both a schema and tools. Other implementations of this API use exactly
/// the same text.
const BOTH: &str = "Cannot specify both schema and tools in sample config - they are mutually exclusive";

impl SampleConfig {
    /// Splits the configuration into the prompt and the mode.
    pub(super) fn into_parts(self) -> (PromptInput, Dynamic) {
        let choice = self.tool_choice;
        let (mode, contradiction) = match (self.schema, self.tools) {
            (Some(_), Some(_)) => (Dynamic::Plain, Some(BOTH)),
            (Some(_), None) if choice.is_some() => (
                Dynamic::Plain,
                Some(
                    "`tool_choice` requires `tools`; remove it, because it cannot be combined with `schema`",
                ),
            ),
            (None, None) if choice.is_some() => {
                (Dynamic::Plain, Some("`tool_choice` requires `tools`; set both, or neither"))
            }
            (Some(schema), None) => (Dynamic::Schema(Schema::raw(schema)), None),
            (None, Some(tools)) => (Dynamic::Tools(Tools::new(tools, choice)), None),
            (None, None) => (Dynamic::Plain, None),
        };
        let messages = match (self.prompt, self.messages) {
            (Some(prompt), None) => Ok(vec![Message::user(prompt)]),
            (None, Some(messages)) => Ok(messages),
            _ => Err("sample() requires either prompt or messages"),
        };
        let request = match (contradiction, messages) {
            (Some(contradiction), _) => Err(contradiction.to_owned()),
            (None, Err(problem)) => Err(problem.to_owned()),
            (None, Ok(messages)) => {
                let mut request = Request::new(messages);
                request.system_prompt = self.system_prompt;
                request.max_tokens = self.max_tokens.unwrap_or(request.max_tokens);
                request.model_preferences = self.model_preferences;
                request.temperature = self.temperature;
                request.stop_sequences = self.stop_sequences;
                request.include_context = self.include_context;
                Ok(request)
            }
        };
        (PromptInput(request), mode)
    }
}

/// A model's reply to a request from a [`SampleConfig`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledValue {
    /// The model's complete reply.
    pub reply: Reply,
    /// The parsed data, if the request contains a schema and the model's reply matches this schema.
    pub parsed: Option<Value>,
    /// The validation problems, if the request contains a schema and the model's reply does not match this schema.
    pub parse_error: Option<ParseError>,
    /// The tool calls that the model requested, if the request offers tools.
    pub tool_calls: Vec<ToolCall>,
    /// The request and the model's reply as messages. You can add these messages to a
    /// [`History`](crate::exchange::History).
    pub exchange: AnyExchange,
}

impl SampledValue {
    pub(super) fn new(reply: Reply, exchange: AnyExchange) -> Self {
        Self { reply, parsed: None, parse_error: None, tool_calls: Vec::new(), exchange }
    }
}

impl Deref for SampledValue {
    type Target = Reply;

    fn deref(&self) -> &Reply {
        &self.reply
    }
}
