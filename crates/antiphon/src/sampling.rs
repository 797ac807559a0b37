//! What is said to a model, and what it says: MCP's sampling types, without a deprecation in them.
//!
//! These are the types of [`antiphon_llm`]: a client and a provider are asked in the same words.
//! 2026-07-28 deprecates that *clients* sample; what models are asked, it does not.

pub use antiphon_llm::{
    Block, Budget, Budgeted, Content, Conversation, Error as ModelError, IncludeContext, IntoBlocks,
    MediaBlock, Message, Model, ModelHint, ModelPreferences, NotOpenAi, Reply, Request, Role, TextBlock,
    ToolChoice, ToolDefinition, ToolResultBlock, ToolUseBlock, Usage, stop,
};

pub use crate::run::route::{SamplingPolicy, VIA_META, Via};

/// What a model can be asked for: the parameter of [`Sample`](crate::Sample), for those who have to
/// name it.
pub mod mode {
    pub use crate::ctx::{
        CheckedSchema, Dynamic, GuaranteedSchema, GuaranteedTools, Mode, Plain, Schema, Tools,
    };
}
