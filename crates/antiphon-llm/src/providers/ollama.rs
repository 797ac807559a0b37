use rig_core::providers::ollama::OllamaConfig;

use super::{
    config::{Needs, ProviderConfig},
    engine::{Engine, IMAGES, Profile},
    plan::Api,
};
use crate::error::Result;

/// Ollama's own API, `/api/chat`.
///
/// ```no_run
/// # use antiphon_llm::providers::{Ollama, ProviderConfig};
/// # fn main() -> Result<(), antiphon_llm::Error> {
/// let model = Ollama::new(ProviderConfig::local().with_model("qwen3:4b"))?;
/// # Ok(())
/// # }
/// ```
///
/// The default address is `http://localhost:11434`. Data are asked for with `format`, which holds the
/// schema; with [`StructuredOutput::JsonMode`](super::StructuredOutput::JsonMode) it says `json`, and the
/// schema is in the prompt.
///
/// Ollama cannot be told whether to call a tool. Where none may be called, none is offered; where one
/// must be, `format` allows nothing else. A model that knows no tools is told of them in words.
pub struct Ollama(Engine);

impl Ollama {
    /// A provider as `config` says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) says what is missing.
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
