#[cfg(feature = "anyhow")]
mod anyhow_error;
#[cfg(feature = "eyre")]
mod eyre_report;
#[cfg(any(feature = "anyhow", feature = "eyre"))]
mod inside;

use std::{any::Any, error::Error as StdError, fmt, ops::ControlFlow, time::Duration};

use antiphon_llm::Reply;
use antiphon_replay::Drift;
use serde::{Deserialize, Serialize};

use crate::url_elicitation::UrlElicitation;

/// The result type of tool, prompt and resource functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a tool, prompt or resource function, or of one of its questions or steps.
///
/// The `?` operator converts other errors into `Error`: types that implement [`std::error::Error`], `anyhow::Error`,
/// `eyre::Report`, `Box<dyn Error + Send + Sync>`, and text. If a tool returns an error, the model receives the
/// error's text with `isError: true`. If the run is a task, the server can retry the task, unless you mark the error
/// with [`terminal`](Self::terminal). For a few kinds of errors, the server returns a JSON-RPC error instead of a tool
/// result. The documentation of [`ErrorKind`] lists the JSON-RPC error codes.
///
/// # Conversion into other error types
///
/// Like `anyhow::Error`, the type `Error` does not implement [`std::error::Error`]. The `?` operator converts an
/// `Error` into these types:
///
/// - `anyhow::Error` (feature `anyhow`, on by default) and `eyre::Report` (feature `eyre`)
/// - `Box<dyn Error>`. For `Box<dyn Error + Send + Sync>`, call [`into_boxed`](Self::into_boxed)
///
/// If you convert an `Error` into one of these types and back, the error keeps its kind. So a tool can return
/// `anyhow::Result`:
///
/// ```
/// # #[cfg(feature = "anyhow")] mod example {
/// use antiphon::prelude::*;
/// use anyhow::Context as _;
///
/// # #[derive(Deserialize, JsonSchema)] struct Confirm { sure: bool }
/// async fn remove(ctx: &Ctx, _: ()) -> anyhow::Result<String> {
///     let port: u16 = "80".parse().context("the port is not a number")?;
///     let Confirm { sure } = ctx.elicit("Are you sure?").await?.accepted()?;
///     Ok(format!("{port} {sure}"))
/// }
/// # fn tool() -> Tool { Tool::new("remove", "Removes it", remove) }
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    source: Option<Box<dyn StdError + Send + Sync>>,
    terminal: bool,
}

/// The kind of an [`Error`]. Your code can use the kind to decide how to handle the error.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The tool's function returned an error, or it panicked.
    Tool(String),
    /// The user declined to answer a question. The text is the question key.
    Declined(String),
    /// The user closed a question without an answer. The text is the question key.
    Dismissed(String),
    /// The user's answers to a question were invalid, and no retries are left.
    InvalidAnswer {
        /// The question key.
        key: String,
        /// The problems of the last answer, one string per problem.
        problems: Vec<String>,
    },
    /// The client did not declare a capability that the question needs. On MCP 2026-07-28, the server returns the
    /// JSON-RPC error `-32021`.
    Unsupported(Capability),
    /// The client answered a question with a JSON-RPC error.
    Client {
        /// The JSON-RPC error code.
        code: i32,
        /// The error message that the client sent.
        message: String,
    },
    /// No model replied to the request. The text lists which models were tried, and their errors.
    Model(String),
    /// The model's replies were invalid, and no retries are left.
    SampleValidation(Box<SampleValidationError>),
    /// The arguments of the call do not match the tool's input schema.
    InvalidArguments(Vec<String>),
    /// The user must visit these web pages before the tool can run. On MCP 2025-11-25, the server returns the JSON-RPC
    /// error `-32042`.
    UrlElicitationRequired(Vec<UrlElicitation>),
    /// Your code or the server's configuration uses the API incorrectly, for example with an invalid form or an
    /// undeclared question key.
    Misuse(String),
    /// Drift: on replay, the code of the tool does not match the recorded journal. The run cannot continue.
    Drift(Drift),
    /// The tool awaits a future that can never complete.
    Deadlock,
    /// The outcome of an `at_most_once` step is unknown, because the process stopped during the step. The text is the
    /// key of the step. The server does not run the step again. Check in the external system whether the effect has
    /// happened, or ask a user.
    Indeterminate(String),
    /// The run reached a limit of the server or of a [branch](crate::Ctx::branch). The text describes the limit.
    Limit(String),
    /// The run, the branch or the request exceeded its time limit. The value is the time limit.
    Timeout(Duration),
    /// The client did not answer a question before the deadline
    /// ([`Limits::with_answer_timeout`](crate::Limits::with_answer_timeout)).
    Unanswered,
    /// The caller cancelled the request or the task.
    Cancelled,
    /// A JSON-RPC error that the server returns unchanged.
    Protocol {
        /// The JSON-RPC error code.
        code: i32,
        /// The message of the JSON-RPC error.
        message: String,
        /// The `data` of the JSON-RPC error.
        data: Option<serde_json::Value>,
    },
}

/// A client capability that a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// The client can show forms: `elicitation`.
    Elicitation,
    /// The client can open web pages for the user: `elicitation.url`.
    UrlElicitation,
    /// The client has a model: `sampling`.
    Sampling,
    /// The client can offer tools to its model: `sampling.tools`.
    SamplingTools,
    /// The client can add the context of servers to a request: `sampling.context`.
    SamplingContext,
    /// The client can list the folders that the user works in: `roots`.
    Roots,
    /// The request has a session, in which the server can send requests. If an MCP 2025-11-25 client sends a request
    /// without a session, the server cannot send questions to this client.
    Session,
}

impl Capability {
    /// Returns the name of the capability in MCP, for example `sampling.tools`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::UrlElicitation => "elicitation.url",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling.tools",
            Self::SamplingContext => "sampling.context",
            Self::Roots => "roots",
            Self::Session => "session",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [
            Self::Elicitation,
            Self::UrlElicitation,
            Self::Sampling,
            Self::SamplingTools,
            Self::SamplingContext,
            Self::Roots,
            Self::Session,
        ]
        .into_iter()
        .find(|capability| capability.name() == name)
    }
}

/// The sampling method whose replies were not valid, in a [`SampleValidationError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SampleMethod {
    /// The tool called [`Ctx::sample_tools`](crate::Ctx::sample_tools).
    SampleTools,
    /// The tool called [`Ctx::sample_schema`](crate::Ctx::sample_schema).
    SampleSchema,
}

impl fmt::Display for SampleMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SampleTools => "sample_tools",
            Self::SampleSchema => "sample_schema",
        })
    }
}

/// The error if all replies of a model were invalid, including the replies to retries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SampleValidationError {
    /// The sampling method that the tool called.
    #[serde(alias = "helperName")]
    pub method: SampleMethod,
    /// How often the model was asked: the number of retries plus one.
    pub attempts: u32,
    /// The last reply of the model.
    pub last_result: Reply,
    /// The problems of the last reply, one string per problem.
    pub problems: Vec<String>,
}

impl fmt::Display for SampleValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, attempts, problems, .. } = self;
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, "{method} failed after {attempts} attempt{plural}: {}", problems.join("; "))
    }
}

impl std::error::Error for SampleValidationError {}

impl ErrorKind {
    /// Returns the name of the kind, for logs and metrics. Logs and metrics do not contain the text of the error,
    /// because the text can contain the caller's data.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tool",
            Self::Declined(_) => "declined",
            Self::Dismissed(_) => "dismissed",
            Self::InvalidAnswer { .. } => "invalid_answer",
            Self::Unsupported(_) => "unsupported",
            Self::Client { .. } => "client",
            Self::Model(_) => "model",
            Self::SampleValidation(_) => "sample_validation",
            Self::InvalidArguments(_) => "invalid_arguments",
            Self::UrlElicitationRequired(_) => "url_elicitation_required",
            Self::Misuse(_) => "misuse",
            Self::Drift(_) => "drift",
            Self::Deadlock => "deadlock",
            Self::Indeterminate(_) => "indeterminate",
            Self::Limit(_) => "limit",
            Self::Timeout(_) => "timeout",
            Self::Unanswered { .. } => "unanswered",
            Self::Cancelled => "cancelled",
            Self::Protocol { .. } => "protocol",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(message)
            | Self::Misuse(message)
            | Self::Limit(message)
            | Self::Protocol { message, .. } => f.write_str(message),
            Self::Declined(key) => write!(f, "the question `{key}` was declined"),
            Self::Dismissed(key) => write!(f, "the question `{key}` was dismissed"),
            Self::InvalidAnswer { key, problems } => {
                write!(f, "the answer to the question `{key}` is not valid: {}", problems.join("; "))
            }
            Self::Unsupported(Capability::UrlElicitation) => f.write_str(URL_GUARD),
            Self::Unsupported(Capability::Session) => f.write_str(
                "the client cannot receive questions: it sent this request outside a session; initialize a session first, or use protocol revision 2026-07-28",
            ),
            Self::Unsupported(Capability::Sampling) => f.write_str(
                "the client has not declared `sampling`, and the server has no model; add one with `ServerBuilder::with_model`",
            ),
            Self::Unsupported(capability) => {
                write!(f, "the client has not declared `{}`, so it cannot receive this question", capability.name())
            }
            Self::Client { code, message } => write!(f, "the client answered with error {code}: {message}"),
            Self::Model(tried) => write!(f, "no model answered: {tried}"),
            Self::SampleValidation(error) => error.fmt(f),
            Self::InvalidArguments(problems) => write!(f, "invalid arguments: {}", problems.join("; ")),
            Self::UrlElicitationRequired(_) => f.write_str("This request requires more information."),
            Self::Drift(drift) => write!(f, "the run cannot be continued: {drift}; {}", drift.hint()),
            Self::Deadlock => f.write_str(
                "the tool is deadlocked: it awaits a future that nothing can wake, and it has no pending question; check for a channel or lock whose other side was dropped",
            ),
            Self::Indeterminate(step) => write!(
                f,
                "step `{step}` has an unknown outcome: its process stopped before it recorded the result; the step does not run again, so check the external system"
            ),
            Self::Timeout(limit) => write!(f, "the time limit of {limit:?} was exceeded"),
            Self::Unanswered => f.write_str("the question was not answered in time; raise `Limits::with_answer_timeout`, or `AskPolicy::with_expiry` for questions that wait for a form"),
            Self::Cancelled => f.write_str("the request was cancelled"),
        }
    }
}

/// The error text for a client that does not support URL elicitation.
const URL_GUARD: &str = "URL elicitation mode is not supported by this client. Use form mode (default) instead. See: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation";

impl Error {
    /// Creates an error of the kind [`ErrorKind::Tool`]. The model and the user can read the text `message`.
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Tool(message.into()))
    }

    /// Creates an error that the server returns as a JSON-RPC error. Use this function only where MCP requires a
    /// JSON-RPC error.
    pub fn protocol(code: i32, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol { code, message: message.into(), data: None })
    }

    /// Creates an error that asks the user to visit these web pages. After the visit, the client can call the tool
    /// again.
    ///
    /// On MCP 2025-11-25, the server returns the JSON-RPC error `-32042` with the list of web pages. MCP 2026-07-28
    /// does not define the code `-32042`. [`Ctx::elicit_url`](crate::Ctx::elicit_url) works on both protocol
    /// revisions.
    pub fn url_elicitation_required(elicitations: impl IntoIterator<Item = UrlElicitation>) -> Self {
        Self::new(ErrorKind::UrlElicitationRequired(elicitations.into_iter().collect()))
    }

    /// Sets the `data` of a JSON-RPC error. This method changes only errors that [`protocol`](Self::protocol) created.
    #[must_use]
    pub fn with_data(mut self, value: serde_json::Value) -> Self {
        if let ErrorKind::Protocol { data, .. } = &mut self.0.kind {
            *data = Some(value);
        }
        self
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, source: None, terminal: false }))
    }

    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misuse(message.into()))
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the error that caused this error, or `None` if this error has no cause.
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }

    /// Converts the error into a `Box<dyn Error + Send + Sync>`. If `?` converts the box back, you get the original
    /// error.
    pub fn into_boxed(self) -> Box<dyn StdError + Send + Sync> {
        Box::new(Boxed(self))
    }

    /// Marks the error as terminal. If the run is a task, the server does not retry the task.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.0.terminal = true;
        self
    }

    /// Returns whether the error is terminal. See [`terminal`](Self::terminal).
    pub fn is_terminal(&self) -> bool {
        self.0.terminal
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>> + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let mut error = Some(error);
        let mut terminal = false;
        for inside in WRAPPERS {
            match inside(&mut error) {
                ControlFlow::Break(error) => return error,
                ControlFlow::Continue(is_terminal) => terminal |= is_terminal,
            }
        }
        let source = error.take().expect("an error whose kind is not inside it is still there").into();
        let source = match source.downcast::<Boxed>() {
            Ok(boxed) => return boxed.0,
            Err(source) => source,
        };
        let kind = match source.downcast_ref::<SampleValidationError>() {
            Some(error) => ErrorKind::SampleValidation(Box::new(error.clone())),
            None => ErrorKind::Tool(source.to_string()),
        };
        Self(Box::new(Inner { kind, source: Some(source), terminal }))
    }
}

/// Searches for an [`Error`] inside an error of another crate. The parameter is an `Option` with the error of the other
/// crate. If the kind of the inner error must be kept, the function returns `Break` with the inner error. The text
/// around the inner error is then lost. Otherwise, the function returns `Continue`. The value of `Continue` is `true`
/// if the inner error is a terminal error of the kind [`ErrorKind::Tool`].
type FindInside = fn(&mut dyn Any) -> ControlFlow<Error, bool>;

/// One function for each error type of another crate that can contain an [`Error`]. When an error of such a type is
/// boxed, the type and the kind of the inner [`Error`] are lost.
const WRAPPERS: &[FindInside] = &[
    #[cfg(feature = "anyhow")]
    anyhow_error::find,
    #[cfg(feature = "eyre")]
    eyre_report::find,
];

/// An [`Error`] that implements [`std::error::Error`].
struct Boxed(Error);

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.0.kind)
    }
}

impl fmt::Debug for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for Boxed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The text of this error is already the text of `source`, so the next cause is the source of `source`.
        self.0.0.source.as_ref()?.source()
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        Box::new(Boxed(error))
    }
}

/// `{}` writes the text of the error. `{:#}` also writes the texts of its causes.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind)?;
        if f.alternate() {
            let mut cause = self.0.source.as_ref().and_then(|source| source.source());
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        Ok(())
    }
}

/// If `main` returns this error, Rust prints it with this implementation.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// The problems that prevent a server, a tool or a router from being built.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    pub(crate) problems: Vec<String>,
}

impl BuildError {
    /// Returns all problems, one string per problem.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server cannot be built")?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

/// If `main` returns this error, Rust prints it with this implementation.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}
