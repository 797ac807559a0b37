use std::time::Duration;

use super::page::AskPage;

/// The settings for users whose client does not show questions, and for clients that do not wait for long calls.
///
/// If a client cannot show a tool's question, the run waits on the server. The call returns a result that tells the
/// model what to do next. The user answers in a form, which is an MCP App, or on the answer page (`with_page`). After
/// the answer, the run continues. The model reads the result of the run with the tool `task_result`.
///
/// If a client does not support MCP tasks, a long call of this client also returns before its run has ended. The run
/// then continues on the server.
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
/// | `task_result` | models of clients without MCP tasks | returns the result of a run, or the model's next step |
/// | `task_cancel` | models of clients without MCP tasks | cancels a run |
/// | `task_answer` | models that see `task_result`, with [`with_relay`](Self::with_relay) | relays the user's answer |
/// | `task_question` | models of clients with MCP Apps | shows the form with the question |
/// | `ask_open` | the form | returns the open question |
/// | `ask_answer` | the form | delivers the user's answer |
///
/// If a client supports MCP tasks, its models see `task_result` and `task_cancel` in two cases. Either the client also
/// supports MCP Apps, or the server has an answer page.
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
    /// Sets whether the server shows questions in a form that hosts show as an MCP App. Default: yes.
    #[must_use]
    pub fn with_app(mut self, app: bool) -> Self {
        self.app = app;
        self
    }

    /// Sets the answer page, for users whose client shows neither forms nor MCP Apps. Default: none.
    ///
    /// If a client shows MCP Apps, the server first uses the form in the MCP App. If the user does not see this form,
    /// the model can call `task_question` with `"link": true` to get a link to the answer page.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn with_page(mut self, page: AskPage) -> Self {
        self.page = Some(page);
        self
    }

    /// Sets whether models can relay answers to questions that allow relayed answers
    /// ([`Elicit::relayed`](crate::elicitation::Elicit::relayed)). Default: no.
    ///
    /// A model can relay an answer only if the client shows neither forms nor MCP Apps, and the server has no answer
    /// page. To relay an answer, the model asks the user in the chat, and then calls the tool `task_answer` with the
    /// user's answer. The server cannot verify that the model asked the user.
    #[must_use]
    pub fn with_relay(mut self, relay: bool) -> Self {
        self.relay = relay;
        self
    }

    /// Sets how long a call of a client without MCP tasks can take before the server returns a waiting result. After
    /// the call has returned, its run continues on the server. Default: 45 seconds.
    ///
    /// The default is shorter than 60 seconds, because many clients cancel a call after 60 seconds. This setting
    /// affects only tools whose runs can become tasks ([`Tool::with_tasks`](crate::Tool::with_tasks)).
    #[must_use]
    pub fn with_hand_over_after(mut self, hand_over_after: Duration) -> Self {
        self.hand_over_after = hand_over_after;
        self
    }

    /// Sets the shortest time in which a user can answer a question. Default: 300 milliseconds.
    ///
    /// Some clients decline, cancel or accept a question without showing the question to the user. If such an answer
    /// arrives before the shortest time has passed, the server asks the user through another channel. If a client
    /// accepts a form and returns values, the answer always counts. If you set the shortest time to zero, the server
    /// does not check how fast an answer arrives.
    ///
    /// If a form has required fields, an answer that accepts the form without values never counts.
    #[must_use]
    pub fn with_quick(mut self, quick: Duration) -> Self {
        self.quick = quick;
        self
    }

    /// Sets how long a question stays open if the run waits on the server for the user's answer. Default: 1 hour.
    ///
    /// If the user does not answer in time, the question fails with
    /// [`ErrorKind::Unanswered`](crate::ErrorKind::Unanswered). A form that the user has opened is valid for at most 1
    /// hour. The user can then open the form again.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Duration) -> Self {
        self.expiry = expiry;
        self
    }

    /// Sets the longest time during a call in which the server sends no message to the client. When this time has
    /// passed, the server sends a progress notification. Default: 10 seconds.
    ///
    /// Some clients cancel a call if they receive no progress notifications. The server sends progress notifications
    /// only if the client has sent a progress token.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Sets how many runs of one caller can wait for users at the same time. Default: 100.
    ///
    /// If the limit is reached, a call that must wait for a user fails with
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit). A long call then stays open instead of becoming a background run.
    /// If the server has a [backend](crate::ServerBuilder::with_backend), all replicas together count the waiting runs
    /// of a caller. If several calls arrive at the same time, a caller can exceed the limit by a few waiting runs.
    ///
    /// The limit applies separately to each authenticated caller. Without authentication, the limit applies separately
    /// to each connection over stdio, a socket or a WebSocket. The limit does not apply to unauthenticated callers over
    /// streamable HTTP, because the server cannot distinguish these callers. To limit how often unauthenticated callers
    /// call tools, use [`Limits::with_principal`](crate::limits::Limits::with_principal).
    #[must_use]
    pub fn with_max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Sets whether a repeated call joins a run that waits for its user, instead of starting a new run. Default: yes.
    ///
    /// Models sometimes repeat a call instead of calling `task_result`. The repeated call joins a run that waits for an
    /// answer if the caller, session, client program, tool and arguments are the same. The repeated call then returns
    /// the waiting result of the joined run. If the first run no longer waits for an answer, the repeated call starts a
    /// new run. Calls of unauthenticated callers over HTTP never join a run.
    ///
    /// If the server has a [backend](crate::ServerBuilder::with_backend), each call of a tool whose runs can become
    /// tasks reads the store once. This read happens even if the tool asks no questions. If a fast tool asks no
    /// questions, you can avoid this read with [`TaskPolicy::Never`](crate::task::TaskPolicy::Never).
    #[must_use]
    pub fn with_joining(mut self, joining: bool) -> Self {
        self.joins = joining;
        self
    }

    /// Returns one line for each problem of the answer page's configuration. `knows_callers` is true if the server
    /// authenticates callers.
    pub(crate) fn page_problems(&self, knows_callers: bool) -> Vec<String> {
        self.page.as_ref().map(|page| page.problems(knows_callers)).unwrap_or_default()
    }

    /// Returns one line for each problem of the configuration.
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
