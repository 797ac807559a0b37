//! The code that all providers share.

use std::{
    fmt,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use rig_core::{
    DynModel,
    catalog::{Catalog, ModelSpec},
    message::{AudioMediaType, ImageMediaType},
    operation::Completion,
    providers::registry::ProviderId,
};
use rig_reqwest::{ReqwestClient, reqwest};

use super::{
    choose_model::choose,
    config::{Key, ModelConfig, Needs, ProviderConfig, StructuredOutput},
    convert::Media,
    failure::Failure,
    plan::{Api, Facts, Plan, plan},
    read,
    retry::with_retries,
};
use crate::{
    error::{Error, Result},
    plain,
    reply::{Reply, stop},
    request::Request,
};

/// The maximum time for opening a connection to a provider.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A provider: an API and its models.
pub(super) struct Engine {
    name: &'static str,
    api: Api,
    config: ProviderConfig,
    models: Vec<(DynModel<Completion>, Facts)>,
    /// For each model, a counter that shows how certainly the model ignores forced tool calls. If the counter of a
    /// model is [`IGNORANT`] or higher, requests that force a tool call no longer offer tools to this model.
    ignorance: Vec<AtomicU8>,
}

/// The properties of a provider's API.
#[derive(Clone, Copy)]
pub(super) struct Profile {
    /// The name of the Rust type of the provider, for example `OpenAi`.
    pub(super) name: &'static str,
    pub(super) api: Api,
    pub(super) needs: Needs,
    /// The vendor of the provider's models in rig's catalog.
    pub(super) vendor: Option<&'static str>,
    /// The image types that the provider's vision models read.
    pub(super) images: &'static [ImageMediaType],
    /// The audio types that the provider's models read.
    pub(super) audio: &'static [AudioMediaType],
}

impl Profile {
    fn spec(&self, model: &str) -> Option<&'static ModelSpec> {
        Catalog::builtin().find(ProviderId::catalog(self.vendor?)?, model)
    }
}

impl Engine {
    /// Creates the engine of a provider. `model` creates the client for a model's name, and returns whether the model
    /// reads images.
    pub(super) fn new(
        profile: Profile,
        mut config: ProviderConfig,
        model: impl Fn(&str, ReqwestClient) -> (DynModel<Completion>, bool),
    ) -> Result<Self> {
        config.check(profile.name, profile.needs)?;
        let impossible = match (config.structured_output, profile.api) {
            (Some(StructuredOutput::JsonMode), Api::Anthropic) => Some("does not support JSON mode"),
            (Some(StructuredOutput::ForcedTool), Api::Ollama) => Some("cannot be forced to call a tool"),
            _ => None,
        };
        if let Some(what) = impossible {
            return Err(Error::Config(format!(
                "the provider `{}` {what}; choose another `StructuredOutput`",
                profile.name
            )));
        }
        for model in &mut config.models {
            model.price = model.price.or_else(|| Some(profile.spec(&model.name)?.pricing?.output));
        }
        let http = http(&config)?;
        let models = config.models.iter().map(|configured| {
            let (model, images) = model(&configured.name, http.clone());
            let facts = facts(profile, &config, configured, &model, images);
            (model, facts)
        });
        let models: Vec<_> = models.collect();
        let ignorance = models.iter().map(|_| AtomicU8::default()).collect();
        Ok(Self { name: profile.name, api: profile.api, config, models, ignorance })
    }

    /// Creates an engine for a model that was created with rig.
    pub(super) fn of(model: DynModel<Completion>) -> Self {
        let name = model.id().unwrap_or("model").to_owned();
        let facts = Facts {
            media: Media { images: ALL_IMAGES, audio: ALL_AUDIO },
            structured_output: StructuredOutput::Native,
            takes_orders: !model.capabilities().completion.rejects_forced_tool_choice,
            tools: true,
            sampling: None,
            max_output_tokens: None,
        };
        let config = ProviderConfig::local().with_model(name);
        let ignorance = vec![AtomicU8::default()];
        Self { name: "Rig", api: Api::Other, config, models: vec![(model, facts)], ignorance }
    }

    /// Replaces the configuration of a model that was created with rig.
    pub(super) fn configure(mut self, config: ProviderConfig) -> Self {
        let models = std::mem::take(&mut self.config.models);
        for (_, facts) in &mut self.models {
            facts.structured_output = config.structured_output.unwrap_or(facts.structured_output);
        }
        self.config = ProviderConfig { models, ..config };
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.config.models[0].name
    }

    pub(super) async fn reply(&self, request: &Request) -> Result<Reply> {
        let preferences = request.model_preferences.as_ref();
        let place = choose(&self.config.models, preferences);
        let (model, facts) = &self.models[place];
        let (name, ignorance) = (&self.config.models[place].name, &self.ignorance[place]);
        let mut facts = *facts;
        // Change only requests that force a tool call. The model can support tools in other requests.
        let held = self.can_hold(&facts, request);
        if held && ignorance.load(Ordering::Relaxed) >= IGNORANT {
            facts.tools = false;
        }
        let planned = plan(self.api, name, &facts, &self.config, request)?;
        let mut ignored = None;
        match self.send(model, name, request, planned).await {
            // The server has reported that the model does not support tools.
            Err(Error::Rejected { message, .. }) if facts.tools && has_no_tools(&message) => {}
            // llama.cpp sends the tools to a model only if the model's template contains them.
            Ok(reply) if held && facts.tools && !called_or_refused(&reply) => ignored = Some(reply),
            Ok(reply) if held && facts.tools => {
                ignorance.store(0, Ordering::Relaxed);
                return Ok(reply);
            }
            done => return done,
        }
        facts.tools = false;
        let planned = plan(self.api, name, &facts, &self.config, request)?;
        match (self.send(model, name, request, planned).await, ignored) {
            // If the second request fails, return the first reply.
            (Err(_), Some(reply)) => Ok(reply),
            (done, Some(ignored)) if done.as_ref().is_ok_and(|reply| !reply.tool_calls().is_empty()) => {
                // A model whose reply was truncated might have called a tool after the truncation. So a model counts as
                // ignoring tools only after two truncated replies.
                let sure =
                    if ignored.stop_reason.as_deref() == Some(stop::MAX_TOKENS) { 1 } else { IGNORANT };
                ignorance.fetch_add(sure, Ordering::Relaxed);
                done
            }
            (done, _) => done,
        }
    }

    /// Returns whether structured output can force the model to write a tool call, if the model does not support tools.
    fn can_hold(&self, facts: &Facts, request: &Request) -> bool {
        self.api == Api::OpenAiCompatible
            && facts.structured_output == StructuredOutput::Native
            && request.must_call()
            && request.schema().is_none()
    }

    async fn send(
        &self,
        model: &DynModel<Completion>,
        name: &str,
        request: &Request,
        plan: Plan,
    ) -> Result<Reply> {
        let Plan { request: made, spoken, notes } = plan;
        let response = with_retries(&self.config, || {
            let call = model.call(made.clone());
            async { call.await.map_err(|error| Failure::new(&error, name, self.config.secret())) }
        })
        .await?;
        let mut reply = read::reply(&response, name);
        if spoken {
            reply = plain::with_calls(request, reply, &read::fresh_id());
        }
        Ok(read::with_notes(reply, notes))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name).field("config", &self.config).finish_non_exhaustive()
    }
}

/// If the counter of a model reaches this value, the model counts as a model that ignores forced tool calls. Requests
/// that force a tool call then no longer offer tools to the model.
const IGNORANT: u8 = 2;

/// Returns whether a model called a tool or refused to reply.
fn called_or_refused(reply: &Reply) -> bool {
    !reply.tool_calls().is_empty() || reply.stop_reason.as_deref() == Some(stop::REFUSAL)
}

/// Returns whether `message` is Ollama's error for a model that does not support tools.
fn has_no_tools(message: &str) -> bool {
    message.contains("does not support tools")
}

/// Creates the HTTP client of a provider. The client follows no redirects, because another address would receive the
/// API key. The client uses only the configured proxy, and ignores proxies from the environment.
fn http(config: &ProviderConfig) -> Result<ReqwestClient> {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("antiphon/", env!("CARGO_PKG_VERSION")))
        .no_proxy();
    let builder = match &config.proxy {
        None => builder,
        Some(Key(url)) => builder.proxy(
            reqwest::Proxy::all(url)
                .map_err(|_| Error::Config("the address of the proxy is not a valid URL".into()))?,
        ),
    };
    let client = builder.build();
    client
        .map(ReqwestClient::from)
        .map_err(|error| Error::Config(format!("the HTTP client cannot be created: {error}")))
}

/// Returns the facts about a model from the configuration and the catalog.
fn facts(
    profile: Profile,
    config: &ProviderConfig,
    configured: &ModelConfig,
    model: &DynModel<Completion>,
    images: bool,
) -> Facts {
    let spec = profile.spec(&configured.name);
    let takes_orders = !model.capabilities().completion.rejects_forced_tool_choice;
    let tools = configured.tools && spec.is_none_or(|spec| spec.tools);
    // A model that is missing in the catalog is treated like the newest models.
    let native = spec.is_none_or(|spec| spec.structured_output);
    let best = match (native, tools) {
        (true, _) => StructuredOutput::Native,
        (false, true) if takes_orders => StructuredOutput::ForcedTool,
        _ => StructuredOutput::Prompt,
    };
    Facts {
        media: Media { images: if images { profile.images } else { &[] }, audio: profile.audio },
        structured_output: config.structured_output.unwrap_or(best),
        takes_orders,
        tools,
        sampling: spec.and_then(|spec| spec.sampling),
        max_output_tokens: spec.and_then(|spec| spec.max_output_tokens),
    }
}

/// The image types that nearly all vision models read.
pub(super) const IMAGES: &[ImageMediaType] =
    &[ImageMediaType::JPEG, ImageMediaType::PNG, ImageMediaType::GIF, ImageMediaType::WEBP];

const ALL_IMAGES: &[ImageMediaType] = &[
    ImageMediaType::JPEG,
    ImageMediaType::PNG,
    ImageMediaType::GIF,
    ImageMediaType::WEBP,
    ImageMediaType::HEIC,
    ImageMediaType::HEIF,
    ImageMediaType::SVG,
];

const ALL_AUDIO: &[AudioMediaType] = &[
    AudioMediaType::WAV,
    AudioMediaType::MP3,
    AudioMediaType::AIFF,
    AudioMediaType::AAC,
    AudioMediaType::OGG,
    AudioMediaType::FLAC,
    AudioMediaType::M4A,
];
