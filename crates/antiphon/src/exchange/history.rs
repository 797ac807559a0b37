use std::collections::BTreeSet;

use antiphon_llm::{Block, Message, Role};
use serde::{Deserialize, Serialize};

use super::{ElicitExchange, SampleExchange};

/// A conversation with a model. A conversation is a list of messages.
///
/// In a history, every `tool_use` is followed by its `tool_result`, because models reject a `tool_use` without a
/// result. If a method would add a `tool_use` without its result to the history, the method returns an error. An
/// [`OpenExchange`](super::OpenExchange) contains tool calls without results, so you cannot add an open exchange to a
/// history.
///
/// ```
/// # use antiphon::{exchange::History, prelude::*};
/// # #[derive(Deserialize, JsonSchema)] struct Move { cell: u8 }
/// # fn strategies() -> Vec<antiphon::sampling::ToolDefinition> { Vec::new() }
/// async fn turn(ctx: &Ctx, history: &mut History) -> Result<u8> {
///     let plan = ctx.sample_tools("Choose a strategy.", strategies()).history(history).await?;
///     history.push(plan.exchange.close_with(|call| format!("Playing {}.", call.name)))?;
///     let mv = ctx.sample_schema::<Move>("Now pick a cell.").history(history).await?;
///     history.push(mv.exchange)?;
///     Ok(mv.parsed.cell)
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use antiphon::{exchange::History, prelude::*};
/// # async fn turn(ctx: &Ctx, history: &mut History) -> Result<()> {
/// let plan = ctx.sample_tools("Choose a strategy.", []).await?;
/// history.push(plan.exchange)?; // error: the tool calls have no results yet
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Message>", into = "Vec<Message>")]
pub struct History {
    messages: Vec<Message>,
}

impl History {
    /// Creates a history that contains no messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a history from a list of messages.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] if a model would reject the messages.
    pub fn from_messages(messages: impl Into<Vec<Message>>) -> Result<Self, HistoryError> {
        let messages = messages.into();
        check(&messages)?;
        Ok(Self { messages })
    }

    /// Adds the messages of an exchange to the history. If the last message of the history is equal to the first
    /// message of the exchange, `push` does not add this message again. So you can first pass the messages of the
    /// history as the prompt to [`Ctx::sample`](crate::Ctx::sample), and then add the exchange to the history.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] if your code has changed the exchange so that its tool calls and results do not match.
    pub fn push(&mut self, exchange: impl Exchange) -> Result<(), HistoryError> {
        let messages = exchange.into_messages();
        let repeated = messages.first().is_some_and(|first| self.messages.last() == Some(first));
        // The first message of the exchange can be a `tool_result` that is already in the history. The tool call of
        // this `tool_result` is then in the history too.
        let messages = &messages[usize::from(repeated)..];
        check(messages)?;
        self.messages.extend_from_slice(messages);
        Ok(())
    }

    /// Adds a message that is not part of an exchange to the history.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] if the message contains a `tool_use` or a `tool_result`. To add tool calls or tool
    /// results, add a complete exchange with [`push`](Self::push).
    pub fn say(&mut self, message: Message) -> Result<(), HistoryError> {
        check(std::slice::from_ref(&message))?;
        self.messages.push(message);
        Ok(())
    }

    /// Returns the messages of the history, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Converts the history into its messages, oldest first.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Returns whether the history contains no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

impl TryFrom<Vec<Message>> for History {
    type Error = HistoryError;

    fn try_from(messages: Vec<Message>) -> Result<Self, HistoryError> {
        Self::from_messages(messages)
    }
}

impl From<History> for Vec<Message> {
    fn from(history: History) -> Self {
        history.messages
    }
}

/// A question and its answer, as messages that you can add to a [`History`]. Every tool call in these messages has a
/// result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be added to a `History`",
    note = "an `OpenExchange` has tool calls without results: call its method `close` or `close_with` first"
)]
pub trait Exchange: sealed::Sealed {
    /// Returns the messages of the exchange, oldest first.
    fn into_messages(self) -> Vec<Message>;
}

impl<T> Exchange for SampleExchange<T> {
    fn into_messages(self) -> Vec<Message> {
        self.messages
    }
}

impl Exchange for ElicitExchange {
    fn into_messages(self) -> Vec<Message> {
        self.messages.into()
    }
}

mod sealed {
    pub trait Sealed {}

    impl<T> Sealed for super::SampleExchange<T> {}

    impl Sealed for super::ElicitExchange {}
}

/// The error that states why a list of messages is not a valid history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryError {
    /// A `tool_use` is not followed by its `tool_result`.
    Dangling {
        /// The ID of the tool call that has no result.
        id: String,
        /// The name of the tool in this tool call.
        name: String,
    },
    /// A `tool_result` belongs to a tool call that is not in the preceding message.
    Unasked {
        /// The ID of the tool call, as stated in the `tool_result`.
        id: String,
    },
    /// A `tool_use` has two results.
    Repeated {
        /// The ID of the tool call that has two results.
        id: String,
    },
    /// A message contains tool results and also other content. MCP forbids such messages.
    Mixed,
    /// A message of the user contains a `tool_use`, or a message of the assistant contains a `tool_result`.
    WrongRole,
}

impl std::fmt::Display for HistoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dangling { id, name } => write!(
                f,
                "the call `{id}` of `{name}` has no result; add it with `OpenExchange::close` before you add the exchange to a history"
            ),
            Self::Unasked { id } => write!(f, "the tool result for the call `{id}` has no matching tool call in the message directly before it"),
            Self::Repeated { id } => write!(f, "the call `{id}` has two results"),
            Self::Mixed => f.write_str("a message contains tool results and other content; move the tool results to a separate message"),
            Self::WrongRole => f.write_str("a tool call or tool result has the wrong role; tool calls belong in assistant messages and tool results in user messages"),
        }
    }
}

impl std::error::Error for HistoryError {}

/// Checks whether a model would accept this list of messages.
pub(crate) fn check(messages: &[Message]) -> Result<(), HistoryError> {
    let mut open: Vec<(&str, &str)> = Vec::new();
    for message in messages {
        let results: BTreeSet<&str> =
            message.tool_results().map(|result| result.tool_use_id.as_str()).collect();
        let calls: Vec<(&str, &str)> = message
            .content
            .iter()
            .filter_map(Block::as_tool_use)
            .map(|call| (call.id.as_str(), call.name.as_str()))
            .collect();
        if (!results.is_empty() && message.role != Role::User)
            || (!calls.is_empty() && message.role != Role::Assistant)
        {
            return Err(HistoryError::WrongRole);
        }
        if !results.is_empty() && message.tool_results().count() != message.content.len() {
            return Err(HistoryError::Mixed);
        }
        if let Some((id, name)) = open.iter().find(|(id, _)| !results.contains(id)) {
            return Err(HistoryError::Dangling { id: (*id).to_owned(), name: (*name).to_owned() });
        }
        if let Some(id) = results.into_iter().find(|id| !open.iter().any(|(call, _)| call == id)) {
            return Err(HistoryError::Unasked { id: id.to_owned() });
        }
        open = calls;
    }
    match open.first() {
        Some((id, name)) => Err(HistoryError::Dangling { id: (*id).to_owned(), name: (*name).to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use antiphon_llm::Content;

    fn call(id: &str) -> Message {
        Message::assistant(Block::tool_use(id, "go", json!({})))
    }

    fn result(id: &str) -> Message {
        Message::user(Block::tool_result(id, [Content::text("ok")]))
    }

    #[test]
    fn a_history_a_model_would_refuse_is_refused_first() {
        let dangling = HistoryError::Dangling { id: "a".into(), name: "go".into() };
        assert_eq!(check(&[call("a")]), Err(dangling.clone()));
        assert_eq!(check(&[call("a"), Message::user("and?")]), Err(dangling.clone()));
        assert_eq!(check(&[call("a"), result("b")]), Err(dangling));
        assert_eq!(check(&[result("a")]), Err(HistoryError::Unasked { id: "a".into() }));
        let mut mixed = result("a");
        mixed.content.push(Block::text("and?"));
        assert_eq!(check(&[call("a"), mixed]), Err(HistoryError::Mixed));
        let swapped = Message::user(Block::tool_use("a", "go", json!({})));
        assert_eq!(check(&[swapped]), Err(HistoryError::WrongRole));
        assert_eq!(check(&[Message::user("?"), call("a"), result("a"), Message::user("?")]), Ok(()));
    }

    #[test]
    fn a_history_that_is_read_is_checked() {
        assert!(serde_json::from_value::<History>(json!([call("a")])).is_err());
        let history: History = serde_json::from_value(json!([call("a"), result("a")])).unwrap();
        assert_eq!(json!(history), json!([call("a"), result("a")]));
    }

    #[test]
    fn a_question_that_is_already_there_is_not_repeated() {
        let mut history = History::from_messages([Message::user("?")]).unwrap();
        let reply = antiphon_llm::Reply::new("m", "!");
        history.push(SampleExchange::raw(Message::user("?"), &reply)).unwrap();
        assert_eq!(history.messages().len(), 2);
    }
}
