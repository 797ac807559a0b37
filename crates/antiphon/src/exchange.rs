//! History a tool can accumulate: questions and answers as MCP content blocks.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{ContentBlock, Role, SamplingMessage, SamplingMessageContentBlock};

/// A question to a person and its answer, as two messages a model can be shown.
///
/// The question is the assistant's: a `tool_use` of the form. The answer is the user's: its
/// `tool_result`. There is an exchange only where there was an answer; declining makes none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElicitExchange {
    request: SamplingMessage,
    response: SamplingMessage,
}

impl ElicitExchange {
    pub(crate) fn new(key: &str, message: &str, schema: &Value, content: &Value) -> Self {
        let mut arguments = Map::new();
        arguments.insert("message".into(), message.into());
        arguments.insert("requestedSchema".into(), schema.clone());
        let id = format!("elicit:{key}");
        Self { request: tool_use(&id, key, arguments), response: tool_result(&id, content.to_string()) }
    }

    /// The assistant's question.
    pub fn request(&self) -> &SamplingMessage {
        &self.request
    }

    /// The user's answer.
    pub fn response(&self) -> &SamplingMessage {
        &self.response
    }

    /// Both, in order.
    pub fn messages(&self) -> [SamplingMessage; 2] {
        [self.request.clone(), self.response.clone()]
    }

    /// The same exchange with other arguments in its `tool_use`: show the model the board it was
    /// about, not the form it was asked by.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Map<String, Value>) -> Self {
        if let Some(SamplingMessageContentBlock::ToolUse(used)) = self.request.content.first() {
            self.request = tool_use(&used.id.clone(), &used.name.clone(), arguments);
        }
        self
    }
}

/// `{role: assistant, content: [{type: tool_use, id, name, input}]}`.
fn tool_use(id: &str, name: &str, input: Map<String, Value>) -> SamplingMessage {
    SamplingMessage::new_multiple(
        Role::Assistant,
        vec![SamplingMessageContentBlock::tool_use(id, name, input)],
    )
}

/// `{role: user, content: [{type: tool_result, toolUseId, content}]}`.
fn tool_result(id: &str, text: String) -> SamplingMessage {
    let content = vec![ContentBlock::text(text)];
    SamplingMessage::new_multiple(Role::User, vec![SamplingMessageContentBlock::tool_result(id, content)])
}
