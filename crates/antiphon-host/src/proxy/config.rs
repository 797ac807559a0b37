use std::{fmt, sync::Arc, time::Duration};

use crate::{endpoint::Lifecycle, event::Event};

/// The settings of a [`Proxy`](crate::Proxy).
#[derive(Clone)]
pub struct ProxyConfig {
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) lifecycle: Lifecycle,
    pub(super) timeout: Duration,
    pub(super) task_timeout: Duration,
    pub(super) answer_timeout: Duration,
    pub(super) max_connections: usize,
    pub(super) max_bytes: usize,
    pub(super) max_rounds: u32,
    pub(super) uris: Vec<String>,
    pub(super) events: Option<Arc<dyn Fn(Event) + Send + Sync>>,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            name: "antiphon-proxy".into(),
            prefix: String::new(),
            lifecycle: Lifecycle::Auto,
            timeout: Duration::from_secs(5 * 60),
            task_timeout: Duration::from_secs(24 * 60 * 60),
            answer_timeout: Duration::from_secs(15 * 60),
            max_connections: 32,
            max_bytes: 8 * 1024 * 1024,
            max_rounds: 100,
            uris: Vec::new(),
            events: None,
        }
    }
}

impl ProxyConfig {
    /// Sets the name with which the proxy introduces itself to the other server. Default: `antiphon-proxy`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the text that precedes the names of tools and prompts, for example `weather_`. URIs of resources do not
    /// change. Default: none.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the protocol revisions that the proxy uses for the other server. Default: [`Lifecycle::Auto`].
    #[must_use]
    pub fn with_lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        self.lifecycle = lifecycle;
        self
    }

    /// Sets how long the other server can work before it returns its result or its next question. The timeout does not
    /// include the time that users need to answer. The timeout is also the maximum time that a call waits for a new
    /// connection. Default: 5 minutes.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long the proxy waits until a task of the other server returns its result or its next question.
    /// Default: 24 hours.
    #[must_use]
    pub fn with_task_timeout(mut self, timeout: Duration) -> Self {
        self.task_timeout = timeout;
        self
    }

    /// Sets how long a call to an MCP 2025-11-25 server stays open while the call waits for the caller's answer. A call
    /// that waits for an answer uses one connection. If the other server ends the call before the caller answers, the
    /// connection is free again. The proxy keeps the result of the ended call for the duration of the answer timeout.
    /// Calls to an MCP 2026-07-28 server have no answer timeout. Default: 15 minutes.
    #[must_use]
    pub fn with_answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Sets how many calls the other server can work on at the same time. If the maximum number of calls is running,
    /// further calls wait. Each call to an MCP 2025-11-25 server needs a separate connection. If the endpoint is a
    /// program, each connection is a process. Calls to an MCP 2026-07-28 server share one connection. The minimum value
    /// is 1. Default: 32.
    ///
    /// At most half of the concurrent calls can wait for answers of the same principal. All concurrent calls except
    /// one can wait for answers of unauthenticated callers. If too many calls of one caller wait for answers, the
    /// proxy cancels the call of this caller that has waited longest. With a maximum of 1 call, one call without an
    /// answer blocks all other calls.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets the maximum size in bytes of one JSON result of the other server. The limit also applies to the JSON text
    /// of all questions that the other server asks in one round. Default: 8 MiB.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of rounds with questions in one call. Default: 100.
    #[must_use]
    pub fn with_max_rounds(mut self, rounds: u32) -> Self {
        self.max_rounds = rounds;
        self
    }

    /// Forwards reads of all URIs that begin with `prefix`, for example `notes://`. The proxy always forwards the URIs
    /// that the other server lists, and the URIs that match a template of the other server. Use `with_uris` if results
    /// contain links to URIs that the other server does not list. You can call `with_uris` several times. Default:
    /// none.
    #[must_use]
    pub fn with_uris(mut self, prefix: impl Into<String>) -> Self {
        self.uris.push(prefix.into());
        self
    }

    /// Sets a function that is called for events of the other server, for example [`Event::ToolsChanged`]. The function
    /// is not called for log messages and for events that belong to a call. Default: none.
    #[must_use]
    pub fn with_events(mut self, listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.events = Some(Arc::new(listener));
        self
    }

    /// Returns how many calls of a principal can wait for answers at the same time.
    pub(super) fn max_waiting(&self, principal: Option<&str>) -> usize {
        let most = match principal {
            Some(_) => self.max_connections / 2,
            // The proxy cannot distinguish unauthenticated callers, so the limit for one principal does not apply to
            // these callers.
            None => self.max_connections - 1,
        };
        most.max(1)
    }
}

impl fmt::Debug for ProxyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyConfig")
            .field("prefix", &self.prefix)
            .field("lifecycle", &self.lifecycle)
            .field("timeout", &self.timeout)
            .field("task_timeout", &self.task_timeout)
            .field("answer_timeout", &self.answer_timeout)
            .field("max_connections", &self.max_connections)
            .field("max_bytes", &self.max_bytes)
            .field("max_rounds", &self.max_rounds)
            .finish_non_exhaustive()
    }
}
