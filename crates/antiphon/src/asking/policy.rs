use std::time::Duration;

use super::page::AskPage;

/// How a server asks users whose client does not show questions, and how it answers clients that do not wait for long
/// calls.
///
/// If a client cannot show a tool's question, the run waits on the server. The call returns a result with the next
/// step for the model. The user answers in a form, which is an MCP App, or on a web page of the server
/// (`with_page`). The run continues with this answer. The model reads the result of the run with the tool `task_result`.
/// A long call of a client without MCP tasks returns in the same way, and its run continues on the server.
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::{Server, elicitation::AskPolicy};
///
/// let asking = AskPolicy::default().with_expiry(Duration::from_secs(30 * 60));
/// let server = Server::builder("onboarding", "1.0.0").with_asking(asking).build()?;
/// # let _ = server;
/// # Ok::<(), antiphon::BuildError>(())
/// ```
///
/// The server adds these tools:
///
/// | tool | visible to | what it does |
/// |---|---|---|
/// | `task_result` | models of clients without MCP tasks | returns the result of a run, or the next step |
/// | `task_cancel` | models of clients without MCP tasks | cancels a run |
/// | `task_answer` | models that see `task_result`, with [`with_relay`](Self::with_relay) | relays the user's answer |
/// | `task_question` | models of clients with MCP Apps | shows the form with the question |
/// | `ask_open` | the form | returns the open question |
/// | `ask_answer` | the form | delivers the user's answer |
///
/// If a client has MCP tasks and MCP Apps, or if the server has a web page for answers, its models see `task_result` and
/// `task_cancel` too.
#[derive(Clone, Debug)]
pub struct AskPolicy {
    pub(crate) app: bool,
    pub(super) page: Option<AskPage>,
    pub(crate) relay: bool,
    pub(crate) hand_over_after: Duration,
    pub(crate) quick: Duration,
    pub(crate) expiry: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) joins: bool,
}

impl Default for AskPolicy {
    fn default() -> Self {
        Self {
            app: true,
            page: None,
            relay: false,
            hand_over_after: Duration::from_secs(45),
            quick: Duration::from_millis(300),
            expiry: Duration::from_secs(60 * 60),
            heartbeat: Duration::from_secs(10),
            max_waiting: 100,
            joins: true,
        }
    }
}

impl AskPolicy {
    /// Sets whether the server asks questions in a form that hosts show as an MCP App. Default: yes.
    #[must_use]
    pub fn with_app(mut self, app: bool) -> Self {
        self.app = app;
        self
    }

    /// Sets the web page on which users answer, if their client shows neither forms nor MCP Apps. Default: none.
    ///
    /// In a client that shows MCP Apps, the form comes first. The model can then get a link to the page with
    /// `task_question` and `"link": true`.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn with_page(mut self, page: AskPage) -> Self {
        self.page = Some(page);
        self
    }

    /// Sets whether models can relay answers to questions that allow it
    /// ([`Elicit::relayed`](crate::elicitation::Elicit::relayed)). Default: no.
    ///
    /// A model relays an answer only if no other channel reaches the user: if the client shows neither forms nor MCP
    /// Apps, and the server has no web page for answers. The model asks the user in the chat, and delivers the answer
    /// with the tool `task_answer`. The server cannot verify that the model asked the user.
    #[must_use]
    pub fn with_relay(mut self, relay: bool) -> Self {
        self.relay = relay;
        self
    }

    /// Sets after which time a call of a client without MCP tasks returns, while its run continues on the server.
    /// Default: 45 seconds.
    ///
    /// Many clients cancel a call after 60 seconds. The time applies to tools whose runs can become tasks
    /// ([`Tool::with_tasks`](crate::Tool::with_tasks)).
    #[must_use]
    pub fn with_hand_over_after(mut self, hand_over_after: Duration) -> Self {
        self.hand_over_after = hand_over_after;
        self
    }

    /// Sets the time in which no user can answer a question. Default: 300 milliseconds.
    ///
    /// Some clients decline or cancel a question without showing it, or accept it without content. If such an answer
    /// arrives earlier than this, the server asks the user in another way. An accepted form with content always counts.
    /// With zero, the server does not use the time of an answer.
    ///
    /// An accepted form that has required fields and no content never counts, at any speed.
    #[must_use]
    pub fn with_quick(mut self, quick: Duration) -> Self {
        self.quick = quick;
        self
    }

    /// Sets how long a question that waits for a form stays open. Default: 1 hour.
    ///
    /// After that time, the question fails with [`ErrorKind::Unanswered`](crate::ErrorKind::Unanswered). A form that
    /// the user opened is valid for at most 1 hour, and can be opened again.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Duration) -> Self {
        self.expiry = expiry;
        self
    }

    /// Sets how long a call can be silent before the server sends a progress notification. Default: 10 seconds.
    ///
    /// The server sends the notification only if the client has sent a progress token. Some clients cancel a call that
    /// reports no progress.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Sets how many runs of a caller can wait for users at the same time. Default: 100.
    ///
    /// If the limit is reached, a call that would wait fails with [`ErrorKind::Limit`](crate::ErrorKind::Limit), and a
    /// long call stays open instead of being handed over. With a [backend](crate::ServerBuilder::with_backend), the
    /// limit applies to all replicas together. Calls at the same time can exceed the limit by a few runs.
    ///
    /// The limit applies to authenticated callers. Without authentication, it applies to each connection over stdio, a
    /// socket or a WebSocket. It does not apply to unauthenticated callers over streamable HTTP, because the server
    /// cannot distinguish them. [`Limits::with_principal`](crate::limits::Limits::with_principal) limits the rate of
    /// their calls.
    #[must_use]
    pub fn with_max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Sets whether a repeated call joins a run that waits for its user, instead of starting a second run. Default: yes.
    ///
    /// Models sometimes repeat a call instead of calling `task_result`. A call joins a run if the caller, the session,
    /// the client program, the tool and the arguments are the same, and if the run waits for an answer. The call then
    /// returns the waiting result of that run. After the run has continued or ended, a call starts a new run. Calls of
    /// unauthenticated callers over HTTP never join.
    ///
    /// With a [backend](crate::ServerBuilder::with_backend), the search for such a run costs one read of the store for
    /// each call of a tool whose runs can become tasks, even if the tool does not ask. To avoid the read for a tool
    /// that neither asks nor takes long, use [`TaskPolicy::Never`](crate::task::TaskPolicy::Never).
    #[must_use]
    pub fn with_joining(mut self, joining: bool) -> Self {
        self.joins = joining;
        self
    }

    /// Returns the problems of the web page, one line each. `knows_callers` is whether the server authenticates callers.
    pub(crate) fn page_problems(&self, knows_callers: bool) -> Vec<String> {
        self.page.as_ref().map(|page| page.problems(knows_callers)).unwrap_or_default()
    }

    /// Returns the problems of the configuration, one line each.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let is_wrong = [
            (
                self.hand_over_after.is_zero(),
                "`AskPolicy::with_hand_over_after` is 0, so every call would return before its result; set a longer time",
            ),
            (
                self.expiry.is_zero(),
                "`AskPolicy::with_expiry` is 0, so every question would expire at once; set a longer time",
            ),
            (self.heartbeat.is_zero(), "`AskPolicy::with_heartbeat` is 0; set a longer interval"),
            (
                self.max_waiting == 0,
                "`AskPolicy::with_max_waiting` is 0, so no run could wait for its user; set 1 or more",
            ),
        ];
        is_wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| problem.to_owned())
    }
}
