//! Models behind the APIs of providers such as OpenAI, Anthropic, Gemini and Ollama.
//!
//! Each provider is a [`Model`](crate::Model) that is created from a [`ProviderConfig`]: an API key, the names of
//! models, and limits. All providers follow the rules in this list:
//!
//! - **Structured data**: the reply to a request for data is a `tool_use` of [`SCHEMA_TOOL`](crate::SCHEMA_TOOL). For
//!   structured data, the provider uses the best method that the model supports, unless you set a
//!   [`StructuredOutput`].
//! - **Preferences**: a request can contain hints, which are parts of model names. The provider selects a configured
//!   model that matches a hint. If the hints do not select exactly one model, the provider compares the priorities of
//!   the request with the prices and ranks in [`ModelConfig`]. If neither hints nor priorities select a model, the
//!   provider uses the first configured model.
//! - **Unsupported content** in a request results in an error that names this content. Some fields are not sent to the
//!   provider, as MCP allows: `metadata`, `includeContext`, and `temperature` if the model rejects it. Under
//!   [`NOTES_META`], the reply lists the fields that were not sent.
//! - **Temporary errors**: the provider sends the request again. The delay between attempts doubles each time, unless
//!   the server asks for another delay. One timeout applies to all attempts of a request together.
//! - **The API key** never appears in logs or errors. Providers do not read environment variables, neither for API
//!   keys nor for HTTP proxies.
//!
//! Providers need a Tokio runtime with time and I/O enabled.

mod anthropic;
mod choose_model;
mod config;
mod convert;
mod engine;
mod failure;
mod gemini;
mod ollama;
mod openai;
mod plan;
mod read;
mod retry;
mod rig;
mod schema;

pub use rig_core;

pub use self::{
    anthropic::Anthropic,
    config::{ModelConfig, ProviderConfig, StructuredOutput},
    gemini::Gemini,
    ollama::Ollama,
    openai::{OpenAi, OpenAiCompatible, OpenAiResponses},
    read::NOTES_META,
    rig::Rig,
};

/// Implements [`Model`](crate::Model) for a wrapper of an [`engine::Engine`].
macro_rules! model {
    ($name:ident) => {
        impl crate::model::Model for $name {
            fn reply<'a>(
                &'a self,
                request: &'a crate::request::Request,
            ) -> crate::model::BoxFuture<'a, crate::error::Result<crate::reply::Reply>> {
                Box::pin(self.0.reply(request))
            }

            fn name(&self) -> &str {
                self.0.name()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}
use model;
