//! The host side of MCP: connects to servers, calls tools, and answers the questions that tools ask.
//!
//! An application that embeds MCP (a chat, an editor, an agent) defines once how to answer the questions of servers.
//! After that, the application connects to servers and calls tools. A [`Host`] answers sampling requests with a
//! [`Model`](antiphon_llm::Model), and shows forms and web pages to the user. A host supports both forms of questions:
//! results that require input (MCP 2026-07-28), and requests in a session (MCP 2025-11-25). If a connection is lost,
//! the host reconnects.
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
//! - [`Host`], [`HostBuilder`] and [`HostLimits`] define a host, its handlers and its limits.
//! - [`Endpoint`] and [`Lifecycle`] define the server to connect to, and the protocol revisions to use.
//! - [`Connection`] and [`Call`] send requests to a server.
//! - [`TaskHandle`], [`TaskCall`] and [`TaskInfo`] control tasks, which are tool calls that outlive their connection.
//! - [`Form`], [`FormHandler`], [`Defaults`], [`Page`], [`PageHandler`] and [`Approval`] bring the questions of
//!   servers to the user.
//! - [`Event`] and [`Round`] contain information that servers send in addition to their results.
//! - [`Frame`] contains one JSON-RPC message of a connection, for tools that show messages.
//! - `AuthConfig` and `Authorize` (feature `auth`) define how the host gets OAuth tokens for a server.
//! - `Proxy` and `ProxyConfig` (feature `proxy`) offer the tools of another server in an Antiphon server.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `http` | yes | `Endpoint::http` and `HttpEndpoint`, for servers over streamable HTTP |
//! | `process` | yes | `Endpoint::command`, for servers that the host starts as child processes |
//! | `websocket` | no | `Endpoint::websocket`, for servers over WebSocket |
//! | `sse` | no | `Endpoint::sse`, for servers over the HTTP+SSE transport of MCP 2024-11-05 |
//! | `results` | no | `Connection::dual_response` and `HostBuilder::with_results`, to fetch all rows of a result set |
//! | `auth` | no | `HttpEndpoint::with_auth` and `AuthConfig`, for OAuth over streamable HTTP |
//! | `auth-key` | no | `AuthConfig::client_key`, for OAuth clients with a private key |
//! | `auth-enterprise` | no | `AuthConfig::enterprise`, for authorization by an enterprise's identity provider |
//! | `proxy` | no | `Proxy`: an Antiphon server can offer the tools, prompts and resources of another server |
//! | `telemetry` | no | `HostBuilder::with_telemetry`, for spans and OpenTelemetry metrics |
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
mod frame;
mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod legacy_tasks_http;
mod ordered;
mod page;
#[cfg(feature = "process")]
mod process;
#[cfg(feature = "proxy")]
mod proxy;
#[cfg(feature = "results")]
mod results;
mod sampling;
mod stray;
mod task;
mod telemetry;

/// The MCP types that the methods of this crate return, as the SDK defines them.
pub mod model {
    pub use rmcp::model::{
        CallToolResult, CompleteResult, ContentBlock, GetPromptResult, Prompt, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate, Tool,
    };
}

/// The attribute macro that you need for implementations of [`CredentialStore`].
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
#[cfg(feature = "process")]
pub use crate::process::ProgramExited;
#[cfg(feature = "proxy")]
pub use crate::proxy::{Proxy, ProxyConfig};
#[cfg(feature = "telemetry")]
pub use crate::telemetry::Telemetry;
pub use crate::{
    answering::Root,
    connection::{Call, Connection, ServerInfo},
    endpoint::{Endpoint, Lifecycle},
    error::{Error, Result},
    event::{Event, Progress, Round},
    form::{BoxFuture, Choice, Defaults, Field, FieldKind, Form, FormHandler, Shown},
    frame::{Direction, Frame},
    host::{Host, HostBuilder, HostLimits},
    page::{Page, PageHandler},
    sampling::{Approval, Refused},
    stray::StrayOutput,
    task::{TaskCall, TaskHandle, TaskInfo, TaskListening, TaskStatus},
};
