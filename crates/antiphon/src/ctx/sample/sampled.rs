//! What comes of asking a model.

use std::{fmt, ops::Deref};

use antiphon_llm::{Reply, ToolCall};
use serde::{Deserialize, Serialize};

use crate::exchange::{OpenExchange, SampleExchange};

/// Text. It is a [`Reply`], and has its fields and methods.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampled {
    /// What the model said.
    pub reply: Reply,
    /// The question and the reply, for a history.
    pub exchange: SampleExchange,
}

/// Data, or what is wrong with what came instead. It is a [`Reply`], and has its fields and methods.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledParsed<T> {
    /// What the model said.
    pub reply: Reply,
    pub(super) parsed: Result<T, ParseError>,
    /// The question and the reply, for a history.
    pub exchange: SampleExchange<T>,
}

impl<T> SampledParsed<T> {
    /// The data.
    pub fn parsed(&self) -> Option<&T> {
        self.parsed.as_ref().ok()
    }

    /// Why there are none. There is one or the other.
    pub fn parse_error(&self) -> Option<&ParseError> {
        self.parsed.as_ref().err()
    }

    /// The data, or why there are none.
    pub fn into_parsed(self) -> Result<T, ParseError> {
        self.parsed
    }
}

/// What is wrong with a reply that should have been data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParseError {
    /// What is wrong, a line a problem.
    pub message: String,
    /// What the model wrote.
    pub raw_text: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model's reply does not fit: {}", self.message)
    }
}

impl std::error::Error for ParseError {}

/// Calls of tools, or none. It is a [`Reply`], and has its fields and methods.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledCalls {
    /// What the model said. If it called tools, the calls are `tool_use` blocks in it and its stop reason is `toolUse`,
    /// even if they came as text from a client without `sampling.tools`.
    pub reply: Reply,
    /// What it wants to call, in order.
    pub calls: Vec<ToolCall>,
    /// The question and the reply, to be closed with the results.
    pub exchange: OpenExchange,
}

/// Data. It is a [`Reply`], and has its fields and methods.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledSchema<T> {
    /// What the model said.
    pub reply: Reply,
    /// The data.
    pub parsed: T,
    /// The question and the reply, for a history.
    pub exchange: SampleExchange<T>,
}

/// Calls of tools. It is a [`Reply`], and has its fields and methods.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SampledTools {
    /// What the model said. The calls are `tool_use` blocks in it and its stop reason is `toolUse`, even if they came as
    /// text from a client without `sampling.tools`.
    pub reply: Reply,
    /// What it wants to call, in order: at least one.
    pub calls: ToolCalls,
    /// The question and the reply, to be closed with the results.
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

/// One call or more: `calls[0]` is always there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ToolCall>", into = "Vec<ToolCall>")]
pub struct ToolCalls(Vec<ToolCall>);

impl ToolCalls {
    /// Takes calls, if there are any.
    pub fn new(calls: Vec<ToolCall>) -> Option<Self> {
        (!calls.is_empty()).then_some(Self(calls))
    }

    /// The first.
    pub fn first(&self) -> &ToolCall {
        &self.0[0]
    }

    /// All of them.
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
