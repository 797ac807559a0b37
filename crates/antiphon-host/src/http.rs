//! Servers behind streamable HTTP.

use std::collections::HashMap;

use rmcp::transport::{
    StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
};

use crate::endpoint::Endpoint;

/// A server behind streamable HTTP, with headers.
#[derive(Clone)]
pub struct HttpEndpoint {
    url: String,
    headers: Vec<(String, String)>,
    token: Option<String>,
}

impl HttpEndpoint {
    /// A server at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), token: None }
    }

    /// Adds a header to every request.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends a bearer token with every request. It is in no `Debug` output.
    #[must_use]
    pub fn with_bearer(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    fn transport(&self) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.clone());
        config.auth_header.clone_from(&self.token);
        let mut headers = HashMap::new();
        for (name, value) in &self.headers {
            let name: http::HeaderName = name.parse().map_err(|_| format!("`{name}` is no header's name"))?;
            let value = value.parse().map_err(|_| format!("the value of `{name}` cannot be sent"))?;
            headers.insert(name, value);
        }
        config.custom_headers = headers;
        Ok(StreamableHttpClientTransport::with_client(reqwest::Client::default(), config))
    }
}

impl From<HttpEndpoint> for Endpoint {
    fn from(endpoint: HttpEndpoint) -> Self {
        Self::new(endpoint.url.clone(), move || std::future::ready(endpoint.transport()))
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
