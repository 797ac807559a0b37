//! Serves the tools, prompts and resources of another MCP server in an Antiphon server.
//!
//! [`items`] creates the tools, prompts and resources. [`forward`] sends one request to the other server, and the
//! questions of the other server to the caller. [`pool`] contains the connections to the other server. [`conversation`]
//! contains the questions and notifications of a call.

mod config;
mod conversation;
mod forward;
mod items;
mod pool;

use std::{fmt, sync::Arc};

use antiphon::{Ctx, ServerBuilder, ToolOutput};
use serde::Serialize;
use serde_json::Value;

pub use self::config::ProxyConfig;
use self::{forward::Request, pool::Remote};
use crate::{connection::ServerInfo, endpoint::Endpoint, error::Result};

/// A proxy for another MCP server. Through the proxy, an Antiphon server offers the tools, prompts and resources of
/// the other server.
///
/// If a tool of the other server asks a question, the proxy asks the caller of the Antiphon server. The proxy forwards
/// questions, progress, log messages and results, for every combination of the protocol revisions 2025-11-25 and
/// 2026-07-28. The [guide](https://github.com/antiphon-rs/antiphon/blob/main/docs/guides/proxy.md) describes the limits
/// of proxies.
///
/// A clone of a `Proxy` is a handle to the same proxy.
///
/// ```no_run
/// use antiphon::Server;
/// use antiphon_host::{Endpoint, Proxy, ProxyConfig};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = ProxyConfig::default().with_prefix("weather_");
/// let weather = Proxy::connect_with(Endpoint::http("https://weather.example/mcp"), config).await?;
/// let server = weather.add_to(Server::builder("portal", "1.0.0")).await?.build()?;
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
///
/// # Security
///
/// The other server receives the arguments of a call and the answers of the user. The other server does not receive
/// credentials, headers or the identity of the caller. The caller's model receives descriptions and results of the
/// other server. So connect only to servers that you trust as much as your own tools.
#[derive(Clone)]
pub struct Proxy {
    remote: Arc<Remote>,
}

impl Proxy {
    /// Connects to a server with the default settings. To change the settings, use
    /// [`connect_with`](Self::connect_with).
    pub async fn connect(endpoint: impl Into<Endpoint>) -> Result<Self> {
        Self::connect_with(endpoint, ProxyConfig::default()).await
    }

    /// Connects to a server. Calls to an MCP 2025-11-25 server use further connections, which the proxy opens on
    /// demand.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Host::connect`](crate::Host::connect).
    pub async fn connect_with(endpoint: impl Into<Endpoint>, config: ProxyConfig) -> Result<Self> {
        Ok(Self { remote: Remote::connect(endpoint.into(), config).await? })
    }

    /// Returns the information that the other server sent about itself.
    pub async fn server(&self) -> ServerInfo {
        self.remote.shared.server().await
    }

    /// Adds all tools, prompts, resources and resource templates of the other server to `builder`.
    ///
    /// The proxy requests the lists during the call of `add_to`. If the list of tools changes later, call
    /// [`tools`](Self::tools) again, for example after [`Event::ToolsChanged`](crate::Event::ToolsChanged), and change
    /// your server with [`Server::add_tool`](antiphon::Server::add_tool).
    ///
    /// If `builder` already has a tool or prompt with the same name, or a resource with the same URI,
    /// [`ServerBuilder::build`] returns an error. [`ProxyConfig::with_prefix`] avoids equal names of tools and prompts.
    ///
    /// # Errors
    ///
    /// Returns an error if the proxy cannot get a list from the other server.
    pub async fn add_to(&self, builder: ServerBuilder) -> Result<ServerBuilder> {
        let mut builder = builder.tools(self.tools().await?);
        for prompt in self.prompts().await? {
            builder = builder.prompt(prompt);
        }
        for resource in self.resources().await? {
            builder = builder.resource(resource);
        }
        for template in self.resource_templates().await? {
            builder = builder.resource_template(template);
        }
        Ok(builder)
    }

    /// Calls a tool of the other server from a tool of your server. Each round with the other server is a
    /// [step](Ctx::step) of the run. Each question of the other server is a question of the run.
    ///
    /// `tool` is the name of the tool at the other server, without the prefix.
    ///
    /// # Errors
    ///
    /// Returns an error if the other server is not reachable, returns a JSON-RPC error, or exceeds a limit of
    /// [`ProxyConfig`]. If the tool itself fails, `call` returns no error, but a result with `is_error` set.
    ///
    /// # Examples
    ///
    /// ```
    /// use antiphon::prelude::*;
    /// use antiphon_host::Proxy;
    /// use serde_json::json;
    ///
    /// async fn report(ctx: &Ctx, State(weather): State<Proxy>, _: ()) -> Result<String> {
    ///     let forecast = weather.call(ctx, "forecast", json!({"city": "Kyiv"})).await?;
    ///     Ok(format!("{} blocks", forecast.content.len()))
    /// }
    /// ```
    pub async fn call(
        &self,
        ctx: &Ctx,
        tool: &str,
        arguments: impl Serialize,
    ) -> antiphon::Result<ToolOutput> {
        let arguments: Value = serde_json::to_value(arguments)?;
        let request = Request::tool(tool, arguments, self.remote.needs_task(tool));
        items::output(self.remote.forward(ctx, request).await?)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("remote", &self.remote).finish_non_exhaustive()
    }
}
