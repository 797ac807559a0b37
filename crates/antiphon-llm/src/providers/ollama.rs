use rig_core::providers::ollama::OllamaConfig;

use super::{
    config::{Needs, ProviderConfig},
    engine::{Engine, IMAGES, Profile},
    plan::Api,
};
use crate::error::Result;

/// A model behind Ollama's native API, `/api/chat`.
///
/// ```no_run
/// # use antiphon_llm::providers::{Ollama, ProviderConfig};
/// # fn main() -> Result<(), antiphon_llm::Error> {
/// let model = Ollama::new(ProviderConfig::local().with_model("qwen3:4b"))?;
/// # Ok(())
/// # }
/// ```
///
/// The default base URL is `http://localhost:11434`. Requests for structured data contain the schema in the field
/// `format`. With [`StructuredOutput::JsonMode`](super::StructuredOutput::JsonMode), the field `format` is `json`, and
/// the prompt contains the schema.
///
/// Ollama's API has no field for the tool choice. For `toolChoice: none`, the request contains no tools. For
/// `toolChoice: required`, the schema in the field `format` allows only a tool call. For a model without tools, the
/// prompt describes the tools.
pub struct Ollama(Engine);

impl Ollama {
    /// Creates a model from the configuration of a provider.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`](crate::Error::Config) if a setting is missing or invalid.
    pub fn new(config: ProviderConfig) -> Result<Self> {
        let profile = Profile {
            name: "Ollama",
            api: Api::Ollama,
            needs: Needs { key: false, base_url: false },
            vendor: None,
            images: IMAGES,
            audio: &[],
        };
        let mut rig = OllamaConfig::new().with_api_key(config.secret().to_owned());
        if let Some(url) = &config.base_url {
            rig = rig.with_base_url(url);
        }
        let model = |name: &str, http| (rig.clone().connect(http).native_completion(name).erase(), true);
        Ok(Self(Engine::new(profile, config, model)?))
    }
}

super::model!(Ollama);
