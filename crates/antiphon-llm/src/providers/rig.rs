use rig_core::{DynModel, operation::Completion};

use super::{config::ProviderConfig, engine::Engine};

/// Any model rig knows.
///
/// ```no_run
/// use antiphon_llm::providers::{Rig, rig_core::providers::groq};
///
/// let model = Rig::new(groq::new("key").chat("llama-3.3-70b"));
/// ```
///
/// What rig does with a request is rig's affair: a picture for a model that reads none becomes a note
/// in the prompt, and a schema goes where rig puts it.
pub struct Rig(Engine);

impl Rig {
    /// A model made with rig.
    pub fn new(model: impl Into<DynModel<Completion>>) -> Self {
        Self(Engine::of(model.into()))
    }

    /// Sets timeout, retries and limits. Key, address and models are rig's.
    #[must_use]
    pub fn with_config(self, config: ProviderConfig) -> Self {
        Self(self.0.configure(config))
    }
}

super::model!(Rig);
