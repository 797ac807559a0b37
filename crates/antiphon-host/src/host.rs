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

/// Whoever embeds MCP: a chat, an editor, an agent.
///
/// A host says once who answers what servers ask, and connects to as many as it likes. It declares
/// what it was given and nothing else: without a model it does not sample, without a form handler it
/// shows no forms.
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

/// What bounds a host's work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostLimits {
    /// How many times a call may ask in rounds before it is given up; a task may as often as it likes. Default: 10.
    pub rounds: u32,
    /// How many questions of one round are answered at a time. Default: 4.
    pub concurrent_asks: usize,
    /// How long an answer may take. In a session that includes the time people take to answer what is
    /// asked on the way; in rounds it does not. Default: none.
    pub timeout: Option<Duration>,
    /// How often a lost connection is made again before the next request fails. Default: 5.
    pub reconnects: u32,
    /// The first wait before that; each is twice as long, less a random part. Default: 200 ms.
    pub backoff: Duration,
    /// The longest wait before that. Default: 10 s.
    pub max_backoff: Duration,
    /// How long the end of a visit to a page is waited for. Default: 10 minutes.
    pub page_timeout: Duration,
    /// The longest wait between two looks at a task, even if its server suggests a longer one.
    /// Default: 1 minute.
    pub longest_poll: Duration,
    /// How long a task is waited for. Default: without end.
    pub task_patience: Option<Duration>,
    /// How many looks in a row may find a task of 2026-07-28 asking only for what it was given.
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
    /// Sets how many times a call may ask.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets how many questions of one round are answered at a time.
    #[must_use]
    pub fn with_concurrent_asks(mut self, asks: usize) -> Self {
        self.concurrent_asks = asks.max(1);
        self
    }

    /// Sets how long an answer may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets how often, and with which waits, a lost connection is made again.
    #[must_use]
    pub fn with_reconnects(mut self, reconnects: u32, first: Duration, longest: Duration) -> Self {
        self.reconnects = reconnects;
        self.backoff = first;
        self.max_backoff = longest;
        self
    }

    /// Sets how long the end of a visit to a page is waited for.
    #[must_use]
    pub fn with_page_timeout(mut self, timeout: Duration) -> Self {
        self.page_timeout = timeout;
        self
    }

    /// Sets the longest wait between two looks at a task.
    #[must_use]
    pub fn with_longest_poll(mut self, wait: Duration) -> Self {
        self.longest_poll = wait;
        self
    }

    /// Sets how long a task is waited for.
    #[must_use]
    pub fn with_task_patience(mut self, patience: impl Into<Option<Duration>>) -> Self {
        self.task_patience = patience.into();
        self
    }

    /// Sets how many looks in a row may find a task asking only for what it was given.
    #[must_use]
    pub fn with_stuck_polls(mut self, polls: u32) -> Self {
        self.stuck_polls = polls;
        self
    }
}

impl Host {
    /// Begins a host with this name and version.
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
    /// When there is none, or it speaks nothing the host knows, or wants authorization.
    pub async fn connect(&self, endpoint: impl Into<Endpoint>) -> Result<Connection> {
        // Each connection has listeners of its own.
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

/// A host being put together.
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
    /// Answers samples with this model. A request for data is answered in the provider's own best
    /// way, and still with a `tool_use`.
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Lets a person look at samples and their replies before they go on.
    pub fn with_approval(mut self, approval: impl Approval) -> Self {
        self.approval = Some(Arc::new(approval));
        self
    }

    /// Shows the form with this key in a way of its own.
    pub fn with_form(mut self, key: impl Into<String>, handler: impl FormHandler) -> Self {
        self.forms.by_key.insert(key.into(), Arc::new(handler));
        self
    }

    /// Shows every form that has no way of its own, by its [`fields`](crate::Form::fields).
    pub fn with_forms(mut self, handler: impl FormHandler) -> Self {
        self.forms.otherwise = Some(Arc::new(handler));
        self
    }

    /// Opens pages.
    pub fn with_pages(mut self, handler: impl PageHandler) -> Self {
        self.pages = Some(Arc::new(handler));
        self
    }

    /// Says where the person works.
    pub fn with_roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self
    }

    /// Is told what servers tell beside their answers.
    pub fn with_events(mut self, listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets which revisions may be spoken.
    pub fn with_lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        self.lifecycle = lifecycle;
        self
    }

    /// Sets what bounds the host's work.
    pub fn with_limits(mut self, limits: HostLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Has the host tell what it does: spans and metrics, by OpenTelemetry's conventions. Default: nothing, at no cost.
    #[cfg(feature = "telemetry")]
    pub fn with_telemetry(mut self, telemetry: crate::Telemetry) -> Self {
        self.telling = Telling::new(telemetry);
        self
    }

    /// Puts the host together.
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
