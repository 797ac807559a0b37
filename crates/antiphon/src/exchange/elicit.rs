use antiphon_llm::{Block, Content, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A question to a person and its answer, as two messages a model can be shown.
///
/// The question is the assistant's: a `tool_use` of the form. The answer is the user's: its
/// `tool_result`. There is an exchange only where there was an answer; declining makes none.
///
/// A [`SampleExchange`](super::SampleExchange) is the same for a question to a model: there the user
/// asks and the assistant answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitExchange {
    /// The assistant's question.
    pub request: Message,
    /// The user's answer.
    pub response: Message,
    /// Both, in order.
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

    /// The same exchange with other arguments in its `tool_use`: show the model the board it was
    /// about, not the form it was asked by.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Map<String, Value>) -> Self {
        if let Some(Block::ToolUse(used)) = self.request.content.first_mut() {
            used.input = arguments;
        }
        self.messages[0] = self.request.clone();
        self
    }
}
