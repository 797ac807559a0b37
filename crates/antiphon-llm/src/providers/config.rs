use std::{fmt, time::Duration};

use rig_core::http_client::{HeaderValue, Uri};

use crate::error::{Error, Result};

/// The address and the API key of a provider, its models, and limits.
///
/// ```
/// # use antiphon_llm::providers::ProviderConfig;
/// let config = ProviderConfig::new("sk-secret").with_model("gpt-5.2").with_model("gpt-5.4-mini");
/// assert!(!format!("{config:?}").contains("sk-secret"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// The API key. Local servers often need none. Default: none.
    pub key: Option<Key>,
    /// The base URL of the API. Default: the provider's standard URL.
    pub base_url: Option<String>,
    /// The models, the default one first. At least one is required.
    pub models: Vec<ModelConfig>,
    /// The maximum time for a reply, with all retries. Default: 5 minutes.
    pub timeout: Duration,
    /// The number of retries of a request with a temporary error. Default: 2.
    pub retries: u32,
    /// The wait before the first retry. It doubles for each retry, and is shortened by a random part. Default: 500
    /// ms.
    pub backoff: Duration,
    /// The longest wait before a retry. If a provider asks for a longer one, the request fails with that time.
    /// Default: 30 seconds.
    pub max_backoff: Duration,
    /// The maximum number of tokens of a reply, also if a request asks for more. Default: the limit of the model.
    pub max_tokens: Option<u32>,
    /// The method for structured data. Default: the best method of each model.
    pub structured_output: Option<StructuredOutput>,
    /// The keys of a request's `metadata` that are sent to the provider, in the body of its request. Default: none,
    /// because the author of the request can be untrusted.
    pub metadata_keys: Vec<String>,
    /// The URL of the HTTP proxy, which can contain a password. Default: none. Environment variables are not read.
    pub proxy: Option<Key>,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            key: None,
            base_url: None,
            models: Vec::new(),
            timeout: Duration::from_secs(5 * 60),
            retries: 2,
            backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            max_tokens: None,
            structured_output: None,
            metadata_keys: Vec::new(),
            proxy: None,
        }
    }
}

impl ProviderConfig {
    /// Creates a configuration with an API key.
    pub fn new(key: impl Into<String>) -> Self {
        Self::default().with_key(key)
    }

    /// Creates a configuration for a server without an API key.
    pub fn local() -> Self {
        Self::default()
    }

    /// Sets the API key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Key(key.into()));
        self
    }

    /// Sets the base URL of the API: `https://llm.example.com/v1`.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Adds a model. The first is the default.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<ModelConfig>) -> Self {
        self.models.push(model.into());
        self
    }

    /// Sets the maximum time for a reply, with all retries.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of retries of a request with a temporary error.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the first and the longest wait before a retry.
    #[must_use]
    pub fn with_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = first;
        self.max_backoff = longest;
        self
    }

    /// Sets the maximum number of tokens of a reply.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: u32) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Sets the method for structured data.
    #[must_use]
    pub fn with_structured_output(mut self, how: StructuredOutput) -> Self {
        self.structured_output = Some(how);
        self
    }

    /// Allows a key of a request's `metadata` to be sent to the provider.
    #[must_use]
    pub fn with_metadata_key(mut self, key: impl Into<String>) -> Self {
        self.metadata_keys.push(key.into());
        self
    }

    /// Sets the URL of the HTTP proxy.
    #[must_use]
    pub fn with_proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(Key(url.into()));
        self
    }

    /// Returns the API key, or an empty string.
    pub(super) fn secret(&self) -> &str {
        self.key.as_ref().map_or("", |key| &key.0)
    }

    /// Checks the configuration for the provider `name`.
    pub(super) fn check(&self, name: &str, needs: Needs) -> Result<()> {
        let fail = |what: String| Err(Error::Config(format!("`{name}` {what}")));
        if self.models.is_empty() {
            return fail("needs a model; name one with `with_model`".into());
        }
        for (i, model) in self.models.iter().enumerate() {
            if model.name.trim().is_empty() {
                return fail("has a model without a name".into());
            }
            if self.models[..i].iter().any(|earlier| earlier.name == model.name) {
                return fail(format!("has the model `{}` twice", model.name));
            }
        }
        match self.secret() {
            "" if needs.key => return fail("needs a key; give it one with `with_key`".into()),
            key if HeaderValue::from_str(key).is_err() => {
                return fail("has a key with characters no header can carry; look for a line break".into());
            }
            _ => {}
        }
        match &self.base_url {
            None if needs.base_url => return fail("needs an address; set `with_base_url`".into()),
            // The error does not contain the URL, because it can contain a password.
            Some(url) => check_url(url).or_else(|what| fail(format!("has an address that {what}")))?,
            None => {}
        }
        if self.timeout.is_zero() {
            return fail("has a timeout of zero".into());
        }
        if self.max_tokens == Some(0) {
            return fail("may not write a single token".into());
        }
        Ok(())
    }
}

/// The required settings of a provider.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    pub(super) key: bool,
    pub(super) base_url: bool,
}

fn check_url(url: &str) -> Result<(), &'static str> {
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err("does not begin with `http://` or `https://`");
    }
    let uri: Uri = url.parse().map_err(|_| "is no URL")?;
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err("has a password in it; use `with_key`, which is kept out of logs")
        }
        Some(_) if uri.query().is_some() => Err("has a query, which the paths of the API would end up in"),
        Some(_) => Ok(()),
        None => Err("names no host"),
    }
}

/// A secret that never appears in logs or in `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub(super) String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Self(key)
    }
}

/// A model, and its properties for the preferences of a request.
///
/// Ranks are between 0 and 1. They are compared only with other models of the same provider.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The name that the provider uses.
    pub name: String,
    /// The price of a million tokens, in the same currency for all models. Default: the list price, if it is known.
    pub price: Option<f64>,
    /// The rank of its speed. Default: 0.5.
    pub speed: f64,
    /// The rank of its intelligence. Default: 0.5.
    pub intelligence: f64,
    /// Whether the model can call tools. If not, the prompt describes the tools. Default: yes.
    pub tools: bool,
}

impl ModelConfig {
    /// Creates a model with the default properties.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), price: None, speed: 0.5, intelligence: 0.5, tools: true }
    }

    /// Sets the price of a million tokens.
    #[must_use]
    pub fn with_price(mut self, price: f64) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets the rank of its speed, between 0 and 1.
    #[must_use]
    pub fn with_speed(mut self, rank: f64) -> Self {
        self.speed = rank;
        self
    }

    /// Sets the rank of its intelligence, between 0 and 1.
    #[must_use]
    pub fn with_intelligence(mut self, rank: f64) -> Self {
        self.intelligence = rank;
        self
    }

    /// Sets whether the model can call tools.
    #[must_use]
    pub fn with_tools(mut self, tools: bool) -> Self {
        self.tools = tools;
        self
    }
}

impl From<&str> for ModelConfig {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for ModelConfig {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// The method by which a model replies with structured data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StructuredOutput {
    /// The structured output of the provider, which enforces the schema.
    Native,
    /// The JSON mode of the provider, with the schema in the prompt.
    JsonMode,
    /// A tool that the model must call. Its input is the data.
    ForcedTool,
    /// Only the prompt.
    Prompt,
}
