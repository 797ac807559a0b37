#[cfg(any(feature = "anyhow", feature = "eyre"))]
use std::any::Any;
use std::{error::Error as StdError, fmt, time::Duration};

use antiphon_llm::Reply;
use antiphon_replay::Drift;
use serde::{Deserialize, Serialize};

use crate::url_elicitation::UrlElicitation;

/// What a tool, prompt or resource returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run, or a part of it, did not come to a result.
///
/// `?` converts every error into one: each type that implements [`std::error::Error`], `anyhow::Error`, `eyre::Report`,
/// `Box<dyn Error + Send + Sync>`, and text. The model then gets the error's text (`isError: true`), and a task may try
/// again. [`terminal`](Self::terminal) says that trying again is pointless. MCP has JSON-RPC errors with their own codes
/// for a few kinds. [`ErrorKind`] says which.
///
/// # Into other error types
///
/// Like `anyhow::Error`, this type does not implement [`std::error::Error`]. `?` converts it into
///
/// - `anyhow::Error` (feature `anyhow`, on by default) and `eyre::Report` (feature `eyre`),
/// - `Box<dyn Error>`. For `Box<dyn Error + Send + Sync>` call [`into_boxed`](Self::into_boxed).
///
/// An error that comes back from one of these keeps its kind, so a tool can return `anyhow::Result`:
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

/// What kind of error it is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The tool's own error.
    Tool(String),
    /// The person declined to answer the question with this key.
    Declined(String),
    /// The person dismissed the question with this key.
    Dismissed(String),
    /// The answer to the question with this key did not fit its form or its check, however often it was asked.
    InvalidAnswer {
        /// The question's key.
        key: String,
        /// What is wrong with the last answer, one line a problem.
        problems: Vec<String>,
    },
    /// The client cannot be asked this. Answered with `-32021` on 2026-07-28.
    Unsupported(Capability),
    /// The client answered with an error.
    Client {
        /// The JSON-RPC error code.
        code: i32,
        /// The client's message.
        message: String,
    },
    /// No model could be asked: what was tried, and what came of it.
    Model(String),
    /// A model did not give what was asked for, however often it was asked.
    SampleValidation(Box<SampleValidationError>),
    /// The arguments do not fit the tool's schema.
    InvalidArguments(Vec<String>),
    /// The tool cannot go on before the person has visited these pages. Answered with `-32042` on
    /// 2025-11-25.
    UrlElicitationRequired(Vec<UrlElicitation>),
    /// A key, name or value was refused by the tool's own declaration.
    Misuse(String),
    /// The journal no longer fits the tool's code.
    Drift(Drift),
    /// The tool waits for nothing that could ever happen.
    Deadlock,
    /// The step with this key was begun by somebody who has fallen silent since: it may have been taken or
    /// not, and it is to be taken at most once. Find out by other means, or ask a person.
    Indeterminate(String),
    /// A limit was reached: which, and how to raise it.
    Limit(String),
    /// It took longer than it may.
    Timeout(Duration),
    /// Nobody answered a question for as long as one may stay unanswered
    /// ([`Limits::with_answer_timeout`](crate::Limits::with_answer_timeout)).
    Unanswered,
    /// The caller gave up.
    Cancelled,
    /// A JSON-RPC error to answer with as it is.
    Protocol {
        /// The JSON-RPC error code.
        code: i32,
        /// A short sentence.
        message: String,
        /// What else there is to say.
        data: Option<serde_json::Value>,
    },
}

/// What a client must declare before it can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// `elicitation`, form mode.
    Elicitation,
    /// `elicitation.url`.
    UrlElicitation,
    /// `sampling`.
    Sampling,
    /// `sampling.tools`.
    SamplingTools,
    /// `sampling.context`.
    SamplingContext,
    /// `roots`.
    Roots,
    /// A session in which the server can ask at all: a 2025-11-25 client that posts without one
    /// cannot be reached.
    Session,
}

impl Capability {
    /// Its name in the protocol.
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

/// Which guaranteed call it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SampleMethod {
    /// [`Ctx::sample_tools`](crate::Ctx::sample_tools).
    SampleTools,
    /// [`Ctx::sample_schema`](crate::Ctx::sample_schema).
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

/// A model did not give what was asked for, however often it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SampleValidationError {
    /// Which call.
    #[serde(alias = "helperName")]
    pub method: SampleMethod,
    /// How often it was asked: the retries, and one.
    pub attempts: u32,
    /// What it said last.
    pub last_result: Reply,
    /// What was wrong with that, a line a problem.
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
    /// The kind in a word, for logs and metrics. The text may be the caller's, and is in neither.
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
                write!(f, "the answer to `{key}` does not fit: {}", problems.join("; "))
            }
            Self::Unsupported(Capability::UrlElicitation) => f.write_str(URL_GUARD),
            Self::Unsupported(Capability::Session) => f.write_str(
                "the client cannot be asked: it sent this request outside a session; let it initialize one, or speak 2026-07-28",
            ),
            Self::Unsupported(Capability::Sampling) => f.write_str(
                "the client has not declared `sampling`, so it cannot be asked, and the server has no model of its own",
            ),
            Self::Unsupported(capability) => {
                write!(f, "the client has not declared `{}`, so it cannot be asked", capability.name())
            }
            Self::Client { code, message } => write!(f, "the client answered with error {code}: {message}"),
            Self::Model(tried) => write!(f, "no model could be asked: {tried}"),
            Self::SampleValidation(error) => error.fmt(f),
            Self::InvalidArguments(problems) => write!(f, "invalid arguments: {}", problems.join("; ")),
            Self::UrlElicitationRequired(_) => f.write_str("This request requires more information."),
            Self::Drift(drift) => write!(f, "the run cannot be continued: {drift}; {}", drift.hint()),
            Self::Deadlock => f.write_str(
                "the tool waits for nothing that could ever happen: it awaits a future that nobody will wake, and has asked nothing",
            ),
            Self::Indeterminate(step) => write!(
                f,
                "nobody knows whether the step `{step}` was taken: it was begun, and whoever began it has died; it is not taken again"
            ),
            Self::Timeout(limit) => write!(f, "it took longer than {limit:?}"),
            Self::Unanswered => f.write_str("nobody answered for as long as a question may stay unanswered"),
            Self::Cancelled => f.write_str("the request was cancelled"),
        }
    }
}

/// What a server says when it would have to ask by URL and must not.
const URL_GUARD: &str = "URL elicitation mode is not supported by this client. Use form mode (default) instead. See: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation";

impl Error {
    /// The tool's own error, in words meant for the model and the person behind it.
    pub fn tool(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Tool(message.into()))
    }

    /// A JSON-RPC error, for what MCP wants answered as one.
    pub fn protocol(code: i32, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol { code, message: message.into(), data: None })
    }

    /// Sends the person to these pages before the tool can be called again.
    ///
    /// On 2025-11-25 the caller gets `-32042` with the list. On 2026-07-28, where that code does not
    /// exist, ask with [`Ctx::elicit_url`](crate::Ctx::elicit_url) instead, which works on both.
    pub fn url_elicitation_required(elicitations: impl IntoIterator<Item = UrlElicitation>) -> Self {
        Self::new(ErrorKind::UrlElicitationRequired(elicitations.into_iter().collect()))
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, source: None, terminal: false }))
    }

    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misuse(message.into()))
    }

    /// What kind of error it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The error it came from, if any.
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }

    /// Converts the error into a boxed standard error. `?` on it gives this error again.
    pub fn into_boxed(self) -> Box<dyn StdError + Send + Sync> {
        Box::new(Boxed(self))
    }

    /// Says that trying again is pointless.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.0.terminal = true;
        self
    }

    /// Whether trying again is pointless.
    pub fn is_terminal(&self) -> bool {
        self.0.terminal
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>> + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let mut error = Some(error);
        // These lose their type when they are boxed, and with it the kind of an `Error` inside.
        let inside = Inside::None;
        #[cfg(feature = "anyhow")]
        let inside = inside.or_else(|| {
            let slot = (&mut error as &mut dyn Any).downcast_mut::<Option<anyhow::Error>>();
            Inside::find(slot, anyhow::Error::downcast_ref, anyhow::Error::downcast)
        });
        #[cfg(feature = "eyre")]
        let inside = inside.or_else(|| {
            let slot = (&mut error as &mut dyn Any).downcast_mut::<Option<eyre::Report>>();
            Inside::find(slot, eyre::Report::downcast_ref, eyre::Report::downcast)
        });
        let terminal = match inside {
            Inside::Kind(error) => return error,
            Inside::Terminal => true,
            Inside::None => false,
        };
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

/// The [`Error`] that an error of another crate was made from.
enum Inside {
    None,
    /// One of the tool's own, which takes the text around it, and is terminal.
    #[cfg_attr(
        not(any(feature = "anyhow", feature = "eyre")),
        expect(dead_code, reason = "there are no such crates")
    )]
    Terminal,
    /// One of another kind. The text around it is lost.
    #[cfg_attr(
        not(any(feature = "anyhow", feature = "eyre")),
        expect(dead_code, reason = "there are no such crates")
    )]
    Kind(Error),
}

#[cfg(any(feature = "anyhow", feature = "eyre"))]
impl Inside {
    fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if matches!(self, Self::None) { other() } else { self }
    }

    fn find<R>(
        slot: Option<&mut Option<R>>,
        look: impl FnOnce(&R) -> Option<&Boxed>,
        take: impl FnOnce(R) -> Result<Boxed, R>,
    ) -> Self {
        let Some(slot) = slot else { return Self::None };
        let Some(Boxed(error)) = slot.as_ref().and_then(look) else { return Self::None };
        if matches!(error.kind(), ErrorKind::Tool(_)) {
            return if error.is_terminal() { Self::Terminal } else { Self::None };
        }
        match slot.take().map(take) {
            Some(Ok(Boxed(error))) => Self::Kind(error),
            Some(Err(other)) => {
                *slot = Some(other);
                Self::None
            }
            None => Self::None,
        }
    }
}

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
        // The text of the source is the error's own.
        self.0.0.source.as_ref()?.source()
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        Box::new(Boxed(error))
    }
}

#[cfg(feature = "anyhow")]
impl From<Error> for anyhow::Error {
    fn from(error: Error) -> Self {
        Self::new(Boxed(error))
    }
}

#[cfg(feature = "eyre")]
impl From<Error> for eyre::Report {
    fn from(error: Error) -> Self {
        Self::new(Boxed(error))
    }
}

/// `{}` says the error; `{:#}` says its causes too.
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

/// `main` shows this to people.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// Why a server could not be put together.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    pub(crate) problems: Vec<String>,
}

impl BuildError {
    /// One thing is wrong.
    #[cfg(feature = "prometheus")]
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }

    /// All that is wrong, one line each.
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

/// `main` shows this to people.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}
