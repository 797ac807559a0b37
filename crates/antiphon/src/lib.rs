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
//! - [`State`], [`bind`]: a pool or a client for tools.
//! - [`limits`], [`seal`], [`task`], [`http`](mod@http), [`telemetry`]: what a deployment sets.
//! - [`elicitation`], [`sampling`], [`exchange`]: what questions and answers look like.
//! - [`auth`] *(feature `auth`)*: who is calling, and what they may do.
//! - [`testing`] *(feature `testing`)*: a client that answers by script, and a way
//!   to move a tool to a fresh replica at every question.
//! - [`store`], [`llm`], [`transport`], `results`, `snapshot`: the other crates of Antiphon that a server uses. A server
//!   needs no other line in its `Cargo.toml` for them.
//!
//! # Features
//!
//! | feature | default | what it gives |
//! |---|---|---|
//! | `stdio` | yes | [`Server::serve_stdio`](crate::Server::serve_stdio) |
//! | `validate` | yes | arguments and answers are checked against their whole JSON Schema, not only against their Rust type |
//! | `anyhow` | yes | `?` converts [`Error`] into `anyhow::Error`; the feature `eyre` does the same for `eyre::Report` |
//! | `http` | | streamable HTTP: an axum router and a ready server |
//! | `auth` | | [`auth`]: callers over HTTP show who they are, with OAuth tokens, keys or certificates, and are held to scopes |
//! | `websocket`, `sse` | | the other transports over HTTP |
//! | `postgres`, `redis`, `nats` | | backends that replicas share: [`store`]. `tls` adds TLS to PostgreSQL and Redis |
//! | `providers` | | models of OpenAI, Anthropic, Gemini and Ollama: [`llm`] |
//! | `results` | | [`Ctx::dual_response`]: answers with more rows than a model can read. `rest` adds their routes |
//! | `snapshot` | | result sets whose rows are saved. `aws`, `azure`, `gcp`, `sql`, `xlsx` add object stores, queries and workbooks |
//! | `postgres`, `mysql`, `sqlite` | | with `results` or `snapshot`: rows from these databases |
//! | `telemetry`, `prometheus` | | spans and OpenTelemetry metrics; `/metrics` |
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

/// What almost every tool needs.
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::{Ctx, Elicited, Error, Json, Progress, Result, Server, State, Tool};
}

/// The README's example is compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
