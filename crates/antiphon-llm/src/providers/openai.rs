use rig_core::{
    completion::ReplayTarget as _,
    message::AudioMediaType,
    providers::openai::{
        OpenAIConfig,
        wire::{Auth, Dialect, OPENAI, OutputCap, Quirks},
    },
};

use super::{
    config::{Needs, ProviderConfig},
    engine::{Engine, IMAGES, Profile},
    plan::Api,
};
use crate::error::Result;

/// A model behind OpenAI's Chat Completions API.
///
/// ```no_run
/// # use antiphon_llm::providers::{OpenAi, ProviderConfig};
/// # fn main() -> Result<(), antiphon_llm::Error> {
/// # let key = "";
/// let model = OpenAi::new(ProviderConfig::new(key).with_model("gpt-5.2"))?;
/// # Ok(())
/// # }
/// ```
///
/// Requests for structured data use `response_format`, in strict mode if the schema allows it. `OpenAi` supports audio
/// as WAV and MP3. The newest models of OpenAI call tools only over the Responses API: use [`OpenAiResponses`] for
/// these models.
pub struct OpenAi(Engine);

impl OpenAi {
    /// Creates a model from the configuration of a provider.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`](crate::Error::Config) if a setting is missing or invalid.
    pub fn new(config: ProviderConfig) -> Result<Self> {
        let profile = Profile {
            name: "OpenAi",
            api: Api::OpenAiChat,
            needs: Needs { key: true, base_url: false },
            vendor: Some("openai"),
            images: IMAGES,
            audio: HEARD,
        };
        let rig = provider(&OPENAI, &config);
        let model = |name: &str, http| {
            let model = rig.clone().connect(http).chat(name);
            let images = model.wire.accepts(name).user_images;
            (model.erase(), images)
        };
        Ok(Self(Engine::new(profile, config, model)?))
    }
}

super::model!(OpenAi);

/// A model behind OpenAI's Responses API.
///
/// ```no_run
/// # use antiphon_llm::providers::{OpenAiResponses, ProviderConfig};
/// # fn main() -> Result<(), antiphon_llm::Error> {
/// # let key = "";
/// let model = OpenAiResponses::new(ProviderConfig::new(key).with_model("gpt-6-sol"))?;
/// # Ok(())
/// # }
/// ```
///
/// Requests for structured data use `text.format`. The Responses API supports neither stop sequences nor audio. A
/// request with stop sequences or audio fails with an error. Requests set `store` to `false`, so that OpenAI does not
/// store the replies.
pub struct OpenAiResponses(Engine);

impl OpenAiResponses {
    /// Creates a model from the configuration of a provider.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`](crate::Error::Config) if a setting is missing or invalid.
    pub fn new(config: ProviderConfig) -> Result<Self> {
        let profile = Profile {
            name: "OpenAiResponses",
            api: Api::OpenAiResponses,
            needs: Needs { key: true, base_url: false },
            vendor: Some("openai"),
            images: IMAGES,
            audio: &[],
        };
        let rig = provider(&OPENAI, &config);
        let model = |name: &str, http| {
            let model = rig.clone().connect(http).responses(name);
            let images = model.wire.accepts(name).user_images;
            (model.erase(), images)
        };
        Ok(Self(Engine::new(profile, config, model)?))
    }
}

super::model!(OpenAiResponses);

/// A model behind any server with OpenAI's Chat Completions API, for example llama.cpp, vLLM, LM Studio or a gateway.
///
/// ```no_run
/// # use antiphon_llm::providers::{OpenAiCompatible, ProviderConfig};
/// # fn main() -> Result<(), antiphon_llm::Error> {
/// let config = ProviderConfig::local().with_base_url("http://localhost:8080/v1").with_model("qwen3");
/// let model = OpenAiCompatible::new(config)?;
/// # Ok(())
/// # }
/// ```
///
/// The configuration must have a base URL: the URL of the API without `/chat/completions`. The API key is optional.
/// Requests for structured data use `response_format`. If a server does not support `response_format`, choose another
/// [`StructuredOutput`](super::StructuredOutput).
pub struct OpenAiCompatible(Engine);

impl OpenAiCompatible {
    /// Creates a model from the configuration of a provider.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`](crate::Error::Config) if a setting is missing or invalid.
    pub fn new(config: ProviderConfig) -> Result<Self> {
        let profile = Profile {
            name: "OpenAiCompatible",
            api: Api::OpenAiCompatible,
            needs: Needs { key: false, base_url: true },
            vendor: None,
            images: IMAGES,
            audio: HEARD,
        };
        let mut quirks = Quirks::openai();
        quirks.auth = Auth::OptionalBearer;
        quirks.output_cap = OutputCap::Legacy;
        let dialect = Dialect::gateway("openai-compatible", "", "").with_quirks(quirks);
        let rig = provider(&dialect, &config);
        let model = |name: &str, http| (rig.clone().connect(http).chat(name).erase(), true);
        Ok(Self(Engine::new(profile, config, model)?))
    }
}

super::model!(OpenAiCompatible);

/// The audio types that OpenAI's Chat Completions API accepts.
const HEARD: &[AudioMediaType] = &[AudioMediaType::WAV, AudioMediaType::MP3];

fn provider(dialect: &Dialect, config: &ProviderConfig) -> OpenAIConfig {
    let rig = OpenAIConfig::with_key(dialect, config.secret().to_owned());
    match &config.base_url {
        Some(url) => rig.with_base_url(url),
        None => rig,
    }
}
