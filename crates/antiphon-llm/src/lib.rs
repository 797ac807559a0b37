//! One trait to a model, in MCP's own sampling types.
//!
//! A [`Model`] takes a [`Request`] and gives a [`Reply`]: the fields of `sampling/createMessage` and of
//! its result, so that what a client can be asked, a provider can be asked too.
//!
//! ```
//! # use antiphon_llm::{Error, Model, Request};
//! async fn ask(model: &dyn Model) -> Result<String, Error> {
//!     let reply = model.reply(&Request::prompt("Why is the sky blue?")).await?;
//!     Ok(reply.text())
//! }
//! ```
//!
//! # The parts
//!
//! - [`Message`], [`Block`], [`Content`], [`ToolCall`]: what is said, in content blocks.
//! - [`Request`], [`Reply`]: a question and its answer.
//! - [`OutputSchema`]: data instead of prose, by the reserved tool [`SCHEMA_TOOL`].
//! - [`plain`]: tools for those who have none.
//! - [`Conversation::from_openai`]: histories in another house's style.
//! - [`Budgeted`]: what a model may cost.
//! - `Observed`: what it did cost, and how long it took.
//! - `providers`: models behind the APIs of OpenAI, Anthropic, Gemini, Ollama and their kind.
//!
//! # Features
//!
//! None is on by default: what a tool author's crate needs of this one is its types.
//!
//! | feature | what it gives |
//! |---|---|
//! | `scripted` | `Scripted`, a model that replies by script, for tests |
//! | `providers` | `providers`: `OpenAi`, `OpenAiResponses`, `OpenAiCompatible`, `Anthropic`, `Gemini`, `Ollama`, and `Rig` for the rest; needs Rust 1.95 |
//! | `telemetry` | `Observed`, a model whose calls are spans and are measured |
//! | `conformance` | the laws of [`Model`], for the tests of a model of your own |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod limits;
mod message;
mod model;
#[cfg(feature = "telemetry")]
mod observed;
pub mod plain;
#[cfg(feature = "providers")]
pub mod providers;
mod reply;
mod request;
#[cfg(feature = "scripted")]
mod scripted;
mod structured;

#[cfg(feature = "telemetry")]
pub use crate::observed::{OPERATION_DURATION, Observed, TOKEN_USAGE};
#[cfg(feature = "scripted")]
pub use crate::scripted::Scripted;
pub use crate::{
    error::{Error, Result},
    limits::{Budget, Budgeted},
    message::{
        Block, Content, Conversation, IntoBlocks, MediaBlock, Message, OpenAiHistoryError, Role, TextBlock,
        ToolCall, ToolResultBlock, ToolUseBlock,
    },
    model::{BoxFuture, Model},
    reply::{Reply, USAGE_META, Usage, stop},
    request::{
        DEFAULT_MAX_TOKENS, IncludeContext, ModelHint, ModelPreferences, Request, ToolChoice, ToolDefinition,
    },
    structured::{OutputSchema, SCHEMA_TOOL, SCHEMA_TOOL_DESCRIPTION, json_in, schema_of},
};
