//! Questions to models: requests, replies, and which model answers.
//!
//! [`Ctx::sample`](crate::Ctx::sample) and its relatives return these types. Messages and replies are those of
//! [`llm`](crate::llm), for clients and for providers alike. 2026-07-28 deprecates sampling by *clients*. A server with a
//! model of its own is not affected.

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

/// What a model can be asked for: the parameter of [`Sample`], for those who have to
/// name it.
pub mod mode {
    pub use crate::ctx::{
        CheckedSchema, Dynamic, GuaranteedSchema, GuaranteedTools, Mode, Plain, Schema, Tools,
    };
}
