use std::{fmt, time::Duration};

use crate::error::{BoxError, ErrorCode};

/// What the client returns.
pub type Result<T, E = DualResponseClientError> = std::result::Result<T, E>;

/// Why a dual response could not be read, or what is behind it not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DualResponseClientError {
    /// What a tool returned is no dual response; the text says what is missing.
    #[error("this is no dual response: {0}")]
    Parse(String),
    /// An HTTP request failed, or its answer makes no sense.
    #[error(transparent)]
    Fetch(FetchError),
    /// Nothing came for too long.
    #[error("nothing came within {limit:?}")]
    Timeout {
        /// How long it may take.
        limit: Duration,
    },
    /// There is no such result set.
    #[error("the result set does not exist")]
    NotFound(#[source] FetchError),
    /// The result set is no longer there.
    #[error("the result set has expired")]
    Expired(#[source] FetchError),
    /// Its rows are still being saved, or put in order, and it was waited for them as long as may be.
    #[error("the result set is not ready yet")]
    NotReady(#[source] FetchError),
    /// The URL is one that is not gone to; the text says why, and what would allow it.
    #[error("{0}")]
    UrlRefused(String),
    /// The server redirects an export to an origin that is not allowed.
    #[error("{reason}")]
    RedirectRefused {
        /// The origin, as `https://host:port`.
        origin: String,
        /// Why it is not followed, and which option would allow it.
        reason: String,
    },
    /// The server's bytes are no longer those that the first part of a download came from.
    #[error("what is there now is not what the first bytes came from; begin again")]
    Changed,
    /// More came, or would come, than a limit allows; the text says which.
    #[error("{0}")]
    TooLarge(String),
    /// It cannot work as it is set up; the text says what to change.
    #[error("{0}")]
    Config(String),
}

impl DualResponseClientError {
    /// Which error it is, for programs.
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

    /// The answer of the server, where the error is one.
    pub fn fetch_error(&self) -> Option<&FetchError> {
        match self {
            Self::Fetch(error) | Self::NotFound(error) | Self::Expired(error) | Self::NotReady(error) => {
                Some(error)
            }
            _ => None,
        }
    }

    /// The HTTP status of the answer, where there was one.
    pub fn status(&self) -> Option<u16> {
        self.fetch_error().and_then(|error| error.status)
    }

    /// The answer came, and is not what it should be.
    pub(super) fn answer(status: u16, message: impl Into<String>) -> Self {
        Self::Fetch(FetchError { status: Some(status), ..FetchError::new(message) })
    }

    /// The answer broke off, or never came.
    pub(super) fn broken(message: &str, source: BoxError) -> Self {
        Self::Fetch(FetchError { source: Some(source), ..FetchError::new(message) })
    }
}

/// An HTTP request that failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct FetchError {
    /// The status of the answer; `None` if none came.
    pub status: Option<u16>,
    /// What went wrong, for people. Words of the server are cut to a few hundred characters, and have no
    /// control characters.
    pub message: String,
    /// Which error the server calls it.
    pub code: Option<String>,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
    source: Option<BoxError>,
}

impl FetchError {
    /// A failure with these words and nothing else.
    pub fn new(message: impl Into<String>) -> Self {
        Self { status: None, message: message.into(), code: None, retry_after: None, source: None }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server answered {status}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

/// The longest text of a server's that is repeated.
const MAX_WORDS: usize = 300;

/// A server's words, fit to be shown: one line, bounded, without what would move or hide text around it.
pub(super) fn words(text: &str) -> String {
    let turns = |char: char| matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let mut chars = text.chars().filter(|char| !char.is_control() && !turns(*char));
    let mut words = chars.by_ref().take(MAX_WORDS).collect::<String>();
    if chars.next().is_some() {
        words.push('…');
    }
    words
}
