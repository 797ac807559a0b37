use std::{fmt, sync::Arc, time::Duration};

use antiphon_llm::Model;

use crate::{
    answering::{Answering, Root},
    connection::Connection,
    endpoint::{Endpoint, Lifecycle},
    error::Result,
    event::{Event, Events},
    form::{FormHandler, Forms},
    page::{PageHandler, Visits},
    sampling::{Approval, Sampling},
    telemetry::Telling,
};

/// An application that embeds MCP: a chat, an editor, an agent.
///
/// A host defines once how to answer the questions of servers, and can connect to many servers. It declares only
/// capabilities that it has a handler for. Without a model, it does not declare sampling. Without a form handler, it
/// does not declare forms.
///
/// ```no_run
/// use antiphon_host::{Endpoint, Form, Host, Shown};
/// use serde_json::json;
///
/// # async fn example() -> antiphon_host::Result<()> {
/// let host = Host::builder("my-chat", "1.0.0")
///     .with_forms(|form: Form| async move {
///         println!("{}", form.message);
///         Shown::Accept(json!({"name": "Ada"}))
///     })
///     .build();
/// let server = host.connect(Endpoint::http("http://127.0.0.1:8000/mcp")).await?;
/// let result = server.call("greet", json!({})).await?;
/// println!("{:?}", result.content);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Host {
    answering: Answering,
    lifecycle: Lifecycle,
    limits: HostLimits,
    #[cfg(feature = "results")]
    results: antiphon_results::client::DualResponseClientOptions,
}

/// The limits of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostLimits {
    /// The maximum number of rounds of a call. Tasks have no such limit. Default: 10.
    pub rounds: u32,
    /// How many questions of one round are answered at the same time. Default: 4.
    pub concurrent_asks: usize,
    /// The maximum time for a response. In a session, this includes the time that users need to answer questions. In
    /// rounds, it does not. Default: none.
    pub timeout: Option<Duration>,
    /// The maximum number of retries to open a lost connection, before the request fails. Default: 5.
    pub reconnects: u32,
    /// The wait before the first retry. It doubles for each retry, and is shortened by a random part. Default: 200
    /// ms.
    pub backoff: Duration,
    /// The longest wait before a retry. Default: 10 s.
    pub max_backoff: Duration,
    /// How long the host waits for the end of a visit to a web page. Default: 10 minutes.
    pub page_timeout: Duration,
    /// The longest interval between two polls of a task, even if the server suggests a longer one. Default: 1 minute.
    pub longest_poll: Duration,
    /// How long the host waits for a task. Default: no limit.
    pub task_patience: Option<Duration>,
    /// How many polls in a row can find a 2026-07-28 task that asks only for input which it already received.
    /// Default: 50.
    pub stuck_polls: u32,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            rounds: 10,
            concurrent_asks: 4,
            timeout: None,
            reconnects: 5,
            backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(10),
            page_timeout: Duration::from_secs(10 * 60),
            longest_poll: Duration::from_secs(60),
            task_patience: None,
            stuck_polls: 50,
        }
    }
}

impl HostLimits {
    /// Sets the maximum number of rounds of a call.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets how many questions of one round are answered at the same time. The minimum is 1.
    #[must_use]
    pub fn with_concurrent_asks(mut self, asks: usize) -> Self {
        self.concurrent_asks = asks.max(1);
        self
    }

    /// Sets the maximum time for a response.
    #[must_use]
    pub fn with_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the number of retries to open a lost connection, and the first and the longest wait.
    #[must_use]
    pub fn with_reconnects(mut self, reconnects: u32, first: Duration, longest: Duration) -> Self {
        self.reconnects = reconnects;
        self.backoff = first;
        self.max_backoff = longest;
        self
    }

    /// Sets how long the host waits for the end of a visit to a web page.
    #[must_use]
    pub fn with_page_timeout(mut self, timeout: Duration) -> Self {
        self.page_timeout = timeout;
        self
    }

    /// Sets the longest interval between two polls of a task.
    #[must_use]
    pub fn with_longest_poll(mut self, wait: Duration) -> Self {
        self.longest_poll = wait;
        self
    }

    /// Sets how long the host waits for a task.
    #[must_use]
    pub fn with_task_patience(mut self, patience: impl Into<Option<Duration>>) -> Self {
        self.task_patience = patience.into();
        self
    }

    /// Sets how many polls in a row can find a task that asks only for input which it already received.
    #[must_use]
    pub fn with_stuck_polls(mut self, polls: u32) -> Self {
        self.stuck_polls = polls;
        self
    }
}

impl Host {
    /// Creates a builder for a host with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> HostBuilder {
        HostBuilder {
            name: name.into(),
            version: version.into(),
            model: None,
            approval: None,
            forms: Forms::default(),
            pages: None,
            roots: None,
            listener: None,
            lifecycle: Lifecycle::default(),
            limits: HostLimits::default(),
            telling: Telling::default(),
            #[cfg(feature = "results")]
            results: antiphon_results::client::DualResponseClientOptions::default(),
        }
    }

    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not reachable, supports no common protocol revision, or requires
    /// authorization.
    pub async fn connect(&self, endpoint: impl Into<Endpoint>) -> Result<Connection> {
        // Each connection has separate listeners.
        let mut answering = self.answering.clone();
        answering.events = self.answering.events.fresh();
        answering.visits = Visits::default();
        let endpoint = endpoint.into();
        #[cfg(feature = "results")]
        let results = crate::results::client(&self.results, endpoint.url())?;
        Connection::open(
            endpoint,
            answering,
            self.lifecycle,
            self.limits.clone(),
            #[cfg(feature = "results")]
            results,
        )
        .await
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.answering.name).finish_non_exhaustive()
    }
}

/// A builder for a [`Host`].
#[must_use = "a builder does nothing until it is built"]
pub struct HostBuilder {
    name: String,
    version: String,
    model: Option<Arc<dyn Model>>,
    approval: Option<Arc<dyn Approval>>,
    forms: Forms,
    pages: Option<Arc<dyn PageHandler>>,
    roots: Option<Vec<Root>>,
    listener: Option<Arc<dyn Fn(Event) + Send + Sync>>,
    lifecycle: Lifecycle,
    limits: HostLimits,
    telling: Telling,
    #[cfg(feature = "results")]
    pub(crate) results: antiphon_results::client::DualResponseClientOptions,
}

impl HostBuilder {
    /// Answers sampling requests with this model. For structured data, it uses the best method of the provider, and
    /// the reply is still a `tool_use`. Default: none.
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sets the handler that approves sampling requests and replies. Default: none, so they are sent without
    /// approval.
    pub fn with_approval(mut self, approval: impl Approval) -> Self {
        self.approval = Some(Arc::new(approval));
        self
    }

    /// Sets the handler for the form with this question key.
    pub fn with_form(mut self, key: impl Into<String>, handler: impl FormHandler) -> Self {
        self.forms.by_key.insert(key.into(), Arc::new(handler));
        self
    }

    /// Sets the handler for all other forms, which shows their [`fields`](crate::Form::fields). Default: none, so
    /// these forms are declined.
    pub fn with_forms(mut self, handler: impl FormHandler) -> Self {
        self.forms.otherwise = Some(Arc::new(handler));
        self
    }

    /// Sets the handler that opens web pages. Default: none.
    pub fn with_pages(mut self, handler: impl PageHandler) -> Self {
        self.pages = Some(Arc::new(handler));
        self
    }

    /// Sets the folders that the user works in. Default: none.
    pub fn with_roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self
    }

    /// Sets the listener for events of servers. Default: none.
    pub fn with_events(mut self, listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets the protocol revisions to use. Default: [`Lifecycle::Auto`].
    pub fn with_lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        self.lifecycle = lifecycle;
        self
    }

    /// Sets the limits of the host.
    pub fn with_limits(mut self, limits: HostLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Records spans and metrics with the names of OpenTelemetry's conventions. Default: none, at no cost.
    #[cfg(feature = "telemetry")]
    pub fn with_telemetry(mut self, telemetry: crate::Telemetry) -> Self {
        self.telling = Telling::new(telemetry);
        self
    }

    /// Creates the host.
    pub fn build(self) -> Host {
        let approval = self.approval;
        let answering = Answering {
            name: self.name,
            version: self.version,
            sampling: self.model.map(|model| Sampling { model: self.telling.model(model), approval }),
            forms: self.forms,
            pages: self.pages,
            roots: self.roots,
            events: Events::new(self.listener),
            visits: Visits::default(),
            telling: self.telling,
        };
        Host {
            answering,
            lifecycle: self.lifecycle,
            limits: self.limits,
            #[cfg(feature = "results")]
            results: self.results,
        }
    }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
