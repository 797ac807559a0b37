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

/// The result type of the functions behind tools, prompts and resources.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a tool, prompt or resource function, or of a question or step in such a function.
///
/// The `?` operator converts other errors into `Error`: types that implement [`std::error::Error`], `anyhow::Error`,
/// `eyre::Report`, `Box<dyn Error + Send + Sync>`, and text. If a tool returns an error, the model receives the text of
/// the error with `isError: true`. If the run is a task, the server can retry the task, unless you mark the error with
/// [`terminal`](Self::terminal). For a few kinds of errors, the server returns a JSON-RPC error instead of a tool
/// result. The documentation of [`ErrorKind`] lists the JSON-RPC error codes.
///
/// # Conversion into other error types
///
/// Like `anyhow::Error`, the type `Error` does not implement [`std::error::Error`]. The `?` operator converts an
/// `Error` into these types:
///
/// - `anyhow::Error` (feature `anyhow`, on by default) and `eyre::Report` (feature `eyre`)
/// - `Box<dyn Error>`. To get a `Box<dyn Error + Send + Sync>`, call [`into_boxed`](Self::into_boxed)
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

/// The kind of an [`Error`]. From the kind, your code can decide how to handle the error.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The tool's function returned an error, or the tool's function panicked.
    Tool(String),
    /// The user declined to answer a question. The `String` is the question key.
    Declined(String),
    /// The user closed a question without an answer. The `String` is the question key.
    Dismissed(String),
    /// The user's answer to a question was invalid, and the user's answers to all retries were invalid too.
    InvalidAnswer {
        /// The key of the question that the user answered.
        key: String,
        /// The problems of the user's last answer, one string per problem.
        problems: Vec<String>,
    },
    /// The client did not declare a capability that the question needs. On MCP 2026-07-28, the server returns the
    /// JSON-RPC error `-32021`.
    Unsupported(Capability),
    /// The client answered a question with a JSON-RPC error.
    Client {
        /// The JSON-RPC error code in the client's answer.
        code: i32,
        /// The error message in the client's answer.
        message: String,
    },
    /// No model replied to the request. The `String` lists the models that the server tried, and the error of each
    /// model.
    Model(String),
    /// The model's reply was invalid, and the model's replies to all retries were invalid too.
    SampleValidation(Box<SampleValidationError>),
    /// The arguments of the call do not match the tool's input schema.
    InvalidArguments(Vec<String>),
    /// The user must open the listed web pages before the tool can run. On MCP 2025-11-25, the server returns the
    /// JSON-RPC error `-32042`.
    UrlElicitationRequired(Vec<UrlElicitation>),
    /// Your code or the server's configuration uses the API incorrectly. For example, a form is invalid or a question
    /// key is not declared.
    Misuse(String),
    /// Drift: on replay, the code of the tool does not match the recorded journal. The run cannot continue.
    Drift(Drift),
    /// The tool awaits a future that can never complete.
    Deadlock,
    /// The process stopped during an `at_most_once` step, so the server cannot determine whether the side effect of the
    /// step happened. The `String` is the key of the step. The server does not run the step again. Check in the
    /// external system whether the side effect happened, or ask a user.
    Indeterminate(String),
    /// The run reached a limit of the server or of a [branch](crate::Ctx::branch). The `String` describes this limit.
    Limit(String),
    /// The run, the branch or the request took longer than its time limit. The `Duration` is the time limit.
    Timeout(Duration),
    /// No answer to a question arrived before the deadline
    /// ([`Limits::with_answer_timeout`](crate::Limits::with_answer_timeout)).
    Unanswered,
    /// The caller cancelled the request or the task.
    Cancelled,
    /// A JSON-RPC error that the server returns unchanged.
    Protocol {
        /// The error code of the JSON-RPC error.
        code: i32,
        /// The error message of the JSON-RPC error.
        message: String,
        /// The `data` of the JSON-RPC error.
        data: Option<serde_json::Value>,
    },
}

/// A capability that a client needs, so that a tool can ask the client a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// The client can show forms to the user (MCP capability `elicitation`).
    Elicitation,
    /// The client can open web pages for the user (MCP capability `elicitation.url`).
    UrlElicitation,
    /// The client can send requests to a model (MCP capability `sampling`).
    Sampling,
    /// The client can offer tools to its model (MCP capability `sampling.tools`).
    SamplingTools,
    /// The client can add the context of servers to a request to its model (MCP capability `sampling.context`).
    SamplingContext,
    /// The client can list the folders in which the user works (MCP capability `roots`).
    Roots,
    /// The request belongs to a session in which the server can send requests to the client. If an MCP 2025-11-25
    /// client sends a request without a session, the server cannot send questions to this client.
    Session,
}

impl Capability {
    /// Returns the name that MCP uses for the capability, for example `sampling.tools`.
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

/// The sampling method that a tool called, if a [`SampleValidationError`] reports that all replies were invalid.
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

/// The error that a tool receives if all replies of a model were invalid, including the replies to retries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SampleValidationError {
    /// The sampling method that the tool called.
    #[serde(alias = "helperName")]
    pub method: SampleMethod,
    /// How often the server asked the model. This number is the number of retries plus one.
    pub attempts: u32,
    /// The last invalid reply of the model.
    pub last_result: Reply,
    /// The problems of the model's last reply, one string per problem.
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
    /// Returns the name of the error kind, for logs and metrics. Logs and metrics do not contain the text of the error,
    /// because this text can contain data of the caller.
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
    /// Creates an error of the kind [`ErrorKind::Tool`]. The model and the user can read the text in `message`.
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Tool(message.into()))
    }

    /// Creates an error that the server returns as a JSON-RPC error. Use this function only where MCP requires a
    /// JSON-RPC error.
    pub fn protocol(code: i32, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol { code, message: message.into(), data: None })
    }

    /// Creates an error that asks the user to open the web pages in `elicitations`. When the user has finished on these
    /// web pages, the client can call the tool again.
    ///
    /// On MCP 2025-11-25, the server returns the JSON-RPC error `-32042` with the list of web pages. MCP 2026-07-28
    /// does not define the code `-32042`. If the tool must work on both protocol revisions, use
    /// [`Ctx::elicit_url`](crate::Ctx::elicit_url).
    pub fn url_elicitation_required(elicitations: impl IntoIterator<Item = UrlElicitation>) -> Self {
        Self::new(ErrorKind::UrlElicitationRequired(elicitations.into_iter().collect()))
    }

    /// Sets the `data` of a JSON-RPC error. The method `with_data` changes only errors that you created with
    /// [`protocol`](Self::protocol).
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

    /// Returns the kind of this error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the error that caused this error, or `None` if this error has no cause.
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }

    /// Converts the error into a `Box<dyn Error + Send + Sync>`. If the `?` operator converts this box back into an
    /// [`Error`], you get the original error.
    pub fn into_boxed(self) -> Box<dyn StdError + Send + Sync> {
        Box::new(Boxed(self))
    }

    /// Marks the error as terminal. If a task fails with a terminal error, the server does not retry the task.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.0.terminal = true;
        self
    }

    /// Returns `true` if the error is terminal. See [`terminal`](Self::terminal).
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

/// A function that searches for an [`Error`] inside an error of another crate. The parameter is an `Option` that
/// contains the error of the other crate. If the conversion must keep the kind of the inner error, the function returns
/// `Break` with the inner error. The text that the other crate added around the inner error is then lost. If the
/// conversion does not have to keep the kind, the function returns `Continue`. The value of `Continue` is `true` if the
/// inner error is a terminal error of the kind [`ErrorKind::Tool`].
type FindInside = fn(&mut dyn Any) -> ControlFlow<Error, bool>;

/// The functions that search for an [`Error`] in the error types of other crates, one function per error type. If an
/// error of another crate is boxed, the type and the kind of the [`Error`] inside this error are lost.
const WRAPPERS: &[FindInside] = &[
    #[cfg(feature = "anyhow")]
    anyhow_error::find,
    #[cfg(feature = "eyre")]
    eyre_report::find,
];

/// An [`Error`] in a wrapper that implements [`std::error::Error`].
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
        // The text of this error is already the text of `source`. So the next cause in the chain is the source of
        // `source`.
        self.0.0.source.as_ref()?.source()
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        Box::new(Boxed(error))
    }
}

/// The format `{}` writes the text of the error. The format `{:#}` also writes the texts of all causes of the error.
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

/// If `main` returns an [`Error`], Rust prints the error with this `Debug` implementation.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// The list of problems because of which a server, a tool or a router cannot be built.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    pub(crate) problems: Vec<String>,
}

impl BuildError {
    /// Returns all problems that prevent the build, one string per problem.
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

/// If `main` returns a [`BuildError`], Rust prints the error with this `Debug` implementation.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}
