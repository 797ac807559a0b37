//! The host side of MCP: connects to servers, calls tools and answers questions.
//!
//! An application that embeds MCP (a chat, an editor, an agent) defines once how to answer the questions of servers.
//! Then it connects and calls tools. A [`Host`] answers sampling requests with a [`Model`](antiphon_llm::Model), and
//! shows forms and web pages. It supports the rounds of 2026-07-28 and the live requests of 2025-11-25. It reconnects
//! after a lost connection.
//!
//! ```no_run
//! use antiphon_host::{Defaults, Endpoint, Host};
//! use serde_json::json;
//!
//! # async fn example() -> antiphon_host::Result<()> {
//! let host = Host::builder("batch", "1.0.0").with_forms(Defaults).build();
//! let server = host.connect(Endpoint::command("my-server", ["--quiet"])).await?;
//! for tool in server.tools().await? {
//!     println!("{}", tool.name);
//! }
//! let result = server.call("report", json!({"month": "May"})).progress(|p| println!("{}", p.progress)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Main types
//!
//! - [`Host`], [`HostBuilder`], [`HostLimits`]: the host, its handlers and its limits.
//! - [`Endpoint`], [`Lifecycle`]: the servers, and the protocol revisions to use.
//! - [`Connection`], [`Call`]: requests to a server.
//! - [`TaskHandle`], [`TaskCall`], [`TaskInfo`]: calls that outlive their connection.
//! - [`Form`], [`FormHandler`], [`Defaults`], [`Page`], [`PageHandler`], [`Approval`]: questions to the user.
//! - [`Event`], [`Round`]: events that servers send in addition to their responses.
//! - `AuthConfig`, `Authorize` (feature `auth`): authorization at a server.
//!
//! # Features
//!
//! | feature | default | what it gives |
//! |---|---|---|
//! | `http` | yes | streamable HTTP: `Endpoint::http`, `HttpEndpoint` |
//! | `process` | yes | servers as child processes: `Endpoint::command` |
//! | `websocket` | | WebSocket: `Endpoint::websocket` |
//! | `sse` | | the HTTP+SSE of 2024-11-05: `Endpoint::sse` |
//! | `results` | | dual responses: `Connection::dual_response`, `HostBuilder::with_results` |
//! | `auth` | | OAuth for streamable HTTP: `HttpEndpoint::with_auth`, `AuthConfig` |
//! | `auth-key` | | clients with a private key: `AuthConfig::client_key` |
//! | `auth-enterprise` | | authorization by an enterprise's identity provider: `AuthConfig::enterprise` |
//! | `telemetry` | | spans and OpenTelemetry metrics: `HostBuilder::with_telemetry` |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    deprecated,
    reason = "sampling, roots and logging are deprecated in 2026-07-28 and answered until they are removed"
)]

mod answering;
#[cfg(feature = "auth")]
mod auth;
mod connection;
mod endpoint;
mod error;
mod event;
mod form;
mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod legacy_tasks_http;
mod ordered;
mod page;
#[cfg(feature = "process")]
mod process;
#[cfg(feature = "results")]
mod results;
mod sampling;
mod task;
mod telemetry;

/// Types of MCP, as the SDK defines them.
pub mod model {
    pub use rmcp::model::{
        CallToolResult, CompleteResult, ContentBlock, GetPromptResult, Prompt, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate, Tool,
    };
}

/// The attribute for implementations of [`CredentialStore`].
#[cfg(feature = "auth")]
pub use async_trait::async_trait;

#[cfg(feature = "auth-key")]
pub use crate::auth::SigningAlgorithm;
#[cfg(feature = "auth")]
pub use crate::auth::{
    AuthConfig, Authorize, CredentialError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
    Unattended,
};
#[cfg(feature = "auth-enterprise")]
pub use crate::auth::{Enterprise, IdToken};
#[cfg(feature = "http")]
pub use crate::http::HttpEndpoint;
#[cfg(feature = "telemetry")]
pub use crate::telemetry::Telemetry;
pub use crate::{
    answering::Root,
    connection::{Call, Connection, ServerInfo},
    endpoint::{Endpoint, Lifecycle},
    error::{Error, Result},
    event::{Event, Progress, Round},
    form::{BoxFuture, Choice, Defaults, Field, FieldKind, Form, FormHandler, Shown},
    host::{Host, HostBuilder, HostLimits},
    page::{Page, PageHandler},
    sampling::{Approval, Refused},
    task::{TaskCall, TaskHandle, TaskInfo, TaskListening, TaskStatus},
};
