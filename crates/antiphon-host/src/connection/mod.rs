//! A server, connected.

mod call;
mod request;
mod rounds;
mod watching;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        CompleteResult, GetPromptResult, Prompt, ProtocolVersion, ReadResourceResult, Resource,
        ResourceTemplate, ServerPeerInfo, Tool,
    },
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
    host::HostLimits,
};

/// A server, connected. Cloning it clones the handle; the last one closes the connection.
///
/// When the connection is lost, requests that were under way fail with [`Error::Lost`], because
/// nobody knows whether they were carried out; those that only read are made again. The next request
/// connects again.
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

/// What a server said of itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its name, if it said one.
    pub name: Option<String>,
    /// Its version, if it said one.
    pub version: Option<String>,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// The revision that is spoken.
    pub revision: String,
    /// What it can do, as it came.
    pub capabilities: Value,
}

impl Connection {
    pub(crate) async fn open(
        endpoint: Endpoint,
        answering: Answering,
        lifecycle: Lifecycle,
        limits: HostLimits,
        #[cfg(feature = "results")] results: antiphon_results::client::DualResponseClient,
    ) -> Result<Self> {
        let running = Arc::new(endpoint.connect(&answering, lifecycle).await?);
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
    }

    #[cfg(feature = "results")]
    pub(crate) fn results(&self) -> &antiphon_results::client::DualResponseClient {
        &self.inner.results
    }

    /// What the server said of itself.
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

    /// Its tools, all pages of them.
    pub async fn tools(&self) -> Result<Vec<Tool>> {
        let tools = self.list("tools/list", "tools").await?;
        self.inner.answering.events.tasks().learn(&tools);
        Ok(tools)
    }

    /// Its prompts, all pages of them.
    pub async fn prompts(&self) -> Result<Vec<Prompt>> {
        self.list("prompts/list", "prompts").await
    }

    /// Its resources, all pages of them.
    pub async fn resources(&self) -> Result<Vec<Resource>> {
        self.list("resources/list", "resources").await
    }

    /// Its resource templates, all pages of them.
    pub async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        self.list("resources/templates/list", "resourceTemplates").await
    }

    /// Calls a tool, answering what it asks on the way. That the tool failed is in the result; see
    /// `is_error`.
    ///
    /// If the server makes a task of the call, the task is followed to its end; to have it in hand
    /// instead, see [`Call::as_task`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it tells the server that the call is cancelled, and so is its task.
    pub fn call(&self, tool: &str, arguments: impl Serialize) -> Call<'_> {
        let arguments = serde_json::to_value(arguments)
            .map_err(|error| format!("the arguments of `{tool}` cannot be written as JSON: {error}"));
        Call { connection: self, tool: tool.to_owned(), arguments, options: Options::default() }
    }

    /// Gets a prompt, answering what it asks on the way.
    pub async fn prompt(&self, name: &str, arguments: Value) -> Result<GetPromptResult> {
        let params = json!({"name": name, "arguments": arguments});
        self.converse("prompts/get", params, &Options::default()).await
    }

    /// Reads a resource, answering what it asks on the way.
    pub async fn read(&self, uri: &str) -> Result<ReadResourceResult> {
        self.converse("resources/read", json!({"uri": uri}), &Options::default()).await
    }

    /// Completes an argument of a prompt or of a resource template; `reference` says of which, as
    /// MCP writes it: `{"type": "ref/prompt", "name": "…"}`.
    pub async fn complete(&self, reference: Value, argument: &str, value: &str) -> Result<CompleteResult> {
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        parse("completion/complete", self.send_again("completion/complete", params).await?)
    }

    /// Tells `listener` when the resource changes, until [`unsubscribe`](Self::unsubscribe).
    pub async fn subscribe(&self, uri: &str, listener: impl Fn(&str) + Send + Sync + 'static) -> Result<()> {
        self.inner.answering.events.watch(uri, Arc::new(listener));
        self.watch_again("resources/subscribe", uri).await
    }

    /// Ends a subscription.
    pub async fn unsubscribe(&self, uri: &str) -> Result<()> {
        self.inner.answering.events.unwatch(uri);
        self.watch_again("resources/unsubscribe", uri).await
    }

    /// Makes what is listened to known to the server: as a whole on 2026-07-28, by `method` before.
    async fn watch_again(&self, method: &str, uri: &str) -> Result<()> {
        let running = self.running().await?;
        if is_modern(running.peer()) {
            let mut live = self.inner.live.lock().await;
            live.watching = Watching::begin(&running, &self.inner.answering).await;
            return Ok(());
        }
        self.send(method, json!({"uri": uri}), &Options::default()).await.map(drop)
    }

    /// Sets how much of its log a 2025-11-25 server sends: `debug` to `emergency`. On 2026-07-28 each
    /// call says so for itself ([`Call::log_level`]).
    pub async fn set_log_level(&self, level: &str) -> Result<()> {
        self.send("logging/setLevel", json!({"level": level}), &Options::default()).await.map(drop)
    }

    /// Asks whether the server is there.
    pub async fn ping(&self) -> Result<()> {
        self.send_again("ping", json!({})).await.map(drop)
    }

    /// Makes a request that MCP does not know, and returns its result as it is.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value> {
        self.send(method, params, &Options::default()).await
    }

    /// Ends the connection.
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
            // A server whose pages go round in circles would keep us forever.
            match page["nextCursor"].as_str() {
                Some(next) if seen.insert(next.to_owned()) => cursor = Some(next.to_owned()),
                _ => return Ok(all),
            }
        }
    }

    /// The connection, made again if it was lost.
    async fn running(&self) -> Result<Arc<Running>> {
        let inner = &*self.inner;
        let mut live = inner.live.lock().await;
        if !live.running.peer().is_transport_closed() && !live.running.is_closed() {
            return Ok(Arc::clone(&live.running));
        }
        let mut wait = inner.limits.backoff;
        let mut tries = 0;
        let running = loop {
            match inner.endpoint.connect(&inner.answering, inner.lifecycle).await {
                Ok(running) => break Arc::new(running),
                // Who was turned away is turned away again, and a person is not asked five times.
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

    /// Which of the two kinds of revision is spoken: 2026-07-28 and later, or before.
    pub(crate) async fn speaks_modern(&self) -> Result<bool> {
        Ok(is_modern(self.running().await?.peer()))
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

    async fn ask(&self, method: &str, params: Value, options: &Options) -> Result<Answer> {
        let mut attempt = self.inner.endpoint.attempt();
        loop {
            let running = self.running().await?;
            match request(running.peer(), method, params.clone(), options, &self.inner).await {
                // Refused is not carried out, so it can be asked again.
                Err(error @ Error::Unauthorized { .. }) => attempt.overcome(error).await?,
                answered => return answered,
            }
        }
    }

    /// A request that only reads: made once more if the connection was lost under it.
    async fn send_again(&self, method: &str, params: Value) -> Result<Value> {
        match self.send(method, params.clone(), &Options::default()).await {
            Err(Error::Lost { .. }) => self.send(method, params, &Options::default()).await,
            answered => answered,
        }
    }
}

/// A random part less than `wait`, so that a thousand hosts do not come back at the same moment.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let mut byte = [0; 1];
    let _ = getrandom::fill(&mut byte);
    wait.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}

fn is_modern(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info()
        .is_some_and(|info: Arc<ServerPeerInfo>| info.protocol_version >= ProtocolVersion::V_2026_07_28)
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.inner.endpoint).finish_non_exhaustive()
    }
}
