//! Results of requests to a model.

use std::{fmt, ops::Deref};

use antiphon_llm::{Reply, ToolCall};
use serde::{Deserialize, Serialize};

use crate::exchange::{OpenExchange, SampleExchange};

/// A text reply. It dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampled {
    /// The model's reply.
    pub reply: Reply,
    /// The question and the reply, for a history.
    pub exchange: SampleExchange,
}

/// Parsed data, or the reason why the reply is invalid. It dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledParsed<T> {
    /// The model's reply.
    pub reply: Reply,
    pub(super) parsed: Result<T, ParseError>,
    /// The question and the reply, for a history.
    pub exchange: SampleExchange<T>,
}

impl<T> SampledParsed<T> {
    /// Returns the data, if the reply is valid.
    pub fn parsed(&self) -> Option<&T> {
        self.parsed.as_ref().ok()
    }

    /// Returns the reason why the reply is invalid. It is `None` if [`parsed`](Self::parsed) returns the data.
    pub fn parse_error(&self) -> Option<&ParseError> {
        self.parsed.as_ref().err()
    }

    /// Returns the data, or the reason why the reply is invalid.
    pub fn into_parsed(self) -> Result<T, ParseError> {
        self.parsed
    }
}

/// The problems of a reply that does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParseError {
    /// The problems, one line each.
    pub message: String,
    /// The text or the call inputs that the model wrote.
    pub raw_text: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model's reply does not fit: {}", self.message)
    }
}

impl std::error::Error for ParseError {}

/// The tool calls of a reply, which can be empty. It dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledCalls {
    /// The model's reply. If the model called tools, the reply has `tool_use` blocks and the stop reason `toolUse`.
    /// This also holds if the client lacks `sampling.tools` and the calls came as text.
    pub reply: Reply,
    /// The requested calls, in order.
    pub calls: Vec<ToolCall>,
    /// The question and the reply. Close the exchange with the results of the calls.
    pub exchange: OpenExchange,
}

/// Valid data. It dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledSchema<T> {
    /// The model's reply.
    pub reply: Reply,
    /// The data.
    pub parsed: T,
    /// The question and the reply, for a history.
    pub exchange: SampleExchange<T>,
}

/// At least one valid tool call. It dereferences to [`Reply`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledTools {
    /// The model's reply, with `tool_use` blocks and the stop reason `toolUse`. This also holds if the client lacks
    /// `sampling.tools` and the calls came as text.
    pub reply: Reply,
    /// The requested calls, in order. There is at least one.
    pub calls: ToolCalls,
    /// The question and the reply. Close the exchange with the results of the calls.
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

/// One or more calls. `calls[0]` always exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ToolCall>", into = "Vec<ToolCall>")]
pub struct ToolCalls(Vec<ToolCall>);

impl ToolCalls {
    /// Returns the calls, or `None` if `calls` is empty.
    pub fn new(calls: Vec<ToolCall>) -> Option<Self> {
        (!calls.is_empty()).then_some(Self(calls))
    }

    /// Returns the first call.
    pub fn first(&self) -> &ToolCall {
        &self.0[0]
    }

    /// Returns all calls.
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
        Self::new(calls).ok_or("there must be at least one call")
    }
}

impl From<ToolCalls> for Vec<ToolCall> {
    fn from(calls: ToolCalls) -> Self {
        calls.0
    }
}
