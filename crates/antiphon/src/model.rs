//! The MCP types for the content of results, as the SDK (`rmcp`) defines them.
//!
//! No other `rmcp` type appears in Antiphon's public API, with one exception:
//! [`ServerBuilder::handler`](crate::ServerBuilder::handler) accepts an existing `rmcp::ServerHandler`.

pub use rmcp::{
    ServerHandler,
    model::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent, PromptMessage,
        Resource as ResourceLink, ResourceContents, Role, TextContent, Tool as ToolDescription,
        ToolAnnotations,
    },
};
