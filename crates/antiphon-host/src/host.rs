use std::{fmt, sync::Arc, time::Duration};

use antiphon_llm::Model;
use serde_json::Value;

#[cfg(feature = "process")]
use crate::stray::StrayOutput;
use crate::{
    answering::{Answering, Root},
    connection::Connection,
    endpoint::{Endpoint, Lifecycle},
    error::Result,
    event::{Event, Events},
    form::{FormHandler, Forms},
    frame::{Frame, Taps},
    page::{PageHandler, Visits},
    sampling::{Approval, Sampling},
    stray::Strays,
    telemetry::Telling,
};

/// An application that connects to MCP servers, such as a chat, an editor or an agent.
///
/// You define once how the host answers the questions of servers. The host can then connect to many servers. A host
/// declares only capabilities for which you have set a handler. For example, a host without a model does not declare
/// sampling, and a host without a form handler does not declare forms.
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

/// The limits of a host: rounds, timeouts, reconnects and polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimits {
    pub(crate) rounds: u32,
    pub(crate) concurrent_asks: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) reconnects: u32,
    pub(crate) backoff: Duration,
    pub(crate) max_backoff: Duration,
    pub(crate) page_timeout: Duration,
    pub(crate) longest_poll: Duration,
    pub(crate) task_patience: Option<Duration>,
    pub(crate) stuck_polls: u32,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            rounds: 10,
            concurrent_asks: 4,
            timeout: None,
            connect_timeout: Some(Duration::from_secs(5 * 60)),
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
    /// Sets the maximum number of rounds of a call. A round is one request and its response. The limit on rounds does
    /// not apply to tasks. Default: 10.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets how many questions of one round the host answers at the same time. The minimum value is 1. Default: 4.
    #[must_use]
    pub fn with_concurrent_asks(mut self, asks: usize) -> Self {
        self.concurrent_asks = asks.max(1);
        self
    }

    /// Sets the maximum time to wait for the response to a request. Default: no limit.
    ///
    /// In a session, the timeout includes the time that users need to answer questions, because questions arrive before
    /// the response. On MCP 2026-07-28, the timeout does not include the time that users need to answer.
    #[must_use]
    pub fn with_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the maximum time to connect: to open the transport, and to wait for the first response of the server.
    /// Default: 5 minutes.
    ///
    /// The connect timeout applies separately to each protocol revision that the host tries. The default timeout is
    /// long, because programs can be compiled or downloaded when they start. `None` disables the timeout. The connect
    /// timeout does not include the authorization by the user.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.connect_timeout = timeout.into();
        self
    }

    /// Sets how often the host tries to open a lost connection again before the request fails. `with_reconnects` also
    /// sets the first and the longest delay between two tries. Default: 5 tries, a first delay of 200 ms, and a longest
    /// delay of 10 seconds.
    ///
    /// The delay between two tries doubles with each retry, and is shortened by a random part.
    #[must_use]
    pub fn with_reconnects(mut self, reconnects: u32, first: Duration, longest: Duration) -> Self {
        self.reconnects = reconnects;
        self.backoff = first;
        self.max_backoff = longest;
        self
    }

    /// Sets how long the host waits for the user to finish the visit to a web page. Default: 10 minutes.
    #[must_use]
    pub fn with_page_timeout(mut self, timeout: Duration) -> Self {
        self.page_timeout = timeout;
        self
    }

    /// Sets the longest interval between two polls of a task, even if the server recommends a longer interval.
    /// Default: 1 minute.
    #[must_use]
    pub fn with_longest_poll(mut self, wait: Duration) -> Self {
        self.longest_poll = wait;
        self
    }

    /// Sets how long the host waits for the result of a task. Default: no limit.
    #[must_use]
    pub fn with_task_patience(mut self, patience: impl Into<Option<Duration>>) -> Self {
        self.task_patience = patience.into();
        self
    }

    /// Sets how many consecutive polls of an MCP 2026-07-28 task can return only questions that are already answered.
    /// If more consecutive polls than this number return no new question, the wait for the task fails. Default: 50.
    #[must_use]
    pub fn with_stuck_polls(mut self, polls: u32) -> Self {
        self.stuck_polls = polls;
        self
    }
}

impl Host {
    /// Creates a builder for a host with the given name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> HostBuilder {
        HostBuilder {
            name: name.into(),
            version: version.into(),
            declared: None,
            model: None,
            approval: None,
            forms: Forms::default(),
            pages: None,
            roots: None,
            listener: None,
            strays: Strays::default(),
            taps: Taps::default(),
            lifecycle: Lifecycle::default(),
            limits: HostLimits::default(),
            telling: Telling::default(),
            #[cfg(feature = "proxy")]
            forward: None,
            #[cfg(feature = "results")]
            results: antiphon_results::client::DualResponseClientOptions::default(),
        }
    }

    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not reachable, requires authorization, or supports no protocol revision that
    /// the host supports.
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
    declared: Option<Value>,
    model: Option<Arc<dyn Model>>,
    approval: Option<Arc<dyn Approval>>,
    forms: Forms,
    pages: Option<Arc<dyn PageHandler>>,
    roots: Option<Vec<Root>>,
    listener: Option<Arc<dyn Fn(Event) + Send + Sync>>,
    strays: Strays,
    taps: Taps,
    lifecycle: Lifecycle,
    limits: HostLimits,
    telling: Telling,
    #[cfg(feature = "proxy")]
    forward: Option<crate::answering::Forward>,
    #[cfg(feature = "results")]
    pub(crate) results: antiphon_results::client::DualResponseClientOptions,
}

impl HostBuilder {
    /// Sets the capabilities that the host declares, so that `antiphon doctor` can list the tools that another host
    /// sees. Default: the capabilities that have a handler.
    #[doc(hidden)]
    pub fn with_capabilities(mut self, capabilities: Value) -> Self {
        self.declared = Some(capabilities);
        self
    }

    /// Sets a function that answers every question in place of the handlers.
    #[cfg(feature = "proxy")]
    pub(crate) fn with_forward(mut self, forward: crate::answering::Forward) -> Self {
        self.forward = Some(forward);
        self
    }

    /// Sets the model that answers sampling requests. If a request asks for structured data, the host uses the best
    /// method that the model's provider supports. If a request asks for structured data, the server always receives
    /// the reply as a `tool_use` block. Default: none.
    pub fn with_model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Sets the handler that approves sampling requests and replies. Default: none. Without an approval handler, the
    /// host sends requests and replies without approval.
    pub fn with_approval(mut self, approval: impl Approval) -> Self {
        self.approval = Some(Arc::new(approval));
        self
    }

    /// Sets the handler for forms with the question key `key`.
    pub fn with_form(mut self, key: impl Into<String>, handler: impl FormHandler) -> Self {
        self.forms.by_key.insert(key.into(), Arc::new(handler));
        self
    }

    /// Sets the handler for all forms that have no handler for their question key. The handler can show the
    /// [`fields`](crate::Form::fields) of a form. Default: none. Without a general handler, the host declines forms
    /// that have no handler for their question key.
    pub fn with_forms(mut self, handler: impl FormHandler) -> Self {
        self.forms.otherwise = Some(Arc::new(handler));
        self
    }

    /// Sets the handler that opens web pages for the user. Default: none.
    pub fn with_pages(mut self, handler: impl PageHandler) -> Self {
        self.pages = Some(Arc::new(handler));
        self
    }

    /// Sets the roots: the folders in which the user works. Servers can request the list of roots. Default: none.
    pub fn with_roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self
    }

    /// Sets the function that is called for events of servers. Default: none.
    pub fn with_events(mut self, listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets a function that receives stray output: a line on the standard output of a server program that is not an MCP
    /// message. The host calls the function once for each program, with the first line of stray output. Default: none.
    /// The host also logs a warning. The warning does not contain the stray line, because the line can contain secrets.
    #[cfg(feature = "process")]
    pub fn with_stray_output(mut self, listener: impl Fn(&StrayOutput) + Send + Sync + 'static) -> Self {
        self.strays = Strays::new(listener);
        self
    }

    /// Sets the function that is called for each JSON-RPC message of a connection. The JSON-RPC messages can contain
    /// secrets of the user. Default: none.
    ///
    /// ```
    /// use antiphon_host::{Direction, Host};
    ///
    /// let host = Host::builder("inspector", "1.0.0").with_frames(|frame| {
    ///     let arrow = if frame.direction == Direction::Sent { "→" } else { "←" };
    ///     println!("{arrow} {}", frame.message);
    /// });
    /// # let _ = host;
    /// ```
    pub fn with_frames(mut self, listener: impl Fn(&Frame) + Send + Sync + 'static) -> Self {
        self.taps.frames = Some(Arc::new(listener));
        self
    }

    /// Sets a function that receives each line of a server program's standard error. The
    /// [`Endpoint`](crate::Endpoint::child) must pipe the standard error. Default: none.
    #[cfg(feature = "process")]
    pub fn with_standard_error(mut self, listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.taps.stderr = Some(Arc::new(listener));
        self
    }

    /// Sets the protocol revisions that the host uses. Default: [`Lifecycle::Auto`].
    pub fn with_lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        self.lifecycle = lifecycle;
        self
    }

    /// Sets the limits of the host. Default: [`HostLimits::default`].
    pub fn with_limits(mut self, limits: HostLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Enables telemetry: spans and metrics that follow OpenTelemetry's conventions. Default: no telemetry.
    #[cfg(feature = "telemetry")]
    pub fn with_telemetry(mut self, telemetry: crate::Telemetry) -> Self {
        self.telling = Telling::new(telemetry);
        self
    }

    /// Builds the host.
    pub fn build(self) -> Host {
        let approval = self.approval;
        let answering = Answering {
            name: self.name,
            version: self.version,
            declared: self.declared,
            sampling: self.model.map(|model| Sampling { model: self.telling.model(model), approval }),
            forms: self.forms,
            pages: self.pages,
            roots: self.roots,
            events: Events::new(self.listener, self.strays, self.taps),
            visits: Visits::default(),
            telling: self.telling,
            #[cfg(feature = "proxy")]
            forward: self.forward,
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
