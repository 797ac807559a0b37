//! The connections to the other server.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon::{Ctx, Level};
use rmcp::ErrorData;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
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
    /// The connection that lists tools, prompts and resources. All calls to a 2026-07-28 server also use this
    /// connection. The reason is that a server program can keep its tasks, and the encryption keys of its
    /// `requestState`, in memory.
    pub(super) shared: Connection,
    /// The calls that use `shared`.
    pub(super) current: Arc<Current>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    /// The open calls to a 2025-11-25 server, by the random IDs of the calls.
    calls: Mutex<HashMap<String, Arc<Conversation>>>,
    /// The tools of a 2025-11-25 server that must run as tasks.
    tasks: Mutex<BTreeSet<String>>,
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

/// The caller for which a connection is used: a principal, and the capabilities that the connection declares. Other
/// callers never use the same connection.
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

impl Remote {
    pub(super) async fn connect(endpoint: Endpoint, config: ProxyConfig) -> Result<Arc<Self>> {
        let current = Arc::<Current>::default();
        let (told, listener) = (Arc::clone(&current), config.events.clone());
        let host = Host::builder(config.name.clone(), env!("CARGO_PKG_VERSION"))
            .with_lifecycle(config.lifecycle)
            .with_limits(HostLimits::default().with_timeout(config.timeout))
            .with_capabilities(json!({"extensions": {rmcp::model::TASKS_EXTENSION_ID: {}}}))
            .with_events(move |event| {
                let is_of_call = matches!(event, Event::Task(_) | Event::Progress(_));
                if matches!(event, Event::Log { .. })
                    && let Some(conversation) = told.only()
                {
                    conversation.event(event);
                } else if !is_of_call && let Some(listener) = &listener {
                    listener(event);
                }
            });
        let shared = host.build().connect(endpoint.clone()).await?;
        Ok(Arc::new(Self {
            endpoint,
            shared,
            current,
            permits: Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS))),
            config,
            idle: Mutex::default(),
            calls: Mutex::default(),
            tasks: Mutex::default(),
        }))
    }

    /// Returns the name of the endpoint.
    pub(super) fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// Remembers which tools must run as tasks.
    pub(super) fn learn_tasks(&self, tools: BTreeSet<String>) {
        *lock(&self.tasks) = tools;
    }

    pub(super) fn needs_task(&self, tool: &str) -> bool {
        lock(&self.tasks).contains(tool)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        lock(&self.calls)
    }

    /// Waits until the number of concurrent calls allows another call.
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
        let mut open = match self.take_idle(&owner) {
            Some(open) => open,
            None => self.open(owner).await?,
        };
        if level.is_some() && level != open.level {
            open.level = level;
            let name = level.map_or("info", name_of_level);
            // A server that does not support log messages rejects this request.
            let _ = open.connection.set_log_level(name).await;
        }
        Ok(Lease { remote: Arc::clone(self), open: Some(open), is_reusable: false, _permit: permit })
    }

    /// Returns an unused connection of this owner, and closes connections that were unused for a long time.
    fn take_idle(&self, owner: &Owner) -> Option<Open> {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| idle.since.elapsed() < IDLE);
        let at = idle.iter().rposition(|idle| idle.open.owner == *owner)?;
        Some(idle.remove(at).open)
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

/// A connection that one call uses. Dropping this value returns the connection to the pool. If the call was cancelled,
/// the drop closes the connection: a cancelled call can still ask questions, and these questions must not reach
/// another caller.
pub(super) struct Lease {
    remote: Arc<Remote>,
    /// `None` only in drop.
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

    /// Adds a call to the open calls of the connection, until the guard is dropped.
    pub(super) fn begin(&self, conversation: &Arc<Conversation>) -> Entered {
        self.open().current.enter(conversation)
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
            let mut idle = lock(&self.remote.idle);
            if idle.len() >= self.remote.config.max_connections {
                idle.remove(0);
            }
            idle.push(Idle { open, since: Instant::now() });
        }
    }
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
