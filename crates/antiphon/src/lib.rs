//! A server framework for the [Model Context Protocol](https://modelcontextprotocol.io) (MCP). With Antiphon, you write
//! tools that ask questions while they run, as plain async Rust.
//!
//! A tool is an async function. The function asks the user with [`Ctx::elicit`] or a model with [`Ctx::sample`], and
//! continues with the answer:
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
//! - **MCP 2025-11-25, live**: the server sends the question in the client's session, and the function waits in
//!   memory. If you run several replicas without a backend, the load balancer must route requests by `Mcp-Session-Id`.
//! - **MCP 2026-07-28, by replay**: a server cannot send requests. At a question, the server stops the function. The
//!   server returns the question to the client, together with the encrypted journal. The journal contains the results
//!   of earlier questions and steps. To continue the run, the client calls the tool again with the answer and the
//!   journal. With the journal, any replica can run the function from the top and reuse the results in the journal.
//!   Without a backend, the server stores nothing between two questions.
//!
//! # The parts
//!
//! - [`Ctx`]: the methods with which a tool asks questions, runs steps and sends notifications. The documentation of
//!   `Ctx` explains the rules of replay.
//! - [`Tool`], [`Prompt`], [`Resource`], [`ResourceTemplate`]: the items that a server offers to clients. You create
//!   tools, prompts and resources from functions.
//! - [`Server`]: serves tools, prompts and resources over stdio, HTTP or any stream.
//! - [`State`], [`bind`]: shared values for tools, for example a connection pool.
//! - [`limits`], [`seal`], [`task`], [`http`](mod@http), [`telemetry`]: the settings of a deployment.
//! - [`elicitation`], [`sampling`], [`exchange`]: the types of questions and answers.
//! - [`middleware`]: layers that log, reject or change MCP requests.
//! - [`auth`] *(feature `auth`)*: authentication and authorization of callers.
//! - [`testing`] *(feature `testing`)*: a test client with scripted answers, and a test harness that resumes a tool on
//!   a new replica after every question.
//! - [`store`], [`llm`], [`transport`], `results`, `snapshot`: other crates of Antiphon, re-exported. You do not need
//!   to add these crates to your `Cargo.toml`.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `stdio` | yes | serving over standard input and output: [`Server::serve_stdio`](crate::Server::serve_stdio) |
//! | `validate` | yes | the server also checks arguments and answers against their full JSON Schema |
//! | `anyhow` | yes | `?` converts [`Error`] into `anyhow::Error` |
//! | `eyre` | | `?` converts [`Error`] into `eyre::Report` |
//! | `http` | | serving over streamable HTTP, with an axum router or a complete HTTP server |
//! | `auth` | | [`auth`]: authentication over HTTP with OAuth tokens, API keys or client certificates, and scopes |
//! | `websocket`, `sse` | | MCP over WebSocket, and over the HTTP+SSE transport of MCP 2024-11-05: [`transport`] |
//! | `postgres`, `redis`, `nats` | | backends for several replicas: [`store`]. `tls` adds TLS to PostgreSQL and Redis |
//! | `providers` | | clients for the models of OpenAI, Anthropic, Gemini and Ollama: [`llm`] |
//! | `results` | | [`Ctx::dual_response`]: tools can return result sets that have more rows than a model can read |
//! | `rest` | | HTTP routes with which applications read the rows of result sets |
//! | `snapshot` | | snapshots: result sets whose rows the server saves as Parquet |
//! | `aws`, `azure`, `gcp` | | snapshots in the object stores of AWS, Azure and Google Cloud |
//! | `sql`, `xlsx` | | SQL queries over snapshots, and the export of snapshots as Excel workbooks |
//! | `postgres`, `mysql`, `sqlite` | | result sets from PostgreSQL, MySQL or SQLite, with `results` or `snapshot` |
//! | `telemetry`, `prometheus` | | `tracing` spans and OpenTelemetry metrics, and the HTTP route `/metrics` |
//! | `testing` | | [`testing`]: a test client and a test harness for your tools |
//!
//! # Design choices
//!
//! Antiphon has no macros, so compiler errors point at your code, and editors can navigate your code. You write a tool
//! as a function, and register the function with one line of code. A tool that only asks questions needs no database.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    deprecated,
    reason = "sampling, roots and logging are deprecated in 2026-07-28 and served until they are removed"
)]

mod asking;
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
pub mod middleware;
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
#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub mod simulation;
pub mod task;
pub mod telemetry;
#[cfg(any(feature = "testing", feature = "__profiles"))]
pub mod testing;
pub mod tool;
mod trace;
mod url_elicitation;
mod visibility;

pub use antiphon_llm as llm;
#[cfg(feature = "snapshot")]
pub use antiphon_snapshot as snapshot;
pub use antiphon_store as store;
pub use antiphon_transport as transport;

#[cfg(feature = "auth")]
pub use crate::server::http::auth;
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
    server::{Items, ServeError, Server, ServerBuilder},
    tool::{Json, Tool, ToolOutput, ToolResult},
};

/// The types, traits and functions that almost every tool needs. Import all items of this module with `use
/// antiphon::prelude::*`.
pub mod prelude {
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::{Ctx, Elicited, Error, Json, Progress, Result, Server, State, Tool};
}

/// Compiles the example in the README file.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
