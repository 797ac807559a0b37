use std::{fmt, time::Duration};

use rig_core::http_client::{HeaderValue, Uri};

use crate::error::{Error, Result};

/// The configuration of a provider: its address, API key, models and limits.
///
/// ```
/// # use antiphon_llm::providers::ProviderConfig;
/// let config = ProviderConfig::new("sk-secret").with_model("gpt-5.2").with_model("gpt-5.4-mini");
/// assert!(!format!("{config:?}").contains("sk-secret"));
/// ```
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    pub(super) key: Option<Key>,
    pub(super) base_url: Option<String>,
    pub(super) models: Vec<ModelConfig>,
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    pub(super) max_backoff: Duration,
    pub(super) max_tokens: Option<u32>,
    pub(super) structured_output: Option<StructuredOutput>,
    pub(super) metadata_keys: Vec<String>,
    pub(super) proxy: Option<Key>,
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
    /// Creates a configuration with the API key `key`.
    pub fn new(key: impl Into<String>) -> Self {
        Self::default().with_key(key)
    }

    /// Creates a configuration for a provider that needs no API key, for example a local server.
    pub fn local() -> Self {
        Self::default()
    }

    /// Replaces the API key of the provider. Local servers often need no API key. Default: none.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Key(key.into()));
        self
    }

    /// Sets the base URL of the API, for example `https://llm.example.com/v1`. Default: the provider's standard URL.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Adds a model of the provider. The first model that you add is the default model. At least one model is
    /// required.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<ModelConfig>) -> Self {
        self.models.push(model.into());
        self
    }

    /// Replaces all models of the provider. The first model is the default model.
    #[must_use]
    pub fn with_models(mut self, models: impl IntoIterator<Item = impl Into<ModelConfig>>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum time for the reply to a request, including all retries. Default: 5 minutes.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often a request is retried after a temporary error. Default: 2.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the first and the longest delay before a retry. Default: 500 ms and 30 seconds.
    ///
    /// The delay before a retry doubles with each retry, and is shortened by a random part. If a provider asks for a
    /// delay that is longer than `longest`, the request fails with an error that contains the requested delay.
    #[must_use]
    pub fn with_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = first;
        self.max_backoff = longest;
        self
    }

    /// Sets the maximum number of tokens of a reply, even if a request asks for more tokens. Default: the limit of the
    /// model.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: u32) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Sets the method by which models return structured data. Default: the best method that each model supports.
    #[must_use]
    pub fn with_structured_output(mut self, how: impl Into<Option<StructuredOutput>>) -> Self {
        self.structured_output = how.into();
        self
    }

    /// Adds a key of `metadata` whose value the provider receives in the body of the HTTP request. Default: no key is
    /// sent, because the author of the request can be untrusted.
    #[must_use]
    pub fn with_metadata_key(mut self, key: impl Into<String>) -> Self {
        self.metadata_keys.push(key.into());
        self
    }

    /// Sets the URL of the HTTP proxy, which can contain a password. Providers do not read the proxy from environment
    /// variables. Default: none.
    #[must_use]
    pub fn with_proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(Key(url.into()));
        self
    }

    /// Returns the API key, or an empty string if the configuration has no API key.
    pub(super) fn secret(&self) -> &str {
        self.key.as_ref().map_or("", |key| &key.0)
    }

    /// Checks the configuration for the provider `name`.
    pub(super) fn check(&self, name: &str, needs: Needs) -> Result<()> {
        let fail = |what: String| Err(Error::Config(format!("the provider `{name}` {what}")));
        if self.models.is_empty() {
            return fail("needs a model; add one with `with_model`".into());
        }
        for (i, model) in self.models.iter().enumerate() {
            if model.name.trim().is_empty() {
                return fail("has a model with an empty name".into());
            }
            if self.models[..i].iter().any(|earlier| earlier.name == model.name) {
                return fail(format!("has the model `{}` twice; add each model once", model.name));
            }
        }
        match self.secret() {
            "" if needs.key => return fail("needs an API key; set it with `with_key`".into()),
            key if HeaderValue::from_str(key).is_err() => {
                return fail("has an API key with invalid characters; look for a line break".into());
            }
            _ => {}
        }
        match &self.base_url {
            None if needs.base_url => return fail("needs a base URL; set it with `with_base_url`".into()),
            // The error does not contain the URL, because the URL can contain a password.
            Some(url) => check_url(url).or_else(|what| fail(format!("has a base URL that {what}")))?,
            None => {}
        }
        if self.timeout.is_zero() {
            return fail("has a timeout of 0; set a longer one with `with_timeout`".into());
        }
        if self.max_tokens == Some(0) {
            return fail("has a limit of 0 output tokens; raise `with_max_tokens`".into());
        }
        Ok(())
    }
}

/// The settings that a provider requires.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    pub(super) key: bool,
    pub(super) base_url: bool,
}

fn check_url(url: &str) -> Result<(), &'static str> {
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err("does not begin with `http://` or `https://`");
    }
    let uri: Uri = url.parse().map_err(|_| "is not a valid URL")?;
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err("contains a password; use `with_key`, which is not logged")
        }
        Some(_) if uri.query().is_some() => {
            Err("has a query; remove it, because API paths are appended to the URL")
        }
        Some(_) => Ok(()),
        None => Err("has no host"),
    }
}

/// A secret that never appears in logs or in `Debug` output.
#[derive(Clone)]
pub(super) struct Key(pub(super) String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The name of a model, and the properties that a provider compares with the preferences of a request.
///
/// A rank is between 0 and 1, and 1 is the best rank. A provider compares only the ranks of models in the same
/// configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub(super) name: String,
    pub(super) price: Option<f64>,
    pub(super) speed: f64,
    pub(super) intelligence: f64,
    pub(super) tools: bool,
}

impl ModelConfig {
    /// Creates the configuration of a model that has the name `name` and default properties.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), price: None, speed: 0.5, intelligence: 0.5, tools: true }
    }

    /// Sets the price of a million tokens of the model. Use the same currency for all models. Default: the list price,
    /// if the list price is known.
    #[must_use]
    pub fn with_price(mut self, price: f64) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets the rank of the model's speed, between 0 and 1. Default: 0.5.
    #[must_use]
    pub fn with_speed(mut self, rank: f64) -> Self {
        self.speed = rank;
        self
    }

    /// Sets the rank of the model's intelligence, between 0 and 1. Default: 0.5.
    #[must_use]
    pub fn with_intelligence(mut self, rank: f64) -> Self {
        self.intelligence = rank;
        self
    }

    /// Sets whether the model can call tools. If the model cannot call tools, the prompt describes the tools. Default:
    /// yes.
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
    /// Uses the provider's structured output, which enforces the schema of the data.
    Native,
    /// Uses the provider's JSON mode, and describes the schema of the data in the prompt.
    JsonMode,
    /// Forces the model to call a tool whose input is the structured data.
    ForcedTool,
    /// Only describes the schema of the data in the prompt.
    Prompt,
}
