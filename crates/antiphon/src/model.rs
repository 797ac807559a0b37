//! MCP's types for the content of results, as the SDK defines them.
//!
//! Antiphon re-exports these types on purpose. No other `rmcp` type appears in Antiphon's signatures, with one
//! exception: [`ServerBuilder::handler`](crate::ServerBuilder::handler) accepts an existing `rmcp::ServerHandler`.

pub use rmcp::{
    ServerHandler,
    model::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent, PromptMessage,
        Resource as ResourceLink, ResourceContents, Role, TextContent, Tool as ToolDescription,
        ToolAnnotations,
    },
};
