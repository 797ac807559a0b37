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

/// OpenAI's chat completions.
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
/// Data are asked for with `response_format`, strictly where the schema can be strict. Audio is heard as
/// WAV and MP3. The newest models call tools in [`OpenAiResponses`] only.
pub struct OpenAi(Engine);

impl OpenAi {
    /// A provider as `config` says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) says what is missing.
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

/// OpenAI's Responses.
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
/// Data are asked for with `text.format`. This API knows no stop sequences and hears no audio: a
/// request with either is an error. Replies are not stored with OpenAI.
pub struct OpenAiResponses(Engine);

impl OpenAiResponses {
    /// A provider as `config` says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) says what is missing.
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

/// Any server that speaks as OpenAI's chat completions do: llama.cpp, vLLM, LM Studio, a gateway.
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
/// The address ends where `/chat/completions` begins, and must be given; a key need not be. Data are
/// asked for with `response_format`; a server that does not know it wants another
/// [`StructuredOutput`](super::StructuredOutput).
pub struct OpenAiCompatible(Engine);

impl OpenAiCompatible {
    /// A provider as `config` says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) says what is missing.
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

/// What OpenAI's chat hears.
const HEARD: &[AudioMediaType] = &[AudioMediaType::WAV, AudioMediaType::MP3];

fn provider(dialect: &Dialect, config: &ProviderConfig) -> OpenAIConfig {
    let rig = OpenAIConfig::with_key(dialect, config.secret().to_owned());
    match &config.base_url {
        Some(url) => rig.with_base_url(url),
        None => rig,
    }
}
