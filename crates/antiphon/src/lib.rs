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
//! The same function runs on both protocol revisions (versions of MCP):
//!
//! - **2025-11-25, live**: the server sends the question in the client's session, and the function waits in memory.
//!   Without a backend, several replicas need sticky routing by `Mcp-Session-Id`.
//! - **2026-07-28, by replay**: a server cannot send requests. At the question, the server drops the function and
//!   returns the encrypted journal of the run to the client. The client calls again with the answer. Any replica can
//!   then run the function from the top with the journal's results. The server stores nothing between two questions.
//!
//! # The parts
//!
//! - [`Ctx`]: the questions, steps and notifications of a tool. Its documentation has the rules of replay.
//! - [`Tool`], [`Prompt`], [`Resource`], [`ResourceTemplate`]: the items that a server offers, made from functions.
//! - [`Server`]: serves these items over stdio, HTTP or any stream.
//! - [`State`], [`bind`]: shared values for tools, for example a connection pool.
//! - [`limits`], [`seal`], [`task`], [`http`](mod@http), [`telemetry`]: the settings of a deployment.
//! - [`elicitation`], [`sampling`], [`exchange`]: the types of questions and answers.
//! - [`auth`] *(feature `auth`)*: authentication and authorization of callers.
//! - [`testing`] *(feature `testing`)*: a client with scripted answers, and a harness that moves a tool to a new
//!   replica at every question.
//! - [`store`], [`llm`], [`transport`], `results`, `snapshot`: other crates of Antiphon, re-exported. You do not need
//!   to add them to your `Cargo.toml`.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `stdio` | yes | [`Server::serve_stdio`](crate::Server::serve_stdio) |
//! | `validate` | yes | checks arguments and answers against their complete JSON Schema, not only against their Rust type |
//! | `anyhow` | yes | `?` converts [`Error`] into `anyhow::Error`. The feature `eyre` does the same for `eyre::Report` |
//! | `http` | | streamable HTTP: an axum router and a ready server |
//! | `auth` | | [`auth`]: authenticates HTTP callers with OAuth tokens, API keys or client certificates, and checks scopes |
//! | `websocket`, `sse` | | the other transports over HTTP |
//! | `postgres`, `redis`, `nats` | | backends for several replicas: [`store`]. `tls` adds TLS to PostgreSQL and Redis |
//! | `providers` | | models of OpenAI, Anthropic, Gemini and Ollama: [`llm`] |
//! | `results` | | [`Ctx::dual_response`]: answers with more rows than a model can read. `rest` adds HTTP routes for them |
//! | `snapshot` | | result sets with saved rows. `aws`, `azure`, `gcp`, `sql`, `xlsx` add object stores, queries and workbooks |
//! | `postgres`, `mysql`, `sqlite` | | with `results` or `snapshot`: rows from these databases |
//! | `telemetry`, `prometheus` | | spans and OpenTelemetry metrics, and the route `/metrics` |
//! | `testing` | | [`testing`] |
//!
//! # Design choices
//!
//! Antiphon has no macro. A function and one line of code are enough, compiler errors point at your code, and the
//! editor can follow it. A tool that only asks questions needs no store.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    deprecated,
    reason = "sampling, roots and logging are deprecated in 2026-07-28 and served until they are removed"
)]

mod base;
mod changes;
pub mod ctx;
mod durable;
pub mod elicitation;
mod error;
pub mod exchange;
mod failure;
mod function;
#[cfg(feature = "__fuzz")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "http")]
pub mod http;
pub mod limits;
mod mcp;
pub mod model;
mod output;
pub mod prompt;
mod protocol;
mod registry;
pub mod resource;
#[cfg(feature = "results")]
pub mod results;
mod run;
pub mod sampling;
mod schema;
pub mod seal;
mod server;
pub mod task;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;
mod trace;
mod url_elicitation;

pub use antiphon_llm as llm;
#[cfg(feature = "snapshot")]
pub use antiphon_snapshot as snapshot;
pub use antiphon_store as store;
pub use antiphon_transport as transport;

#[cfg(feature = "auth")]
pub use crate::server::auth;
#[doc(inline)]
pub use crate::{
    changes::Changes,
    ctx::{Ctx, Elicited, Progress},
    error::{BuildError, Capability, Error, ErrorKind, Result},
    function::{State, bind},
    limits::Limits,
    prompt::Prompt,
    protocol::Level,
    resource::{Resource, ResourceTemplate},
    server::{ServeError, Server, ServerBuilder},
    tool::{Json, Tool, ToolOutput, ToolResult},
};

/// The items that almost every tool needs.
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::{Ctx, Elicited, Error, Json, Progress, Result, Server, State, Tool};
}

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
