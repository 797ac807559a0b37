//! The results of requests that a tool sends to a model.

use std::{fmt, ops::Deref};

use antiphon_llm::{Reply, ToolCall};
use serde::{Deserialize, Serialize};

use crate::exchange::{OpenExchange, SampleExchange};

/// A model's reply to a request for text. `Sampled` dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampled {
    /// The model's complete reply.
    pub reply: Reply,
    /// The request and the model's reply as messages. You can add these messages to a
    /// [`History`](crate::exchange::History).
    pub exchange: SampleExchange,
}

/// A model's reply to a request for data. The value contains the parsed data, or the problems of an invalid reply.
/// `SampledParsed` dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledParsed<T> {
    /// The model's complete reply.
    pub reply: Reply,
    pub(super) parsed: Result<T, ParseError>,
    /// The request and the model's reply as messages. You can add these messages to a
    /// [`History`](crate::exchange::History).
    pub exchange: SampleExchange<T>,
}

impl<T> SampledParsed<T> {
    /// Returns the parsed data, or `None` if the model's reply is invalid.
    pub fn parsed(&self) -> Option<&T> {
        self.parsed.as_ref().ok()
    }

    /// Returns the problems of an invalid reply, or `None` if the model's reply is valid.
    pub fn parse_error(&self) -> Option<&ParseError> {
        self.parsed.as_ref().err()
    }

    /// Returns the parsed data, or an error that lists the problems of an invalid reply.
    pub fn into_parsed(self) -> Result<T, ParseError> {
        self.parsed
    }
}

/// The problems of a model's reply that does not match the requested schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParseError {
    /// The problems of the model's reply, one per line.
    pub message: String,
    /// The text of the model's reply. If the reply contains no text, the inputs of the tool calls in the reply.
    pub raw_text: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model's reply does not match its schema: {}", self.message)
    }
}

impl std::error::Error for ParseError {}

/// A model's reply to a request that offers tools. The model can reply without tool calls. `SampledCalls` dereferences
/// to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledCalls {
    /// The model's complete reply. If the model called tools, the reply contains `tool_use` blocks and the stop reason
    /// `toolUse`. If the client does not support `sampling.tools`, the model writes the tool calls as text, and
    /// Antiphon converts this text into `tool_use` blocks.
    pub reply: Reply,
    /// The tool calls that the model requested, in the order in which they appear in the reply.
    pub calls: Vec<ToolCall>,
    /// The request and the model's reply as messages. You must add the results of the tool calls to this exchange
    /// before you can add the exchange to a history.
    pub exchange: OpenExchange,
}

/// A model's reply with valid data. `SampledSchema` dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledSchema<T> {
    /// The model's complete reply.
    pub reply: Reply,
    /// The data that the server parsed from the model's reply and validated.
    pub parsed: T,
    /// The request and the model's reply as messages. You can add these messages to a
    /// [`History`](crate::exchange::History).
    pub exchange: SampleExchange<T>,
}

/// A model's reply with at least one valid tool call. `SampledTools` dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledTools {
    /// The model's complete reply, with `tool_use` blocks and the stop reason `toolUse`. If the client does not support
    /// `sampling.tools`, the model writes the tool calls as text, and Antiphon converts this text into `tool_use`
    /// blocks.
    pub reply: Reply,
    /// The tool calls that the model requested, in the order in which they appear in the reply. The list contains at
    /// least one tool call.
    pub calls: ToolCalls,
    /// The request and the model's reply as messages. You must add the results of the tool calls to this exchange
    /// before you can add the exchange to a history.
    pub exchange: OpenExchange,
}

macro_rules! is_a_reply {
    ($($result:ty $(, $param:ident)?;)*) => {
        $(impl $(<$param>)? Deref for $result {
            type Target = Reply;

            fn deref(&self) -> &Reply {
                &self.reply
            }
        })*
    };
}

is_a_reply! {
    Sampled;
    SampledParsed<T>, T;
    SampledCalls;
    SampledSchema<T>, T;
    SampledTools;
}

/// A list of at least one tool call. The expression `calls[0]` therefore never panics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ToolCall>", into = "Vec<ToolCall>")]
pub struct ToolCalls(Vec<ToolCall>);

impl ToolCalls {
    /// Creates the list from `calls`. Returns `None` if `calls` is empty.
    pub fn new(calls: Vec<ToolCall>) -> Option<Self> {
        (!calls.is_empty()).then_some(Self(calls))
    }

    /// Returns the first tool call of the list.
    pub fn first(&self) -> &ToolCall {
        &self.0[0]
    }

    /// Converts the list into a vector of tool calls.
    pub fn into_vec(self) -> Vec<ToolCall> {
        self.0
    }
}

impl Deref for ToolCalls {
    type Target = [ToolCall];

    fn deref(&self) -> &[ToolCall] {
        &self.0
    }
}

impl IntoIterator for ToolCalls {
    type Item = ToolCall;
    type IntoIter = std::vec::IntoIter<ToolCall>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ToolCalls {
    type Item = &'a ToolCall;
    type IntoIter = std::slice::Iter<'a, ToolCall>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl TryFrom<Vec<ToolCall>> for ToolCalls {
    type Error = &'static str;

    fn try_from(calls: Vec<ToolCall>) -> Result<Self, &'static str> {
        Self::new(calls).ok_or("the list of tool calls is empty: it must contain at least one call")
    }
}

impl From<ToolCalls> for Vec<ToolCall> {
    fn from(calls: ToolCalls) -> Self {
        calls.0
    }
}
