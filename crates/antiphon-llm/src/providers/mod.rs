//! Models behind the APIs of those who serve them.
//!
//! Each provider is a [`Model`](crate::Model) made of a [`ProviderConfig`]: a key, the names of models,
//! and limits. The rest is the same for all of them:
//!
//! - **Data**: a request for data is answered with a `tool_use` of [`SCHEMA_TOOL`](crate::SCHEMA_TOOL).
//!   How the model is brought to it is chosen by what it can do; [`StructuredOutput`] overrules that.
//! - **Preferences**: a request's hints are read as parts of the names of the configured models, then
//!   priorities decide, by list prices and by the ranks of [`ModelConfig`]; the first model is the
//!   default.
//! - **What cannot be sent** is an error that names it. What MCP lets a client leave out
//!   (`temperature` where the model refuses it, `metadata`, `includeContext`) is left out, and the
//!   reply says so under [`NOTES_META`].
//! - **Failures** that may pass are tried again, after a wait that doubles each time or is as long as
//!   the provider asks; all within one timeout.
//! - **The key** is in no log and no error. Nothing is read from the environment, be it a key or a
//!   proxy.
//!
//! They need a Tokio runtime with time and I/O.

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

/// Makes a wrapper of an [`engine::Engine`] a model.
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
