use antiphon_llm::{Block, Content, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A question to a user and its answer, as two messages for a model.
///
/// The assistant asks the question: a `tool_use` of the form. The user answers it: the `tool_result`. An exchange
/// exists only if the user answered. A declined question has none.
///
/// A [`SampleExchange`](super::SampleExchange) is the equivalent for a question to a model. There the user asks and the
/// assistant answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitExchange {
    /// The assistant's question.
    pub request: Message,
    /// The user's answer.
    pub response: Message,
    /// Both messages, in order.
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

    /// Replaces the arguments of the `tool_use`. For example, the model then reads the board that the question was
    /// about, not the form.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Map<String, Value>) -> Self {
        if let Some(Block::ToolUse(used)) = self.request.content.first_mut() {
            used.input = arguments;
        }
        self.messages[0] = self.request.clone();
        self
    }
}
