use std::time::Duration;

/// The result type of requests to a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a model did not reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model or its provider does not support a part of the request.
    #[error("the model `{model}` does not support the request: {what}")]
    Unsupported {
        /// The name of the model.
        model: String,
        /// The part of the request that is not supported.
        what: String,
    },
    /// The provider rejected the request. If you send the same request again, the provider rejects this request again.
    #[error("the provider refused the request ({status}): {message}")]
    Rejected {
        /// The HTTP status of the response.
        status: u16,
        /// The provider's message.
        message: String,
    },
    /// The provider does not accept the API key, or the key lacks a permission.
    #[error("the provider rejected the API key ({status}); check the key and its permissions")]
    Unauthorized {
        /// The HTTP status of the response.
        status: u16,
    },
    /// A rate limit of the provider is reached, for requests or for tokens.
    #[error("the provider rate-limited the request: {message}; try again later")]
    RateLimited {
        /// The provider's message.
        message: String,
        /// The time to wait before the next request, if the provider states this time.
        retry_after: Option<Duration>,
    },
    /// The provider or the network failed. The `String` contains the reason.
    #[error("the provider cannot be reached or has failed: {0}")]
    Unavailable(String),
    /// The model did not reply within its timeout. The value is the timeout.
    #[error("the model did not reply within {0:?}")]
    Timeout(Duration),
    /// A limit that the operator set is reached. The `String` names the limit.
    #[error("{0}")]
    Limit(String),
    /// The configuration of a provider is invalid. The `String` contains the reason.
    #[error("{0}")]
    Config(String),
    /// The response of the provider cannot be parsed. The `String` contains the reason.
    #[error("the provider's answer cannot be read: {0}")]
    Malformed(String),
}

impl Error {
    /// Returns whether a request that failed with this error can succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unavailable(_) | Self::Timeout(_))
    }
}
