//! MCP's own types, as the SDK defines them: what goes over the wire inside a result.
//!
//! These are re-exported on purpose; no other `rmcp` type appears in Antiphon's signatures, except
//! that an existing `rmcp::ServerHandler` can be taken in
//! ([`ServerBuilder::handler`](crate::ServerBuilder::handler)).

pub use rmcp::{
    ServerHandler,
    model::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent, PromptMessage,
        Resource as ResourceLink, ResourceContents, Role, TextContent, Tool as ToolDescription,
        ToolAnnotations,
    },
};
