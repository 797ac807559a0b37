use rig_core::{DynModel, operation::Completion};

use super::{config::ProviderConfig, engine::Engine};

/// Any model that rig supports.
///
/// ```no_run
/// use antiphon_llm::providers::{Rig, rig_core::providers::groq};
///
/// let model = Rig::new(groq::new("key").chat("llama-3.3-70b"));
/// ```
///
/// rig decides how to send a request. For example, an image for a model without vision becomes a note in the prompt,
/// and rig chooses where to put a schema.
pub struct Rig(Engine);

impl Rig {
    /// Creates a model from a model of rig.
    pub fn new(model: impl Into<DynModel<Completion>>) -> Self {
        Self(Engine::of(model.into()))
    }

    /// Sets timeout, retries and limits. The API key, the address and the models stay those of rig.
    #[must_use]
    pub fn with_config(self, config: ProviderConfig) -> Self {
        Self(self.0.configure(config))
    }
}

super::model!(Rig);
