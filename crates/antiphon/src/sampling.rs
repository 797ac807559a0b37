//! Questions to models: requests, replies, and the selection of the model.
//!
//! [`Ctx::sample`](crate::Ctx::sample) and similar methods return these types. Messages and replies have the types of
//! [`llm`](crate::llm), for clients and for providers. The 2026-07-28 revision deprecates sampling by *clients*. A
//! server with its own model is not affected.

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
    run::route::{SamplingPolicy, VIA_META, Via},
};

/// The modes of a request to a model: the type parameter of [`Sample`].
pub mod mode {
    pub use crate::ctx::{
        CheckedSchema, Dynamic, GuaranteedSchema, GuaranteedTools, Mode, Plain, Schema, Tools,
    };
}
