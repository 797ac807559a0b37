//! A server framework for the [Model Context Protocol](https://modelcontextprotocol.io) (MCP):
//! tools that ask questions while they run, as plain async Rust.
//!
//! A tool is an async function. It asks the user with [`Ctx::elicit`] and a model with
//! [`Ctx::sample`], and continues with the answer:
//!
//! ```
//! use antiphon::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Name {
//!     /// What shall I call you?
//!     name: String,
//! }
//!
//! async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
//!     let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! # fn example() -> Result<(), antiphon::BuildError> {
//! let server = Server::builder("greeter", "1.0.0").tool(Tool::new("greet", "Greets you by name", greet)).build()?;
//! # let _ = server;
//! # Ok(())
//! # }
//! ```
//!
//! The same function runs on both protocol revisions (MCP versions):
//!
//! - **2025-11-25, live**: the server sends the question in the client's session, and the function
//!   waits in memory. Without a backend, several replicas need sticky routing by `Mcp-Session-Id`.
//! - **2026-07-28, by replay**: a server cannot send requests. The function is dropped at the question,
//!   and the server returns the encrypted journal of the run to the client. The client calls again with
//!   the answer, and any replica runs the function from the top with the journal's results. The server
//!   stores nothing between two questions.
//!
//! # The parts
//!
//! - [`Ctx`]: what a tool may ask, do and say. The rules of replay are in its docs.
//! - [`Tool`], [`Prompt`], [`Resource`], [`ResourceTemplate`]: functions that are served.
//! - [`Server`]: puts them together and serves them, over stdio, HTTP or any stream.
//! - [`SealConfig`], [`KeyRing`], [`Limits`], [`Quota`]: what a deployment sets.
//! - [`auth`] *(feature `auth`)*: who is calling, and what they may do.
//! - [`testing`] *(feature `testing`)*: a client that answers by script, and a way
//!   to move a tool to a fresh replica at every question.
//!
//! # Features
//!
//! | feature | default | what it gives |
//! |---|---|---|
//! | `stdio` | yes | [`Server::serve_stdio`](crate::Server::serve_stdio) |
//! | `validate` | yes | arguments and answers are checked against their whole JSON Schema, not only against their Rust type |
//! | `http` | | streamable HTTP: an axum router and a ready server |
//! | `auth` | | [`auth`]: callers over HTTP show who they are, with OAuth tokens, keys or certificates, and are held to scopes |
//! | `results` | | [`Ctx::dual_response`]: answers of more rows than a model can read; [`ResultTools`]: going on from them, and a viewer |
//! | `telemetry` | | [`ServerBuilder::with_telemetry`]: spans and OpenTelemetry metrics |
//! | `prometheus` | | [`Prometheus`]: metrics to be scraped, on OpenTelemetry's own exporter |
//! | `testing` | | [`testing`] |
//!
//! # Why not otherwise
//!
//! There is no macro: a function and one line say the same, errors point at your code, and the
//! editor can follow it. There is no store to run: a tool that only asks needs none.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    deprecated,
    reason = "sampling, roots and logging are deprecated in 2026-07-28 and served until they are removed"
)]

mod base;
mod changes;
mod ctx;
pub mod elicitation;
mod error;
mod exchange;
mod failure;
mod function;
#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzzing;
mod keep;
mod limits;
mod mcp;
pub mod model;
mod output;
mod prompt;
mod protocol;
mod registry;
mod resource;
#[cfg(feature = "results")]
mod results;
mod run;
pub mod sampling;
mod schema;
mod seal;
mod server;
mod task;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tool;
mod trace;

#[cfg(feature = "results")]
pub use crate::results::{RESULT_META, RESULT_VIEWER, ResultTools};
#[cfg(feature = "auth")]
pub use crate::server::auth;
#[cfg(feature = "http")]
#[doc(inline)]
pub use crate::server::{
    Health, HttpConfig, MemoryBudget, OperatorConfig, ServeConfig, serve, shutdown_signal,
};
#[cfg(feature = "prometheus")]
pub use crate::telemetry::Prometheus;
#[cfg(feature = "telemetry")]
pub use crate::telemetry::Telemetry;
pub use crate::{
    changes::Changes,
    ctx::{
        Answer, Branch, Ctx, Elicit, ElicitKey, ElicitUrl, ElicitValue, Elicited, ParseError, Progress,
        Prompted, Root, Roots, Sample, SampleConfig, Sampled, SampledCalls, SampledParsed, SampledSchema,
        SampledTools, SampledValue, Sleep, Step, ToolCalls, UrlElicited,
    },
    error::{BuildError, Capability, Error, ErrorKind, Result, SampleMethod, SampleValidationError},
    exchange::{AnyExchange, ElicitExchange, Exchange, History, HistoryError, OpenExchange, SampleExchange},
    function::Function,
    limits::{Limits, Quota, Rate},
    prompt::{Completion, IntoPrompt, Prompt},
    protocol::Level,
    resource::{Contents, IntoContents, Resource, ResourceTemplate},
    seal::{InspectError, KeyRing, KeyRingError, SealConfig, SealedCall, SealedEntry, SealedRun},
    server::{ServeError, Server, ServerBuilder},
    task::{RunChanged, RunEntry, RunEvent, RunPage, RunReport, RunSummary, Runs, TaskConfig, TaskStatus},
    tool::{
        ELICITS_META, IntoToolOutput, Json, RESERVED_TOOL, RetryPolicy, TaskPolicy, Tool, ToolCall,
        ToolOutput, ToolResult, handoff,
    },
};

/// What almost every tool needs.
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::{Ctx, Elicited, Error, Json, Progress, Result, Server, Tool};
}

/// The README's example is compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
