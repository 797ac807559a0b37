//! Models behind the APIs of providers.
//!
//! Each provider is a [`Model`](crate::Model) that is created from a [`ProviderConfig`]: an API key, the names of
//! models, and limits. All providers share these rules:
//!
//! - **Structured data**: a request for data is answered with a `tool_use` of [`SCHEMA_TOOL`](crate::SCHEMA_TOOL).
//!   The provider selects the best method of the model. [`StructuredOutput`] overrides it.
//! - **Preferences**: hints of a request match parts of the names of the configured models. Then the priorities
//!   decide, by list prices and by the ranks of [`ModelConfig`]. The first model is the default.
//! - **Unsupported content** is an error that names it. Fields that MCP allows a client to omit are omitted:
//!   `metadata`, `includeContext`, and `temperature` if the model rejects it. The reply lists them under
//!   [`NOTES_META`].
//! - **Temporary errors** are retried. The wait doubles each time, or is as long as the provider asks. One timeout
//!   applies to all attempts.
//! - **The API key** is in no log and no error. Nothing is read from the environment, neither a key nor a proxy.
//!
//! Providers need a Tokio runtime with time and I/O.

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
    config::{Key, ModelConfig, ProviderConfig, StructuredOutput},
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
