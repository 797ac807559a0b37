//! A connection to a server.

mod call;
mod request;
mod rounds;
mod watching;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use antiphon_transport::revision::Revision;
use rmcp::{
    RoleClient,
    model::{CompleteResult, GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool},
    service::Peer,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::Mutex;

pub use self::call::Call;
pub(crate) use self::request::{Answer, Options, parse};
use self::{request::request, watching::Watching};
use crate::{
    answering::Answering,
    endpoint::{Endpoint, Lifecycle, Running},
    error::{Error, Result},
    event::Event,
    form::BoxFuture,
    host::HostLimits,
};

/// A connection to a server. A clone of a `Connection` is a handle to the same connection. The connection closes when
/// the last handle is dropped.
///
/// If the connection is lost, requests in flight fail with [`Error::Lost`], because the host cannot determine whether
/// the server executed these requests. If a lost request only reads data, the host sends the request again. The next
/// request after the loss opens a new connection.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Endpoint,
    answering: Answering,
    lifecycle: Lifecycle,
    limits: HostLimits,
    live: Mutex<Live>,
    #[cfg(feature = "results")]
    results: antiphon_results::client::DualResponseClient,
}

struct Live {
    running: Arc<Running>,
    watching: Watching,
}

impl Live {
    fn is_lost(&self) -> bool {
        self.running.peer().is_transport_closed() || self.running.is_closed()
    }
}

/// Information that a server sends about itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The name of the server, if the server sends its name.
    pub name: Option<String>,
    /// The version of the server, if the server sends its version.
    pub version: Option<String>,
    /// The instructions that describe to a model how to use the server, if the server sends instructions.
    pub instructions: Option<String>,
    /// The protocol revision that the host and the server use.
    pub revision: String,
    /// The capabilities of the server, as the server sent them.
    pub capabilities: Value,
}

impl Connection {
    pub(crate) fn open(
        endpoint: Endpoint,
        answering: Answering,
        lifecycle: Lifecycle,
        limits: HostLimits,
        #[cfg(feature = "results")] results: antiphon_results::client::DualResponseClient,
    ) -> BoxFuture<'static, Result<Self>> {
        Box::pin(async move {
            let running = endpoint.connect(&answering, lifecycle, limits.connect_timeout).await?;
            let running = Arc::new(running);
            let watching = Watching::begin(&running, &answering).await;
            let live = Mutex::new(Live { running, watching });
            let inner = Inner {
                endpoint,
                answering,
                lifecycle,
                limits,
                live,
                #[cfg(feature = "results")]
                results,
            };
            Ok(Self { inner: Arc::new(inner) })
        })
    }

    #[cfg(feature = "results")]
    pub(crate) fn results(&self) -> &antiphon_results::client::DualResponseClient {
        &self.inner.results
    }

    /// Returns the information that the server sent about itself.
    pub async fn server(&self) -> ServerInfo {
        let live = self.inner.live.lock().await;
        let info = live.running.peer().peer_info();
        let about = info.as_ref().and_then(|info| info.server_info.clone());
        ServerInfo {
            name: about.as_ref().map(|about| about.name.clone()),
            version: about.map(|about| about.version),
            instructions: info.as_ref().and_then(|info| info.instructions.clone()),
            revision: info.as_ref().map_or_else(String::new, |info| info.protocol_version.to_string()),
            capabilities: info
                .and_then(|info| serde_json::to_value(&info.capabilities).ok())
                .unwrap_or_default(),
        }
    }

    /// Lists all tools of the server. The host requests all pages of the list.
    pub async fn tools(&self) -> Result<Vec<Tool>> {
        let tools = self.list("tools/list", "tools").await?;
        self.inner.answering.events.tasks().learn(&tools);
        Ok(tools)
    }

    /// Lists all prompts of the server. The host requests all pages of the list.
    pub async fn prompts(&self) -> Result<Vec<Prompt>> {
        self.list("prompts/list", "prompts").await
    }

    /// Lists all resources of the server. The host requests all pages of the list.
    pub async fn resources(&self) -> Result<Vec<Resource>> {
        self.list("resources/list", "resources").await
    }

    /// Lists all resource templates of the server. The host requests all pages of the list.
    pub async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        self.list("resources/templates/list", "resourceTemplates").await
    }

    /// Calls a tool. The host answers the questions of the tool with the host's handlers. If the tool fails, the field
    /// `is_error` of the result is set.
    ///
    /// If the server runs the call as a task, the host waits for the result of the task. To get a handle to the task
    /// without waiting for the result, use [`Call::as_task`].
    ///
    /// # Cancel safety
    ///
    /// If you drop the future of a call, the host cancels the call at the server. If the call runs as a task, the host
    /// cancels the task.
    pub fn call(&self, tool: &str, arguments: impl Serialize) -> Call<'_> {
        let arguments = serde_json::to_value(arguments)
            .map_err(|error| format!("the arguments of `{tool}` cannot be written as JSON: {error}"));
        Call { connection: self, tool: tool.to_owned(), arguments, options: Options::default() }
    }

    /// Gets the messages of a prompt. The host answers the questions of the prompt with the host's handlers.
    pub async fn prompt(&self, name: &str, arguments: Value) -> Result<GetPromptResult> {
        let params = json!({"name": name, "arguments": arguments});
        self.converse("prompts/get", params, &Options::default()).await
    }

    /// Reads a resource. The host answers the questions of the resource with the host's handlers.
    pub async fn read(&self, uri: &str) -> Result<ReadResourceResult> {
        self.converse("resources/read", json!({"uri": uri}), &Options::default()).await
    }

    /// Requests suggestions for an argument of a prompt or of a resource template. `reference` names the prompt or the
    /// template in the format of MCP: `{"type": "ref/prompt", "name": "…"}`.
    pub async fn complete(&self, reference: Value, argument: &str, value: &str) -> Result<CompleteResult> {
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        parse("completion/complete", self.send_again("completion/complete", params).await?)
    }

    /// Subscribes to a resource, and calls `listener` whenever the resource changes, until you call
    /// [`unsubscribe`](Self::unsubscribe).
    pub async fn subscribe(&self, uri: &str, listener: impl Fn(&str) + Send + Sync + 'static) -> Result<()> {
        self.inner.answering.events.watch(uri, Arc::new(listener));
        self.watch_again("resources/subscribe", uri).await
    }

    /// Ends the subscription to a resource.
    pub async fn unsubscribe(&self, uri: &str) -> Result<()> {
        self.inner.answering.events.unwatch(uri);
        self.watch_again("resources/unsubscribe", uri).await
    }

    /// Sends the subscriptions to the server. On MCP 2026-07-28, the host sends all subscriptions. On earlier
    /// revisions, the host sends only the change of the subscription to `uri`, with `method`.
    async fn watch_again(&self, method: &str, uri: &str) -> Result<()> {
        let running = self.running().await?;
        if is_modern(running.peer()) {
            let mut live = self.inner.live.lock().await;
            live.watching = Watching::begin(&running, &self.inner.answering).await;
            return Ok(());
        }
        self.send(method, json!({"uri": uri}), &Options::default()).await.map(drop)
    }

    /// Sets the minimum level, from `debug` to `emergency`, of the log messages that an MCP 2025-11-25 server sends. On
    /// MCP 2026-07-28, set the level for each call with [`Call::log_level`].
    pub async fn set_log_level(&self, level: &str) -> Result<()> {
        self.send("logging/setLevel", json!({"level": level}), &Options::default()).await.map(drop)
    }

    /// Checks whether the server responds.
    pub async fn ping(&self) -> Result<()> {
        self.send_again("ping", json!({})).await.map(drop)
    }

    /// Sends a request with any method, for example a method that is not part of MCP. Returns the result of the
    /// request unchanged.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value> {
        self.send(method, params, &Options::default()).await
    }

    /// Closes the connection.
    pub async fn close(self) {
        let live = self.inner.live.lock().await;
        live.running.cancellation_token().cancel();
    }

    pub(crate) async fn list<T: DeserializeOwned>(&self, method: &str, field: &str) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen = BTreeSet::new();
        loop {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let mut page = self.send_again(method, params).await?;
            all.extend(parse::<Vec<T>>(method, page[field].take())?);
            // Stop at a repeated cursor, because the pages of a faulty server can form a cycle.
            match page["nextCursor"].as_str() {
                Some(next) if seen.insert(next.to_owned()) => cursor = Some(next.to_owned()),
                _ => return Ok(all),
            }
        }
    }

    /// Returns the connection, and reconnects if the connection was lost.
    ///
    /// `running`, [`open`](Self::open) and [`ask`](Self::ask) are not `async`, so this crate compiles their futures and
    /// the code of the SDK once. If the three methods were `async`, every program with a host would compile the futures
    /// and the SDK code again.
    fn running(&self) -> BoxFuture<'_, Result<Arc<Running>>> {
        Box::pin(self.connected())
    }

    async fn connected(&self) -> Result<Arc<Running>> {
        let inner = &*self.inner;
        let mut live = inner.live.lock().await;
        if !live.is_lost() {
            return Ok(Arc::clone(&live.running));
        }
        let mut wait = inner.limits.backoff;
        let mut tries = 0;
        let running = loop {
            let limit = inner.limits.connect_timeout;
            match inner.endpoint.connect(&inner.answering, inner.lifecycle, limit).await {
                Ok(running) => break Arc::new(running),
                // Do not retry after a failed authorization, so that the user is not asked several times.
                Err(error @ (Error::Unauthorized { .. } | Error::Authorization { .. })) => return Err(error),
                Err(error) => {
                    tries += 1;
                    if tries > inner.limits.reconnects {
                        return Err(error);
                    }
                    tokio::time::sleep(jittered(wait)).await;
                    wait = (wait * 2).min(inner.limits.max_backoff);
                }
            }
        };
        live.watching = Watching::begin(&running, &inner.answering).await;
        live.running = Arc::clone(&running);
        drop(live);
        if !is_modern(running.peer()) {
            for uri in inner.answering.events.watched() {
                let _ = request(
                    running.peer(),
                    "resources/subscribe",
                    json!({"uri": uri}),
                    &Options::default(),
                    inner,
                )
                .await;
            }
        }
        inner.answering.events.tell(Event::Reconnected);
        Ok(running)
    }

    /// Returns whether the connection uses 2026-07-28 or later.
    pub(crate) async fn speaks_modern(&self) -> Result<bool> {
        Ok(is_modern(self.running().await?.peer()))
    }

    /// Returns whether the connection uses 2026-07-28 or later. Returns `None` if the connection is lost or the host is
    /// reconnecting.
    #[cfg(feature = "proxy")]
    pub(crate) fn speaks_modern_now(&self) -> Option<bool> {
        let live = self.inner.live.try_lock().ok()?;
        if live.is_lost() { None } else { Some(is_modern(live.running.peer())) }
    }

    pub(crate) fn limits(&self) -> &HostLimits {
        &self.inner.limits
    }

    pub(crate) fn answering(&self) -> &Answering {
        &self.inner.answering
    }

    pub(crate) async fn send(&self, method: &str, params: Value, options: &Options) -> Result<Value> {
        self.ask(method, params, options).await.map(|answer| answer.value)
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: Value,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(self.ask_while_connected(method, params, options))
    }

    async fn ask_while_connected(&self, method: &str, params: Value, options: &Options) -> Result<Answer> {
        let mut attempt = self.inner.endpoint.attempt();
        loop {
            let running = self.running().await?;
            match request(running.peer(), method, params.clone(), options, &self.inner).await {
                // The server did not execute the rejected request, so the request can be sent again.
                Err(error @ Error::Unauthorized { .. }) => attempt.overcome(error).await?,
                answered => return answered,
            }
        }
    }

    /// Sends a read-only request. If the connection is lost, `send_again` sends the request once more.
    async fn send_again(&self, method: &str, params: Value) -> Result<Value> {
        match self.send(method, params.clone(), &Options::default()).await {
            Err(Error::Lost { .. }) => self.send(method, params, &Options::default()).await,
            answered => answered,
        }
    }
}

/// Shortens `wait` by a random part, so that many hosts do not reconnect at the same time.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let mut byte = [0; 1];
    let _ = getrandom::fill(&mut byte);
    wait.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}

fn is_modern(peer: &Peer<RoleClient>) -> bool {
    let Some(info) = peer.peer_info() else { return false };
    match Revision::of(Some(info.protocol_version.as_str())) {
        Revision::Rounds => true,
        Revision::Session => false,
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.inner.endpoint).finish_non_exhaustive()
    }
}
