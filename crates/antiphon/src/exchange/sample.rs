use std::collections::BTreeSet;

use antiphon_llm::{Block, Content, Message, Reply, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HistoryError;
use crate::output::ToolResult;

/// A request to a model and the model's reply, as messages that you can add to a history.
///
/// If the server asked the model again after an invalid reply, the messages do not contain the invalid reply. If the
/// model replied with a `tool_use`, the exchange adds a `tool_result` with the text `ok`, because MCP requires a result
/// for every `tool_use`.
///
/// | content that your tool requested | messages of the exchange |
/// |---|---|
/// | text | two messages: the user's question and the assistant's reply |
/// | data | three messages: the user's question, the assistant's `tool_use`, the user's `tool_result` |
/// | tool calls | an [`OpenExchange`], to which you must add the results of the tool calls |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SampleExchange<T = ()> {
    /// The message that contains the prompt. The role of this message is `user`.
    pub request: Message,
    /// The message that contains the model's reply. The role of this message is `assistant`.
    pub response: Message,
    /// All messages of the exchange in order: the prompt, the reply, and a `tool_result` if the reply is a `tool_use`.
    pub messages: Vec<Message>,
    /// The parsed data, if the request asked the model for data.
    pub parsed: Option<T>,
}

/// The text of the `tool_result` that follows valid data.
const ACKNOWLEDGED: &str = "ok";

impl SampleExchange {
    /// Creates the exchange for a model's reply that is text.
    pub(crate) fn raw(request: Message, reply: &Reply) -> Self {
        // The reply can contain a tool call even if the request offered no tools. This code must add the result of such
        // a tool call, because no other code adds the result.
        Self::failed(request, Message::assistant(reply.content.clone()), "there is no such tool")
    }
}

impl<T> SampleExchange<T> {
    /// Creates the exchange for a model's reply with valid data. `response` is the message with the `tool_use`, as the
    /// model sent it.
    pub(crate) fn structured(request: Message, response: Message, parsed: Option<T>) -> Self {
        Self::acknowledged(request, response, parsed, |id| {
            Block::tool_result(id, [Content::text(ACKNOWLEDGED)])
        })
    }

    /// Creates the exchange for a model's reply with invalid data. The `tool_result` of each tool call contains the
    /// problem.
    pub(crate) fn failed(request: Message, response: Message, problem: &str) -> Self {
        Self::acknowledged(request, response, None, |id| Block::tool_error(id, problem))
    }

    fn acknowledged(
        request: Message,
        response: Message,
        parsed: Option<T>,
        acknowledge: impl Fn(String) -> Block,
    ) -> Self {
        let results: Vec<Block> = response.tool_calls().map(|call| acknowledge(call.id)).collect();
        let mut messages = vec![request.clone(), response.clone()];
        if !results.is_empty() {
            messages.push(Message::user(results));
        }
        Self { request, response, messages, parsed }
    }

    /// Moves the data from the `tool_use` into the `tool_result`. Some models give more weight to a tool result than to
    /// a message that they wrote themselves.
    #[must_use]
    pub fn with_echo(mut self) -> Self {
        let mut echoes = Vec::new();
        for block in &mut self.response.content {
            if let Block::ToolUse(used) = block {
                let data = Value::Object(std::mem::take(&mut used.input));
                echoes.push(Block::tool_result(&used.id, [Content::text(data.to_string())]));
            }
        }
        if !echoes.is_empty() {
            self.messages = vec![self.request.clone(), self.response.clone(), Message::user(echoes)];
        }
        self
    }
}

/// A request to a model, and the model's reply with tool calls that do not have results yet.
///
/// You cannot add an open exchange to a history, because models reject a `tool_use` without its `tool_result`. First
/// add the results of the tool calls with [`close`](Self::close).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use = "an open exchange is closed with the results of its calls"]
#[non_exhaustive]
pub struct OpenExchange {
    /// The message that contains the prompt. The role of this message is `user`.
    pub request: Message,
    /// The message that contains the model's reply and its `tool_use` blocks. The role of this message is `assistant`.
    pub response: Message,
    /// The message with the prompt, followed by the message with the reply.
    pub messages: Vec<Message>,
}

impl OpenExchange {
    pub(crate) fn new(request: Message, response: Message) -> Self {
        Self { messages: vec![request.clone(), response.clone()], request, response }
    }

    /// Returns the tool calls in the model's reply. You must add a result for each of these tool calls.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.response.tool_calls().collect()
    }

    /// Adds the results of all tool calls as one message, and returns the complete exchange.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] if a tool call has no result or two results, or if a result does not belong to any
    /// tool call.
    pub fn close(
        self,
        results: impl IntoIterator<Item = ToolResult>,
    ) -> Result<SampleExchange, HistoryError> {
        let results: Vec<Block> = results.into_iter().map(ToolResult::into_block).collect();
        let given: BTreeSet<&str> = results
            .iter()
            .filter_map(|block| match block {
                Block::ToolResult(result) => Some(result.tool_use_id.as_str()),
                _ => None,
            })
            .collect();
        let mut seen = BTreeSet::new();
        for result in &results {
            if let Block::ToolResult(result) = result
                && !seen.insert(result.tool_use_id.as_str())
            {
                return Err(HistoryError::Repeated { id: result.tool_use_id.clone() });
            }
        }
        let calls = self.calls();
        if let Some(call) = calls.iter().find(|call| !given.contains(call.id.as_str())) {
            return Err(HistoryError::Dangling { id: call.id.clone(), name: call.name.clone() });
        }
        if let Some(id) = given.into_iter().find(|id| !calls.iter().any(|call| call.id == *id)) {
            return Err(HistoryError::Unasked { id: id.to_owned() });
        }
        let Self { request, response, mut messages } = self;
        if !results.is_empty() {
            messages.push(Message::user(results));
        }
        Ok(SampleExchange { request, response, messages, parsed: None })
    }

    /// Adds a text result for each tool call, and returns the complete exchange. Antiphon calls `say` for each tool
    /// call to get the text of the result. See [`close`](Self::close).
    pub fn close_with<S: Into<String>>(self, mut say: impl FnMut(&ToolCall) -> S) -> SampleExchange {
        let calls = self.calls();
        let said = calls.iter().map(|call| Block::tool_result(&call.id, [Content::text(say(call))]));
        let results: Vec<Block> = said.collect();
        let Self { request, response, mut messages } = self;
        if !results.is_empty() {
            messages.push(Message::user(results));
        }
        SampleExchange { request, response, messages, parsed: None }
    }
}

/// A request to a model and the model's reply. If the reply contains tool calls, these tool calls can still need
/// results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum AnyExchange {
    /// The request offered tools to the model. So tool calls in the model's reply need results.
    Open(OpenExchange),
    /// The model's reply contains no tool calls that need results.
    Closed(SampleExchange<Value>),
}

impl AnyExchange {
    /// Returns the messages of the exchange, oldest first.
    pub fn messages(&self) -> &[Message] {
        match self {
            Self::Open(open) => &open.messages,
            Self::Closed(closed) => &closed.messages,
        }
    }
}
