//! Types for requests to models, for their replies, and for the selection of the model.
//!
//! [`Ctx::sample`](crate::Ctx::sample) and similar methods take and return the types of this module. Messages and
//! replies are types of the crate [`llm`](crate::llm), whether a client's model or a provider's model replies. MCP
//! 2026-07-28 deprecates sampling with the *client's* model. A server that uses a provider's model is not affected.

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

/// The modes of a request to a model (text, data or tool calls), for the type parameter of [`Sample`].
pub mod mode {
    pub use crate::ctx::{
        CheckedSchema, Dynamic, GuaranteedSchema, GuaranteedTools, Mode, Plain, Schema, Tools,
    };
}
