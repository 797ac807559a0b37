/// An error in an OpenAPI document, or in the settings with which the document is converted into tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The document is not valid JSON.
    #[error("the OpenAPI document is not valid JSON")]
    Json(#[from] serde_json::Error),
    /// The document is not valid YAML, or cannot be represented as JSON. The `String` is the reason.
    #[error("the OpenAPI document cannot be read as YAML: {0}")]
    Yaml(String),
    /// The document is not OpenAPI 3.0 or 3.1. The `String` is the OpenAPI version that the document states.
    #[error("the version `{0}` is not supported: use a document of OpenAPI 3.0 or 3.1")]
    Version(String),
    /// A setting is not valid. The `String` names the setting, and describes how to fix the setting.
    #[error("{0}")]
    Setting(String),
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created")]
    Client(#[source] reqwest::Error),
}

/// The result of reading a document, or of creating tools.
pub type Result<T, E = Error> = std::result::Result<T, E>;
