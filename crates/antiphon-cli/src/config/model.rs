//! The model that answers sampling requests.

use std::sync::Arc;

use antiphon_llm::{
    Model,
    providers::{Anthropic, Gemini, Ollama, OpenAi, OpenAiCompatible, ProviderConfig},
};
use anyhow::{Context as _, Result};
use clap::Args;
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
    /// Returns these settings, or `otherwise` if they contain neither a model nor a URL. A key variable in these
    /// settings overrides the one in `otherwise`.
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
            (None, Some(_)) => ("compatible", "default"),
            (Some(model), url) => match model.split_once(':') {
                Some((provider, name)) if PROVIDERS.iter().any(|(known, _)| *known == provider) => {
                    (provider, name)
                }
                _ if url.is_some() => ("compatible", model.as_str()),
                _ => {
                    let known: Vec<&str> = PROVIDERS.iter().map(|(name, _)| *name).collect();
                    let message = format!(
                        "`{model}` has no provider; write `provider:name`, with one of the providers {}",
                        known.join(", ")
                    );
                    return Err(Misused(message).into());
                }
            },
        };
        let mut config = ProviderConfig::local().with_model(name);
        if let Some(url) = &self.model_url {
            config = config.with_base_url(url);
        }
        let usual =
            PROVIDERS.iter().find(|(known, _)| *known == provider).and_then(|(_, variable)| *variable);
        let variable = self.model_key_env.as_deref().or(usual);
        match variable.map(|variable| (variable, std::env::var(variable))) {
            Some((_, Ok(key))) => config = config.with_key(key),
            Some((variable, Err(_))) if self.model_key_env.is_some() || self.model_url.is_none() => {
                return Err(Misused(format!("`{provider}` needs an API key; set {variable}")).into());
            }
            _ => {}
        }
        let opened: Result<Arc<dyn Model>, antiphon_llm::Error> = match provider {
            "openai" => OpenAi::new(config).map(|model| Arc::new(model) as _),
            "anthropic" => Anthropic::new(config).map(|model| Arc::new(model) as _),
            "gemini" => Gemini::new(config).map(|model| Arc::new(model) as _),
            "ollama" => Ollama::new(config).map(|model| Arc::new(model) as _),
            _ => OpenAiCompatible::new(config).map(|model| Arc::new(model) as _),
        };
        Ok(Some(opened.with_context(|| format!("the model `{provider}:{name}` cannot be used"))?))
    }
}

/// The providers, and the environment variable with each provider's API key.
const PROVIDERS: [(&str, Option<&str>); 5] = [
    ("openai", Some("OPENAI_API_KEY")),
    ("anthropic", Some("ANTHROPIC_API_KEY")),
    ("gemini", Some("GEMINI_API_KEY")),
    ("ollama", None),
    ("compatible", None),
];

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
