//! The model that answers sampling requests.

use std::sync::Arc;

use antiphon_llm::{
    Model,
    providers::{Anthropic, Gemini, Ollama, OpenAi, OpenAiCompatible, ProviderConfig},
};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::exit::Misused;

/// The model that answers sampling requests: in `config.toml` under `[model]`, or on the command line.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelChoice {
    /// Answer sampling requests with this model. Providers: openai, anthropic, gemini, ollama, compatible.
    #[arg(long = "model", value_name = "PROVIDER:NAME", help_heading = "Model")]
    #[serde(rename = "name")]
    pub(crate) model: Option<String>,
    /// Set the provider's base URL, for example `http://127.0.0.1:8080/v1` [default: the provider's standard URL].
    #[arg(long = "model-url", value_name = "URL", help_heading = "Model")]
    #[serde(rename = "url")]
    pub(crate) model_url: Option<String>,
    /// Read the provider's API key from this environment variable [default: the provider's standard variable].
    #[arg(long = "model-key-env", value_name = "NAME", help_heading = "Model")]
    #[serde(rename = "key_env")]
    pub(crate) model_key_env: Option<String>,
}

impl ModelChoice {
    /// Returns these settings if they contain a model or a URL. If these settings contain neither a model nor a URL,
    /// returns `otherwise`. If these settings contain a key variable, this variable replaces the key variable of
    /// `otherwise`.
    pub(crate) fn or(&self, otherwise: &Self) -> Self {
        if self.model.is_none() && self.model_url.is_none() {
            return Self {
                model_key_env: self.model_key_env.clone().or(otherwise.model_key_env.clone()),
                ..otherwise.clone()
            };
        }
        self.clone()
    }

    /// Creates the model, or returns `None` if no model is configured.
    pub(crate) fn open(&self) -> Result<Option<Arc<dyn Model>>> {
        let (provider, name) = match (&self.model, &self.model_url) {
            (None, None) => return Ok(None),
            (None, Some(_)) => (Provider::Compatible, "default"),
            (Some(model), url) => match Provider::split(model) {
                Some(named) => named,
                None if url.is_some() => (Provider::Compatible, model.as_str()),
                None => {
                    let known = Provider::value_variants().iter().map(|provider| provider.name());
                    let message = format!(
                        "`{model}` has no provider; write `provider:name`, with one of the providers {}",
                        known.collect::<Vec<_>>().join(", ")
                    );
                    return Err(Misused(message).into());
                }
            },
        };
        let mut config = ProviderConfig::local().with_model(name);
        if let Some(url) = &self.model_url {
            config = config.with_base_url(url);
        }
        let variable = self.model_key_env.as_deref().or(provider.key_variable());
        let provider_name = provider.name();
        match variable.map(|variable| (variable, std::env::var(variable))) {
            Some((_, Ok(key))) => config = config.with_key(key),
            Some((variable, Err(_))) if self.model_key_env.is_some() || self.model_url.is_none() => {
                return Err(Misused(format!("`{provider_name}` needs an API key; set {variable}")).into());
            }
            _ => {}
        }
        let opened = provider.open(config);
        Ok(Some(opened.with_context(|| format!("the model `{provider_name}:{name}` cannot be used"))?))
    }
}

/// A provider of models.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Provider {
    Openai,
    Anthropic,
    Gemini,
    Ollama,
    /// An API that is compatible with OpenAI.
    Compatible,
}

impl Provider {
    /// Parses `provider:name`. Returns `None` if the provider is unknown.
    fn split(model: &str) -> Option<(Self, &str)> {
        let (provider, name) = model.split_once(':')?;
        Some((Self::from_str(provider, false).ok()?, name))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
        }
    }

    /// Returns the environment variable that contains the API key of the provider. Other tools use the same variable
    /// names.
    fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Compatible => None,
        }
    }

    fn open(self, config: ProviderConfig) -> Result<Arc<dyn Model>, antiphon_llm::Error> {
        Ok(match self {
            Self::Openai => Arc::new(OpenAi::new(config)?),
            Self::Anthropic => Arc::new(Anthropic::new(config)?),
            Self::Gemini => Arc::new(Gemini::new(config)?),
            Self::Ollama => Arc::new(Ollama::new(config)?),
            Self::Compatible => Arc::new(OpenAiCompatible::new(config)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_named_with_its_provider_or_by_its_address() {
        assert!(ModelChoice::default().open().unwrap().is_none());
        let at = |model: Option<&str>| ModelChoice {
            model: model.map(Into::into),
            model_url: Some("http://127.0.0.1:1/v1".into()),
            model_key_env: None,
        };
        assert!(at(None).open().unwrap().is_some());
        assert!(at(Some("smollm2")).open().unwrap().is_some());
        let nameless = ModelChoice { model: Some("gpt".into()), ..ModelChoice::default() };
        let error = nameless.open().err().unwrap().to_string();
        assert!(error.contains("provider:name"), "{error}");
    }
}
