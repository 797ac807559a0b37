use std::time::Duration;

/// The result of a request to a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model did not reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model or its provider does not support a part of the request.
    #[error("`{model}` cannot do what is asked: {what}")]
    Unsupported {
        /// The model.
        model: String,
        /// The part that is not supported.
        what: String,
    },
    /// The provider rejected the request. Sending it again does not help.
    #[error("the provider refused the request ({status}): {message}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        message: String,
    },
    /// The provider does not accept the API key, or the key lacks a permission.
    #[error("the provider rejected the API key ({status}); check the key and its permissions")]
    Unauthorized {
        /// The HTTP status.
        status: u16,
    },
    /// The provider limits requests or tokens, and the limit is reached.
    #[error("the provider rate-limited the request: {message}; try again later")]
    RateLimited {
        /// The provider's message.
        message: String,
        /// How long to wait, if the provider sends it.
        retry_after: Option<Duration>,
    },
    /// The provider or the network failed.
    #[error("the provider cannot be reached or has failed: {0}")]
    Unavailable(String),
    /// The model did not reply in time.
    #[error("the model did not reply within {0:?}")]
    Timeout(Duration),
    /// A limit of the operator is reached.
    #[error("{0}")]
    Limit(String),
    /// The configuration of a provider is invalid.
    #[error("{0}")]
    Config(String),
    /// The response of the provider cannot be parsed.
    #[error("the provider's answer cannot be read: {0}")]
    Malformed(String),
}

impl Error {
    /// Returns whether the same request can succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unavailable(_) | Self::Timeout(_))
    }
}
