//! The connections to the other server.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon::{Ctx, Level};
use rmcp::ErrorData;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    ProxyConfig,
    conversation::{Conversation, Current, Entered, name_of_level},
};
use crate::{
    connection::Connection,
    endpoint::Endpoint,
    error::{Error, Result},
    event::Event,
    form::BoxFuture,
    host::{Host, HostLimits},
};

/// The other server (the proxied server), with its connections and open calls.
pub(super) struct Remote {
    endpoint: Endpoint,
    pub(super) config: ProxyConfig,
    /// The name of the other server for callers. The name of the endpoint can be a URL with secrets.
    label: String,
    /// The connection that lists tools, prompts and resources. All calls to a 2026-07-28 server also use this
    /// connection. A server program can keep its tasks and the keys of its `requestState` in memory, so all calls must
    /// use one connection.
    pub(super) shared: Connection,
    /// Whether the connection `shared` used MCP 2026-07-28 when `shared` was last open.
    is_modern: AtomicBool,
    /// The last reconnect of `shared`.
    reconnect: Mutex<Option<Reconnect>>,
    /// The calls and tasks that the other server executes on `shared`.
    pub(super) current: Arc<Current>,
    permits: Arc<Semaphore>,
    pool: Mutex<Pool>,
    /// The open calls to a 2025-11-25 server. The key of each call is a random ID.
    calls: Mutex<HashMap<String, OpenCall>>,
    /// The names of the tools that a 2025-11-25 server can run only as tasks.
    tasks: Mutex<BTreeSet<String>>,
}

/// A reconnect, for which several calls can wait. The value of the channel is `None` until the reconnect has ended.
type Reconnect = watch::Receiver<Option<Reconnected>>;

/// The result of a reconnect that has ended.
#[derive(Clone)]
struct Reconnected {
    at: Instant,
    is_modern: Result<bool, Arc<Error>>,
}

/// An open call to a 2025-11-25 server.
pub(super) struct OpenCall {
    pub(super) principal: Option<String>,
    pub(super) conversation: Arc<Conversation>,
}

/// The connections to a 2025-11-25 server that no call uses.
#[derive(Default)]
struct Pool {
    /// The unused connections. The connection that was unused for the longest time comes first.
    idle: Vec<Idle>,
    /// Whether a Tokio task waits to close the connections.
    has_timer: bool,
}

/// A connection to a 2025-11-25 server that no call uses.
struct Idle {
    open: Open,
    since: Instant,
}

struct Open {
    owner: Owner,
    connection: Connection,
    current: Arc<Current>,
    /// The log level of the session.
    level: Option<Level>,
}

/// The caller for which a connection is used: a principal, and the capabilities that the connection declares. Two
/// different callers never use the same connection.
#[derive(Clone, PartialEq)]
pub(super) struct Owner {
    principal: Option<String>,
    pub(super) capabilities: Value,
}

impl Owner {
    pub(super) fn of(ctx: &Ctx) -> Self {
        let mut capabilities = ctx.question_capabilities();
        capabilities["extensions"] = json!({rmcp::model::TASKS_EXTENSION_ID: {}});
        Self { principal: ctx.principal().map(str::to_owned), capabilities }
    }
}

/// How long an unused connection stays open.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// How long new calls receive the error of a failed reconnect before the proxy tries to reconnect again.
const FAILED: Duration = Duration::from_secs(1);

impl Remote {
    pub(super) async fn connect(endpoint: Endpoint, config: ProxyConfig) -> Result<Arc<Self>> {
        let current = Arc::<Current>::default();
        let (told, listener) = (Arc::clone(&current), config.events.clone());
        let host = Host::builder(config.name.clone(), env!("CARGO_PKG_VERSION"))
            .with_lifecycle(config.lifecycle)
            .with_limits(HostLimits::default().with_timeout(config.timeout))
            .with_capabilities(json!({"extensions": {rmcp::model::TASKS_EXTENSION_ID: {}}}))
            .with_events(move |event| {
                match event {
                    // The message can contain data of the caller, so only that caller receives the message.
                    Event::Log { .. } => {
                        if let Some(conversation) = told.only() {
                            conversation.event(event);
                        }
                    }
                    Event::Task(_) | Event::Progress(_) => {}
                    event => {
                        if let Some(listener) = &listener {
                            listener(event);
                        }
                    }
                }
            });
        let shared = host.build().connect(endpoint.clone()).await?;
        let is_modern = shared.speaks_modern().await?;
        Ok(Arc::new(Self {
            label: label(&config.prefix, shared.server().await.name),
            endpoint,
            shared,
            is_modern: AtomicBool::new(is_modern),
            reconnect: Mutex::default(),
            current,
            permits: Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS))),
            config,
            pool: Mutex::default(),
            calls: Mutex::default(),
            tasks: Mutex::default(),
        }))
    }

    /// Returns the name of the endpoint, for the log. The name of an endpoint can be a URL with secrets.
    pub(super) fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// Returns the name of the other server for callers.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Returns whether the other server uses 2026-07-28 or later. If the shared connection was lost, calls to a
    /// 2026-07-28 server wait until the connection is open again. Calls to a 2025-11-25 server use other connections.
    pub(super) async fn speaks_modern(&self) -> Result<bool, Arc<Error>> {
        if let Some(is_modern) = self.shared.speaks_modern_now() {
            self.is_modern.store(is_modern, Ordering::Relaxed);
            return Ok(is_modern);
        }
        let mut reconnect = self.reconnect();
        if !self.is_modern.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let ended = async { reconnect.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()) };
        match timeout(self.config.timeout, ended).await {
            Ok(Some(reconnected)) => reconnected.is_modern,
            Ok(None) | Err(_) => Err(Arc::new(self.no_connection())),
        }
    }

    /// Reconnects the shared connection. If a reconnect is in progress or has just failed, `reconnect` returns the
    /// existing reconnect. A reconnect continues even if no call waits for its end, so the time limit of a call does
    /// not end the reconnect.
    fn reconnect(&self) -> Reconnect {
        let mut last = lock(&self.reconnect);
        if let Some(reconnect) = &*last {
            let is_current = match &*reconnect.borrow() {
                // The sender is dropped if the reconnect panics.
                None => reconnect.has_changed().is_ok(),
                Some(ended) => ended.is_modern.is_err() && ended.at.elapsed() < FAILED,
            };
            if is_current {
                return reconnect.clone();
            }
        }
        let (ended, reconnect) = watch::channel(None);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            let is_modern = shared.speaks_modern().await.map_err(Arc::new);
            let _ = ended.send(Some(Reconnected { at: Instant::now(), is_modern }));
        });
        *last = Some(reconnect.clone());
        reconnect
    }

    fn no_connection(&self) -> Error {
        let limit = self.config.timeout;
        let problem =
            format!("the connection did not open within {limit:?}; raise `ProxyConfig::with_timeout`");
        Error::Connect { endpoint: self.name().to_owned(), source: problem.into() }
    }

    /// Stores which tools must run as tasks.
    pub(super) fn learn_tasks(&self, tools: BTreeSet<String>) {
        *lock(&self.tasks) = tools;
    }

    pub(super) fn needs_task(&self, tool: &str) -> bool {
        lock(&self.tasks).contains(tool)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<String, OpenCall>> {
        lock(&self.calls)
    }

    /// Cancels the calls of `principal` that have waited longest for answers, if too many calls wait. Each waiting call
    /// uses a connection, so without a limit, one caller could block all other callers.
    pub(super) fn limit_waiting(&self, principal: Option<&str>) {
        let most = self.config.max_waiting(principal);
        let calls = self.calls();
        let mut waiting: Vec<(Instant, &OpenCall)> = calls
            .values()
            .filter(|call| call.principal.as_deref() == principal)
            .filter_map(|call| Some((call.conversation.waiting_since()?, call)))
            .collect();
        waiting.sort_by_key(|(since, _)| *since);
        let surplus = waiting.len().saturating_sub(most);
        for (_, call) in waiting.into_iter().take(surplus) {
            call.conversation.evict(format!(
                "the call was cancelled: later calls reached the limit of {most} calls that wait for answers; answer questions before you call further tools, or raise `ProxyConfig::with_max_connections`"
            ));
        }
    }

    /// Waits until the limit on concurrent calls allows another call.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = timeout(self.config.timeout, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            let most = self.config.max_connections;
            return Err(Error::Misuse(format!(
                "the limit of {most} concurrent calls is reached; raise `ProxyConfig::with_max_connections`"
            )));
        };
        Ok(permit)
    }

    /// Takes a connection to a 2025-11-25 server for one call of `owner`. Requests log messages of at least the level
    /// `level`.
    pub(super) async fn lease(self: &Arc<Self>, owner: Owner, level: Option<Level>) -> Result<Lease> {
        let permit = self.permit().await?;
        let mut open = if let Some(open) = self.take_idle(&owner) {
            open
        } else {
            self.make_room();
            let opening = timeout(self.config.timeout, self.open(owner)).await;
            opening.map_err(|_| self.no_connection())??
        };
        if level.is_some() && level != open.level {
            open.level = level;
            let name = level.map_or("info", name_of_level);
            // A server without log messages rejects the request.
            let _ = timeout(self.config.timeout, open.connection.set_log_level(name)).await;
        }
        Ok(Lease { remote: Arc::clone(self), open: Some(open), is_reusable: false, _permit: permit })
    }

    /// Returns an unused connection of the owner `owner`.
    fn take_idle(&self, owner: &Owner) -> Option<Open> {
        let mut pool = lock(&self.pool);
        let at = pool.idle.iter().rposition(|idle| idle.open.owner == *owner)?;
        Some(pool.idle.remove(at).open)
    }

    /// Closes unused connections if necessary, so that a call with a permit can open a connection without exceeding the
    /// limit.
    fn make_room(&self) {
        let mut pool = lock(&self.pool);
        let surplus = pool.idle.len().saturating_sub(self.permits.available_permits());
        pool.idle.drain(..surplus);
    }

    /// Closes each connection that was unused for [`IDLE`], until all connections are in use or closed.
    async fn close_unused(remote: Weak<Self>) {
        while let Some(next) = remote.upgrade().and_then(|remote| remote.close_expired()) {
            sleep_until(next).await;
        }
    }

    /// Closes the connections that were unused for [`IDLE`]. Returns the time at which the next unused connection
    /// expires.
    fn close_expired(&self) -> Option<Instant> {
        let mut pool = lock(&self.pool);
        pool.idle.retain(|idle| idle.since.elapsed() < IDLE);
        let next = pool.idle.first().map(|idle| idle.since + IDLE);
        pool.has_timer = next.is_some();
        next
    }

    async fn open(&self, owner: Owner) -> Result<Open> {
        let current = Arc::<Current>::default();
        let (asked, told) = (Arc::clone(&current), Arc::clone(&current));
        let host = Host::builder(self.config.name.clone(), env!("CARGO_PKG_VERSION"))
            .with_lifecycle(self.config.lifecycle)
            .with_capabilities(owner.capabilities.clone())
            .with_forward(Arc::new(move |method, params| {
                let conversation = asked.only();
                let answer: BoxFuture<'static, _> = Box::pin(async move {
                    match conversation {
                        Some(conversation) => conversation.ask(method, params).await,
                        None => Err(ErrorData::internal_error("no call of this session is open", None)),
                    }
                });
                answer
            }))
            .with_events(move |event| {
                if let Some(conversation) = told.only() {
                    conversation.event(event);
                }
            });
        let connection = host.build().connect(self.endpoint.clone()).await?;
        Ok(Open { owner, connection, current, level: None })
    }
}

/// A connection that one call uses. Dropping a `Lease` returns the connection to the pool. If the call was cancelled,
/// dropping the `Lease` closes the connection. The other server could still ask questions for a cancelled call, and
/// these questions must not reach another caller.
pub(super) struct Lease {
    remote: Arc<Remote>,
    /// The open connection. The value is `None` only during drop.
    open: Option<Open>,
    is_reusable: bool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    fn open(&self) -> &Open {
        self.open.as_ref().expect("a lease has its connection until it is dropped")
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.open().connection
    }

    /// Registers an open call of the connection. The registration ends when the returned guard is dropped.
    pub(super) fn begin(&self, conversation: &Arc<Conversation>) -> Entered {
        self.open().current.enter(conversation, None)
    }

    /// Returns the connection to the pool, because the call has ended.
    pub(super) fn end(mut self) {
        self.is_reusable = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.is_reusable {
            let mut pool = lock(&self.remote.pool);
            if pool.idle.len() >= self.remote.config.max_connections {
                pool.idle.remove(0);
            }
            pool.idle.push(Idle { open, since: Instant::now() });
            if !pool.has_timer
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                pool.has_timer = true;
                runtime.spawn(Remote::close_unused(Arc::downgrade(&self.remote)));
            }
        }
    }
}

/// Returns the name of the other server for callers: the prefix of its tools, or else the name that the server sent.
fn label(prefix: &str, name: Option<String>) -> String {
    let prefix = prefix.trim_end_matches(|last: char| !last.is_alphanumeric());
    if prefix.is_empty() {
        return name.unwrap_or_else(|| "unnamed".into());
    }
    prefix.to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("endpoint", &self.endpoint)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn label_is_the_prefix_or_the_name_that_the_server_sent() {
        assert_eq!(label("weather_", Some("forecasts".into())), "weather");
        assert_eq!(label("", Some("forecasts".into())), "forecasts");
        assert_eq!(label("", None), "unnamed");
    }
}
