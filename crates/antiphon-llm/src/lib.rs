//! A trait for language models, which uses the sampling types of MCP.
//!
//! A [`Model`] takes a [`Request`] and returns a [`Reply`]. A request has the fields of MCP's
//! `sampling/createMessage`, and a reply has the fields of the result. So the model of a provider can answer the same
//! requests as the model of a client.
//!
//! ```
//! # use antiphon_llm::{Error, Model, Request};
//! async fn ask(model: &dyn Model) -> Result<String, Error> {
//!     let reply = model.reply(&Request::prompt("Why is the sky blue?")).await?;
//!     Ok(reply.text())
//! }
//! ```
//!
//! # Main types
//!
//! - [`Message`], [`Block`], [`Content`], [`ToolCall`]: the messages of a conversation, and their content blocks.
//! - [`Request`], [`Reply`]: a request to a model and its reply.
//! - [`OutputSchema`]: requests structured data instead of text, with the reserved tool [`SCHEMA_TOOL`].
//! - [`plain`]: offers tools to models and clients that do not support tools.
//! - [`Conversation::from_openai`]: reads histories in the format of OpenAI.
//! - [`Budgeted`]: limits the requests and tokens of a model.
//! - `Observed`: records metrics and spans of a model.
//! - `providers`: models behind the APIs of providers. The module contains the types `OpenAi`, `OpenAiResponses`,
//!   `OpenAiCompatible`, `Anthropic`, `Gemini`, `Ollama`, and `Rig` for other APIs.
//!
//! # Features
//!
//! No feature of this crate is enabled by default, because tool authors need only the types for requests and replies.
//!
//! | feature | adds |
//! |---|---|
//! | `scripted` | `Scripted`, a model with fixed replies, for tests |
//! | `providers` | the module `providers`: models behind the APIs of providers such as OpenAI. Requires Rust 1.95 |
//! | `telemetry` | `Observed`, which records the requests to a model as spans and metrics |
//! | `conformance` | the contract tests of [`Model`], for the tests of your own model |
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
