use std::time::Duration;

#[cfg(feature = "http")]
use super::AskPage;

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
/// | `task_question` | models of clients with MCP Apps | shows the form with the question |
/// | `ask_open` | the form | returns the open question |
/// | `ask_answer` | the form | delivers the user's answer |
///
/// If a client has MCP tasks and MCP Apps, or if the server has a web page for answers, its models see `task_result` and
/// `task_cancel` too.
#[derive(Clone, Debug)]
pub struct AskPolicy {
    pub(crate) app: bool,
    #[cfg(feature = "http")]
    pub(super) page: Option<AskPage>,
    pub(crate) hand_over_after: Duration,
    pub(crate) quick: Duration,
    pub(crate) expiry: Duration,
    pub(crate) heartbeat: Duration,
}

impl Default for AskPolicy {
    fn default() -> Self {
        Self {
            app: true,
            #[cfg(feature = "http")]
            page: None,
            hand_over_after: Duration::from_secs(45),
            quick: Duration::from_millis(300),
            expiry: Duration::from_secs(60 * 60),
            heartbeat: Duration::from_secs(10),
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

    /// Returns the problems of the web page, one line each. `knows_callers` is whether the server authenticates callers.
    #[cfg(feature = "http")]
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
        ];
        is_wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| problem.to_owned())
    }
}
