use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::{Origin, Url};

use super::{
    error::{DualResponseClientError, Result},
    fetch::Fetch,
    guard::{self, Policy},
    http::HttpFetch,
    options::{Clock, DualResponseClientOptions, HeaderProvider, MAX_BODY, PATIENCE, TIMEOUT, WaitObserver},
};

/// The options of a client, after validation.
pub(super) struct Setup {
    pub(super) policy: Policy,
    pub(super) base: Option<Url>,
    pub(super) fallback: Option<Url>,
    /// Origin to which the client sends the headers of the application.
    home: Option<Origin>,
    headers: HeaderMap,
    provider: Option<HeaderProvider>,
    pub(super) timeout: Duration,
    pub(super) patience: Duration,
    pub(super) wait_observer: Option<WaitObserver>,
    pub(super) max_body: usize,
    pub(super) fetch: Arc<dyn Fetch>,
    clock: Option<Clock>,
}

impl Setup {
    pub(super) fn new(options: DualResponseClientOptions) -> Result<Self> {
        let base = options.base_url.as_deref().map(base_url).transpose()?;
        let fallback = options.fallback_base_url.as_deref().map(base_url).transpose()?;
        let endpoint = options.endpoint.as_deref().map(|url| origin(url, true)).transpose()?;
        let allowed = options.origins.iter().map(|text| origin(text, false)).collect::<Result<Vec<_>>>()?;

        let mut listed = allowed.clone();
        listed.extend(base.iter().chain(&fallback).map(Url::origin));
        let only = (allowed.len() == 1).then(|| allowed[0].clone());
        let home = base.as_ref().map(Url::origin).or_else(|| endpoint.clone());
        let home = home.or_else(|| fallback.as_ref().map(Url::origin)).or(only);
        if home.is_none() && (options.provider.is_some() || !options.headers.is_empty()) {
            return Err(DualResponseClientError::Config(
                "the client has headers, and no origin to send them to; add \
                 `.with_base_url(\"https://host/resources\")` or \
                 `.with_endpoint_origin(\"https://host/mcp\")`"
                    .to_owned(),
            ));
        }

        Ok(Self {
            policy: Policy {
                listed,
                endpoint,
                loopback: options.loopback,
                public_redirects: options.public_redirects,
            },
            base,
            fallback,
            home,
            headers: headers(&options.headers)?,
            provider: options.provider,
            timeout: options.timeout.unwrap_or(TIMEOUT),
            patience: options.patience.unwrap_or(PATIENCE),
            wait_observer: options.wait_observer,
            max_body: options.max_body.unwrap_or(MAX_BODY),
            fetch: options.fetch.unwrap_or_else(|| Arc::new(HttpFetch::new())),
            clock: options.clock,
        })
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.as_ref().map_or_else(Utc::now, |clock| clock())
    }

    /// Returns the headers of a request to `url`. The application's headers are sent to only one origin, because they
    /// can contain credentials.
    pub(super) fn headers(&self, url: &Url) -> HeaderMap {
        if self.home.as_ref() != Some(&url.origin()) {
            return HeaderMap::new();
        }
        let mut headers = self.headers.clone();
        if let Some(provider) = &self.provider {
            headers.extend(provider(url));
            for name in RESERVED {
                headers.remove(name);
            }
        }
        headers
    }
}

/// Headers that the application cannot set, because the HTTP connection sets them.
const RESERVED: &[HeaderName] = &[
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

fn headers(pairs: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let shown = name.escape_debug();
        let config = |text| DualResponseClientError::Config(text);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| config(format!("`{shown}` is not a valid header name")))?;
        if RESERVED.contains(&name) {
            return Err(config(format!("the header `{shown}` cannot be set: the HTTP client sets it")));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| config(format!("the value of the header `{shown}` has invalid characters")))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn origin(text: &str, whole_url: bool) -> Result<Origin> {
    guard::origin(text, whole_url).map_err(DualResponseClientError::Config)
}

fn base_url(text: &str) -> Result<Url> {
    origin(text, true)?;
    let mut url = Url::parse(text).map_err(|error| DualResponseClientError::Config(error.to_string()))?;
    url.set_fragment(None);
    Ok(url)
}
