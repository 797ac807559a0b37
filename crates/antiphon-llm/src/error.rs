use std::time::Duration;

/// What a model, or one's way to it, returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model did not reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request asks for something this model, or the way to it, cannot do.
    #[error("`{model}` cannot do what is asked: {what}")]
    Unsupported {
        /// The model.
        model: String,
        /// What it cannot do.
        what: String,
    },
    /// The provider refused the request as it is; sending it again changes nothing.
    #[error("the provider refused the request ({status}): {message}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The provider does not know the key, or the key may not do this.
    #[error("the provider does not accept the key ({status}); check it, and what it may do")]
    Unauthorized {
        /// The HTTP status.
        status: u16,
    },
    /// Too many requests, or too many tokens.
    #[error("the provider asks to wait: {message}")]
    RateLimited {
        /// The provider's words.
        message: String,
        /// How long to wait, if it said so.
        retry_after: Option<Duration>,
    },
    /// The provider, or the network before it, failed.
    #[error("the provider cannot be reached or has failed: {0}")]
    Unavailable(String),
    /// It took too long.
    #[error("the model did not reply within {0:?}")]
    Timeout(Duration),
    /// A limit of the operator's was reached.
    #[error("{0}")]
    Limit(String),
    /// A provider cannot be set up as asked.
    #[error("{0}")]
    Config(String),
    /// The provider answered with something that is no reply.
    #[error("the provider's answer cannot be read: {0}")]
    Malformed(String),
}

impl Error {
    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unavailable(_) | Self::Timeout(_))
    }
}
