use std::ops::Deref;

use antiphon_llm::{
    IncludeContext, Message, ModelPreferences, Reply, Request, ToolCall, ToolChoice, ToolDefinition,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Dynamic, ParseError, PromptInput, Schema, Tools};
use crate::exchange::AnyExchange;

/// A request to a model as data: for tools that are themselves told what to ask.
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
    /// What to ask; this or `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The conversation so far; this or `prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    /// Who the model is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Bounds the reply. Default: 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Which models would suit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// How much the model may vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Ends the reply where one of these texts begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Which servers' context a client may add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// What the reply must match; not with `tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What the model may call; not with `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolDefinition>>,
    /// Whether it must.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
}

/// Word for word what other implementations of this API say.
const BOTH: &str = "Cannot specify both schema and tools in sample config - they are mutually exclusive";

impl SampleConfig {
    /// Takes the request apart: what is asked, and what for.
    pub(super) fn into_parts(self) -> (PromptInput, Dynamic) {
        let choice = self.tool_choice;
        let (mode, contradiction) = match (self.schema, self.tools) {
            (Some(_), Some(_)) => (Dynamic::Plain, Some(BOTH)),
            (Some(_), None) if choice.is_some() => {
                (Dynamic::Plain, Some("a tool choice needs tools; with a schema there is nothing to choose"))
            }
            (None, None) if choice.is_some() => (Dynamic::Plain, Some("a tool choice needs tools")),
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

/// A reply to a [`SampleConfig`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledValue {
    /// What the model said.
    pub reply: Reply,
    /// The data, where a schema was given and they match it.
    pub parsed: Option<Value>,
    /// What is wrong with the data, where a schema was given and they do not.
    pub parse_error: Option<ParseError>,
    /// What the model wants to call, where tools were given.
    pub tool_calls: Vec<ToolCall>,
    /// The question and the reply, for a history.
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
