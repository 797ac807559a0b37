//! Types for requests to models, for the replies of models, and for the preferences that select a model.
//!
//! [`Ctx::sample`](crate::Ctx::sample) and similar methods take and return these types. The crate [`llm`](crate::llm)
//! defines the types of messages and replies. These types are the same for the client's model and for a provider's
//! model. MCP 2026-07-28 deprecates sampling with the *client's* model. The deprecation does not affect servers that
//! use a provider's model.

pub use antiphon_llm::{
    Block, Budget, Budgeted, Content, Conversation, Error as ModelError, IncludeContext, IntoBlocks,
    MediaBlock, Message, Model, ModelHint, ModelPreferences, OpenAiHistoryError, Reply, Request, Role,
    TextBlock, ToolChoice, ToolDefinition, ToolResultBlock, ToolUseBlock, Usage, stop,
};

pub use crate::{
    ctx::{
        PromptInput, Sample, SampleConfig, Sampled, SampledCalls, SampledParsed, SampledSchema, SampledTools,
        SampledValue, ToolCalls,
    },
    error::{SampleMethod, SampleValidationError},
    run::ask::{SamplingPolicy, VIA_META, Via},
};

/// The modes of a request to a model: text, data or tool calls. A mode is the type parameter of [`Sample`].
pub mod mode {
    pub use crate::ctx::{
        CheckedSchema, Dynamic, GuaranteedSchema, GuaranteedTools, Mode, Plain, Schema, Tools,
    };
}
