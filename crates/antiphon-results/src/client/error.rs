use std::{fmt, time::Duration};

use crate::error::{BoxError, ErrorCode};

/// The result type of [`DualResponseClient`](super::DualResponseClient).
pub type Result<T, E = DualResponseClientError> = std::result::Result<T, E>;

/// An error from parsing a dual response, or from fetching its rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DualResponseClientError {
    /// The tool result is not a dual response. The `String` names the missing or invalid part.
    #[error("the tool result is not a dual response: {0}")]
    Parse(String),
    /// An HTTP request failed, or its response is invalid.
    #[error(transparent)]
    Fetch(FetchError),
    /// The server sent no data within the time limit.
    #[error("the server sent no data within {limit:?}")]
    Timeout {
        /// Time limit that was exceeded.
        limit: Duration,
    },
    /// The result set does not exist.
    #[error("the result set does not exist")]
    NotFound(#[source] FetchError),
    /// The result set has expired.
    #[error("the result set has expired")]
    Expired(#[source] FetchError),
    /// The rows are not ready: they are still being saved, or a sorted or filtered view is still being built. The
    /// client has already retried until its maximum wait ended.
    #[error("the result set is not ready yet; retry later")]
    NotReady(#[source] FetchError),
    /// The options of the client do not allow the requested URL. The `String` contains the reason, and names the
    /// option to set.
    #[error("{0}")]
    UrlRefused(String),
    /// The server redirected an export to an origin that the options of the client do not allow.
    #[error("{reason}")]
    RedirectRefused {
        /// Origin of the redirect target, as `https://host:port`.
        origin: String,
        /// Reason why the client rejected the redirect, and the option that would allow the origin.
        reason: String,
    },
    /// The file on the server has changed since the download started. Download the file again.
    #[error("the file on the server has changed since the download began; download it again")]
    Changed,
    /// The data from the server exceeds a limit of the client. The `String` contains the limit.
    #[error("{0}")]
    TooLarge(String),
    /// The options of the client are invalid. The `String` describes how to fix the options.
    #[error("{0}")]
    Config(String),
}

impl DualResponseClientError {
    /// Returns the error code for programs.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Parse(_) => ErrorCode::ParseError,
            Self::Fetch(_) | Self::Changed => ErrorCode::FetchError,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::NotFound(_) => ErrorCode::ResourceNotFound,
            Self::Expired(_) => ErrorCode::ResourceExpired,
            Self::NotReady(_) => ErrorCode::ResourceNotReady,
            Self::UrlRefused(_) | Self::RedirectRefused { .. } => ErrorCode::UrlRefused,
            Self::TooLarge(_) => ErrorCode::LimitExceeded,
            Self::Config(_) => ErrorCode::Configuration,
        }
    }

    /// Returns the details of the failed HTTP request, or `None` if no HTTP request caused the error.
    pub fn fetch_error(&self) -> Option<&FetchError> {
        match self {
            Self::Fetch(error) | Self::NotFound(error) | Self::Expired(error) | Self::NotReady(error) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// Returns the HTTP status of the server's response, or `None` if there was no response.
    pub fn status(&self) -> Option<u16> {
        self.fetch_error().and_then(|error| error.status)
    }

    /// Creates the error for an unexpected response.
    pub(super) fn answer(status: u16, message: impl Into<String>) -> Self {
        Self::Fetch(FetchError { status: Some(status), ..FetchError::new(message) })
    }

    /// Creates the error for a response that was interrupted or did not arrive.
    pub(super) fn broken(message: &str, source: BoxError) -> Self {
        Self::Fetch(FetchError { source: Some(source), ..FetchError::new(message) })
    }
}

/// The details of a failed HTTP request.
#[derive(Debug)]
#[non_exhaustive]
pub struct FetchError {
    /// HTTP status of the response. The value is `None` if no response arrived.
    pub status: Option<u16>,
    /// Message for users. Text from the server is shortened to a few hundred characters, and its control characters
    /// are removed.
    pub message: String,
    /// Error code from the body of the server's response.
    pub code: Option<String>,
    /// Time after which the server allows a retry.
    pub retry_after: Option<Duration>,
    source: Option<BoxError>,
}

impl FetchError {
    /// Creates an error that contains only this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { status: None, message: message.into(), code: None, retry_after: None, source: None }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server returned status {status}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

/// Maximum number of characters that the client keeps of a text from the server.
const MAX_WORDS: usize = 300;

/// Returns text from the server in a form that is safe to show. The text is one line, is shortened, and has no
/// characters that move or hide other text.
pub(super) fn words(text: &str) -> String {
    let turns = |char: char| matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let mut chars = text.chars().filter(|char| !char.is_control() && !turns(*char));
    let mut words = chars.by_ref().take(MAX_WORDS).collect::<String>();
    if chars.next().is_some() {
        words.push('…');
    }
    words
}
