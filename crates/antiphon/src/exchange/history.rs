use std::collections::BTreeSet;

use antiphon_llm::{Block, Message, Role};
use serde::{Deserialize, Serialize};

use super::{ElicitExchange, SampleExchange};

/// What a model is shown of the conversation so far.
///
/// It is always one a model accepts: every `tool_use` is followed by its `tool_result`. What would
/// break that is refused, and an [`OpenExchange`](super::OpenExchange) is not even taken.
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
/// history.push(plan.exchange)?; // the calls have no results yet
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Message>", into = "Vec<Message>")]
pub struct History {
    messages: Vec<Message>,
}

impl History {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// A history of these messages.
    ///
    /// # Errors
    ///
    /// When they are none a model would accept.
    pub fn from_messages(messages: impl Into<Vec<Message>>) -> Result<Self, HistoryError> {
        let messages = messages.into();
        check(&messages)?;
        Ok(Self { messages })
    }

    /// Adds an exchange. A question that is already the last message is not repeated, so that what was
    /// asked with the history itself ([`Ctx::sample`](crate::Ctx::sample) of its messages) can be
    /// added to it.
    ///
    /// # Errors
    ///
    /// When the exchange was changed into one no model would accept: a call without a result, or a
    /// result without a call.
    pub fn push(&mut self, exchange: impl Exchange) -> Result<(), HistoryError> {
        let messages = exchange.into_messages();
        let repeated = messages.first().is_some_and(|first| self.messages.last() == Some(first));
        // A question that is repeated may well be a `tool_result`, whose call is in the history.
        let messages = &messages[usize::from(repeated)..];
        check(messages)?;
        self.messages.extend_from_slice(messages);
        Ok(())
    }

    /// Adds a message that belongs to no exchange.
    ///
    /// # Errors
    ///
    /// When it has a `tool_use` or a `tool_result`: those come in exchanges.
    pub fn say(&mut self, message: Message) -> Result<(), HistoryError> {
        check(std::slice::from_ref(&message))?;
        self.messages.push(message);
        Ok(())
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages, oldest first.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Whether nothing was said yet.
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

/// What a [`History`] takes: a question with its answer, nothing left open.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no exchange a history can take",
    note = "an `OpenExchange` has calls without results: give it to `close` or `close_with` first"
)]
pub trait Exchange: sealed::Sealed {
    /// Its messages, in order.
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

/// Why messages are no history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryError {
    /// A call has no result.
    Dangling {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
    },
    /// A result belongs to no call right before it.
    Unasked {
        /// The id it has.
        id: String,
    },
    /// A call has two results.
    Repeated {
        /// The call's id.
        id: String,
    },
    /// A message has results and something else beside them, which MCP forbids.
    Mixed,
    /// A call is the user's, or a result the assistant's.
    WrongRole,
}

impl std::fmt::Display for HistoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dangling { id, name } => write!(
                f,
                "the call `{id}` of `{name}` has no result; close the exchange with one before it goes into a history"
            ),
            Self::Unasked { id } => write!(f, "the result of `{id}` belongs to no call right before it"),
            Self::Repeated { id } => write!(f, "the call `{id}` has two results"),
            Self::Mixed => f.write_str("a message with tool results may hold nothing else"),
            Self::WrongRole => f.write_str("calls are the assistant's and results the user's"),
        }
    }
}

impl std::error::Error for HistoryError {}

/// Whether a model would accept these messages.
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
