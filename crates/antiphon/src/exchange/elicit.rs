use antiphon_llm::{Block, Content, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A question to a user and the user's answer, as two messages for a model.
///
/// The first message is a `tool_use` of the assistant, which contains the question. The second message is the
/// `tool_result` of the user, which contains the answer. If the user did not answer, the question has no exchange.
///
/// An exchange with a model is a [`SampleExchange`](super::SampleExchange). In a `SampleExchange`, the user asks and
/// the assistant answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitExchange {
    /// The message that contains the question. The role of this message is `assistant`.
    pub request: Message,
    /// The message that contains the user's answer. The role of this message is `user`.
    pub response: Message,
    /// The message with the question, followed by the message with the answer.
    pub messages: [Message; 2],
}

impl ElicitExchange {
    pub(crate) fn new(id: &str, name: &str, message: &str, schema: &Value, content: &Value) -> Self {
        let mut arguments = Map::new();
        arguments.insert("message".into(), message.into());
        arguments.insert("requestedSchema".into(), schema.clone());
        let request = Message::assistant(Block::tool_use(id, name, Value::Object(arguments)));
        let response = Message::user(Block::tool_result(id, [Content::text(content.to_string())]));
        Self { messages: [request.clone(), response.clone()], request, response }
    }

    /// Replaces the arguments of the `tool_use` that contains the question. By default, these arguments contain the
    /// form. For example, you can replace the form with the board that the question was about.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Map<String, Value>) -> Self {
        if let Some(Block::ToolUse(used)) = self.request.content.first_mut() {
            used.input = arguments;
        }
        self.messages[0] = self.request.clone();
        self
    }
}
