use std::{fmt, time::Duration};

use rig_core::http_client::{HeaderValue, Uri};

use crate::error::{Error, Result};

/// How a provider is reached, and which of its models are asked.
///
/// ```
/// # use antiphon_llm::providers::ProviderConfig;
/// let config = ProviderConfig::new("sk-secret").with_model("gpt-5.2").with_model("gpt-5.4-mini");
/// assert!(!format!("{config:?}").contains("sk-secret"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// The key. Default: none, which local servers do not mind.
    pub key: Option<Key>,
    /// Where the API is. Default: the provider's own address.
    pub base_url: Option<String>,
    /// The models, the default one first. At least one is needed.
    pub models: Vec<ModelConfig>,
    /// How long a reply may take, with all its retries. Default: 5 minutes.
    pub timeout: Duration,
    /// How often a request that failed for the moment is sent again. Default: twice.
    pub retries: u32,
    /// How long the first wait before a retry is; each is twice as long as the one before, less a
    /// random part. Default: half a second.
    pub backoff: Duration,
    /// The longest wait before a retry. A provider that asks for more is not waited for: its error
    /// says how long it wants. Default: 30 seconds.
    pub max_backoff: Duration,
    /// The most a reply may cost in tokens, whatever a request asks for. Default: no bound but the
    /// model's own.
    pub max_tokens: Option<u32>,
    /// How data are asked for. Default: as each model knows best.
    pub structured_output: Option<StructuredOutput>,
    /// The keys of a request's `metadata` that are sent on, into the body of the provider's request.
    /// Default: none, because whoever writes the request may be a stranger.
    pub metadata_keys: Vec<String>,
    /// The address of the proxy to go through, which may have a password in it. Default: none; the
    /// environment is not asked.
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
    /// Defaults, with a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self::default().with_key(key)
    }

    /// Defaults for a server that wants no key.
    pub fn local() -> Self {
        Self::default()
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Key(key.into()));
        self
    }

    /// Sets where the API is: `https://llm.example.com/v1`.
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

    /// Sets how long a reply may take, with all its retries.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often a request that failed for the moment is sent again.
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

    /// Sets the most a reply may cost in tokens.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: u32) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Sets how data are asked for.
    #[must_use]
    pub fn with_structured_output(mut self, how: StructuredOutput) -> Self {
        self.structured_output = Some(how);
        self
    }

    /// Lets a key of a request's `metadata` through to the provider.
    #[must_use]
    pub fn with_metadata_key(mut self, key: impl Into<String>) -> Self {
        self.metadata_keys.push(key.into());
        self
    }

    /// Sets the proxy to go through.
    #[must_use]
    pub fn with_proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(Key(url.into()));
        self
    }

    /// The key, or nothing.
    pub(super) fn secret(&self) -> &str {
        self.key.as_ref().map_or("", |key| &key.0)
    }

    /// What is wrong with it, for the provider `name`.
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
            // The address itself is not shown: it may have a password in it.
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

/// What a provider cannot do without.
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

/// What no log gets to see.
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

/// A model, and what is known of it where a request has preferences.
///
/// Ranks go from 0 to 1, and matter only beside those of the other models of the same provider.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// Its name, as the provider spells it.
    pub name: String,
    /// What a million tokens cost, in any one currency. Default: its list price, where known.
    pub price: Option<f64>,
    /// How fast it is. Default: 0.5.
    pub speed: f64,
    /// How clever it is. Default: 0.5.
    pub intelligence: f64,
    /// Whether it can call tools. Default: yes. One that cannot is told of its tools in words.
    pub tools: bool,
}

impl ModelConfig {
    /// A model of which nothing is known but its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), price: None, speed: 0.5, intelligence: 0.5, tools: true }
    }

    /// Sets what a million tokens cost.
    #[must_use]
    pub fn with_price(mut self, price: f64) -> Self {
        self.price = Some(price);
        self
    }

    /// Ranks its speed.
    #[must_use]
    pub fn with_speed(mut self, rank: f64) -> Self {
        self.speed = rank;
        self
    }

    /// Ranks its cleverness.
    #[must_use]
    pub fn with_intelligence(mut self, rank: f64) -> Self {
        self.intelligence = rank;
        self
    }

    /// Says whether it can call tools.
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

/// How a model is brought to reply with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StructuredOutput {
    /// By the provider's own means: it writes nothing that does not match the schema.
    Native,
    /// By a promise of JSON, with the schema in the prompt.
    JsonMode,
    /// By a tool it must call, whose input is the data.
    ForcedTool,
    /// By the prompt alone.
    Prompt,
}
