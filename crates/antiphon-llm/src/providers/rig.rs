use rig_core::{DynModel, operation::Completion};

use super::{config::ProviderConfig, engine::Engine};

/// A model of the crate `rig-core`, which supports providers that this crate does not support.
///
/// ```no_run
/// use antiphon_llm::providers::{Rig, rig_core::providers::groq};
///
/// let model = Rig::new(groq::new("key").chat("llama-3.3-70b"));
/// ```
///
/// rig decides how to send a request to the provider. For example, if a model does not support images, rig sends a
/// note in the prompt instead of the image.
pub struct Rig(Engine);

impl Rig {
    /// Creates a model from a completion model of rig.
    pub fn new(model: impl Into<DynModel<Completion>>) -> Self {
        Self(Engine::of(model.into()))
    }

    /// Sets the timeout, retries and limits from `config`. `Rig` does not use the API key, the address and the models
    /// of `config`.
    #[must_use]
    pub fn with_config(self, config: ProviderConfig) -> Self {
        Self(self.0.configure(config))
    }
}

super::model!(Rig);
