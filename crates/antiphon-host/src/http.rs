//! Endpoints over streamable HTTP.

use std::collections::HashMap;

use rmcp::transport::{
    StreamableHttpClientTransport,
    streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
};

use crate::{endpoint::Endpoint, legacy_tasks_http::LegacyTasksHttp};

/// An endpoint for a server over streamable HTTP, with HTTP headers and tokens.
#[derive(Clone)]
pub struct HttpEndpoint {
    url: String,
    headers: Vec<(String, String)>,
    token: Option<String>,
    #[cfg(feature = "auth")]
    authority: Option<std::sync::Arc<crate::auth::Authority>>,
}

impl HttpEndpoint {
    /// Creates an endpoint for the server at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            token: None,
            #[cfg(feature = "auth")]
            authority: None,
        }
    }

    /// Adds an HTTP header to every request.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a bearer token that is sent with every request. The `Debug` output does not contain the token. Default:
    /// none.
    #[must_use]
    pub fn with_bearer(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets how the host gets tokens when the server requires authorization. Tokens from `auth` replace the token of
    /// [`with_bearer`](Self::with_bearer). All connections to this endpoint and its clones share the tokens. Default:
    /// none.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn with_auth(mut self, auth: crate::auth::AuthConfig) -> Self {
        let authority = crate::auth::Authority::new(self.url.clone(), auth);
        self.authority = Some(std::sync::Arc::new(authority));
        self
    }

    fn config(&self) -> Result<StreamableHttpClientTransportConfig, String> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.clone());
        config.auth_header.clone_from(&self.token);
        let mut headers = HashMap::new();
        for (name, value) in &self.headers {
            let name: http::HeaderName =
                name.parse().map_err(|_| format!("`{name}` is not a valid header name"))?;
            let value =
                value.parse().map_err(|_| format!("the value of the header `{name}` is not valid"))?;
            headers.insert(name, value);
        }
        config.custom_headers = headers;
        Ok(config)
    }
}

/// Creates an HTTP client that follows redirects only within the same origin and with status 307 or 308. Many servers
/// redirect to a path that ends with a slash. Redirects to other origins are not followed, because the credentials
/// belong to one server. Redirects with a status other than 307 and 308 are not followed, because the redirected
/// request would have no body.
pub(crate) fn client() -> Result<LegacyTasksHttp, String> {
    let redirects = reqwest::redirect::Policy::custom(|redirect| {
        let keeps_body = matches!(redirect.status().as_u16(), 307 | 308);
        let came_from = redirect.previous().last().map(reqwest::Url::origin);
        if redirect.previous().len() > MAX_REDIRECTS {
            redirect.error("too many redirects")
        } else if keeps_body && came_from.is_some_and(|origin| origin == redirect.url().origin()) {
            redirect.follow()
        } else {
            redirect.stop()
        }
    });
    let built = reqwest::Client::builder().redirect(redirects).build();
    built.map(LegacyTasksHttp).map_err(|error| format!("the HTTP client cannot be created: {error}"))
}

const MAX_REDIRECTS: usize = 5;

/// Returns the cause of a transport error, for example `Connection refused` instead of `error sending request for url`.
pub(crate) fn root_cause(
    error: Box<dyn std::error::Error + Send + Sync>,
) -> Box<dyn std::error::Error + Send + Sync> {
    match error.downcast::<StreamableHttpError<reqwest::Error>>().map(|error| *error) {
        Ok(StreamableHttpError::Client(error)) => {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(next) = cause.source() {
                cause = next;
            }
            cause.to_string().into()
        }
        Ok(StreamableHttpError::UnexpectedServerResponse(text)) if text.starts_with("HTTP ") => {
            let text = text.trim_end().trim_end_matches(':');
            format!("the server answered with {text}").into()
        }
        Ok(error) => Box::new(error),
        Err(error) => error,
    }
}

impl From<HttpEndpoint> for Endpoint {
    fn from(endpoint: HttpEndpoint) -> Self {
        let name = endpoint.url.clone();
        #[cfg(feature = "auth")]
        if let Some(authority) = endpoint.authority.clone() {
            let endpoint = HttpEndpoint { token: None, ..endpoint };
            let opening = std::sync::Arc::clone(&authority);
            return Self::new(name, move || {
                let (config, authority) = (endpoint.config(), std::sync::Arc::clone(&opening));
                async move {
                    let client = authority.client().await.map_err(|error| error.to_string())?;
                    Ok::<_, String>(StreamableHttpClientTransport::with_client(client, config?))
                }
            })
            .at_its_name()
            .with_authority(authority);
        }
        Self::new(name, move || {
            let open = |config| Ok(StreamableHttpClientTransport::with_client(client()?, config));
            std::future::ready(endpoint.config().and_then(open))
        })
        .at_its_name()
    }
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpEndpoint")
            .field("url", &self.url)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
