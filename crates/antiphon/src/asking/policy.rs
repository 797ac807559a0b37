use std::time::Duration;

use super::page::AskPage;

/// The settings for users whose client does not show questions, and for clients that do not wait for long calls.
///
/// If a client cannot show a tool's question, the run waits on the server. The call returns a result that tells the
/// model the next step. The user answers in a form, which is an MCP App, or on the answer page (`with_page`). The run
/// then continues with this answer. The model reads the result of the run with the tool `task_result`.
///
/// A long call of a client without MCP tasks returns in the same way, while its run continues on the server.
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
/// If a client has MCP tasks and MCP Apps, or if the server has an answer page, the models of this client also see
/// `task_result` and `task_cancel`.
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
    /// In a client that shows MCP Apps, the server uses the form first. If the user does not see the form, the model
    /// can call `task_question` with `"link": true` to get a link to the page.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn with_page(mut self, page: AskPage) -> Self {
        self.page = Some(page);
        self
    }

    /// Sets whether models can relay answers to questions that allow it
    /// ([`Elicit::relayed`](crate::elicitation::Elicit::relayed)). Default: no.
    ///
    /// A model can relay an answer only if no other channel reaches the user. This is the case if the client shows
    /// neither forms nor MCP Apps, and the server has no answer page. The model then asks the user in the chat, and
    /// delivers the answer with the tool `task_answer`. The server cannot verify that the model asked the user.
    #[must_use]
    pub fn with_relay(mut self, relay: bool) -> Self {
        self.relay = relay;
        self
    }

    /// Sets the time after which a long call of a client without MCP tasks returns. The run of this call then
    /// continues on the server. Default: 45 seconds.
    ///
    /// The default is shorter than 60 seconds, because many clients cancel a call after 60 seconds. The setting
    /// applies to tools whose runs can become tasks ([`Tool::with_tasks`](crate::Tool::with_tasks)).
    #[must_use]
    pub fn with_hand_over_after(mut self, hand_over_after: Duration) -> Self {
        self.hand_over_after = hand_over_after;
        self
    }

    /// Sets the shortest time in which a user could answer a question. Default: 300 milliseconds.
    ///
    /// Some clients decline or cancel a question without showing it, or accept it without content. If such an answer
    /// arrives before this time has passed, the server asks the user through another channel. An accepted form with
    /// content always counts. If the time is zero, the server does not check how fast an answer arrives.
    ///
    /// If a form has required fields, an accepted form without content never counts.
    #[must_use]
    pub fn with_quick(mut self, quick: Duration) -> Self {
        self.quick = quick;
        self
    }

    /// Sets how long a question stays open if the user has to answer in a form. Default: 1 hour.
    ///
    /// After that time, the question fails with [`ErrorKind::Unanswered`](crate::ErrorKind::Unanswered). A form that
    /// the user has opened is valid for at most 1 hour. The user can open the form again.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Duration) -> Self {
        self.expiry = expiry;
        self
    }

    /// Sets the maximum time without a message to the client during a call. After that time, the server sends a
    /// progress notification. Default: 10 seconds.
    ///
    /// Some clients cancel a call that reports no progress. The server sends the notification only if the client has
    /// sent a progress token.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Sets how many runs of one caller can wait for users at the same time. Default: 100.
    ///
    /// If the limit is reached, a call that would have to wait fails with
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit). A long call is then not handed over, and stays open. If the
    /// server has a [backend](crate::ServerBuilder::with_backend), the limit applies to all replicas together.
    /// Concurrent calls can exceed the limit by a few runs.
    ///
    /// The limit applies to each authenticated caller. Without authentication, the limit applies to each connection
    /// over stdio, a socket or a WebSocket. The limit does not apply to unauthenticated callers over streamable HTTP,
    /// because the server cannot distinguish these callers. To limit how often they call tools, use
    /// [`Limits::with_principal`](crate::limits::Limits::with_principal).
    #[must_use]
    pub fn with_max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Sets whether a repeated call joins a run that waits for its user, instead of starting a second run. Default: yes.
    ///
    /// Models sometimes repeat a call instead of calling `task_result`. The repeated call joins a run that waits for
    /// an answer if the caller, the session, the client program, the tool and the arguments are the same. It then
    /// returns the waiting result of this run. If the run has continued or ended, the repeated call starts a new run.
    /// Calls of unauthenticated callers over HTTP never join a run.
    ///
    /// If the server has a [backend](crate::ServerBuilder::with_backend), this search reads the store once for each
    /// call of a tool whose runs can become tasks. This happens even if the tool asks no questions. If a tool asks no
    /// questions and is fast, you can avoid the read with [`TaskPolicy::Never`](crate::task::TaskPolicy::Never).
    #[must_use]
    pub fn with_joining(mut self, joining: bool) -> Self {
        self.joins = joining;
        self
    }

    /// Returns descriptions of the answer page's configuration problems, one per line. `knows_callers` is whether the
    /// server authenticates callers.
    pub(crate) fn page_problems(&self, knows_callers: bool) -> Vec<String> {
        self.page.as_ref().map(|page| page.problems(knows_callers)).unwrap_or_default()
    }

    /// Returns descriptions of the configuration problems, one per line.
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
