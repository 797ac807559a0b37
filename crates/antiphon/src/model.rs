//! The MCP types for the content of results. The SDK (`rmcp`) defines these types.
//!
//! Antiphon's public API contains no other types of `rmcp`, with two exceptions.
//! [`ServerBuilder::handler`](crate::ServerBuilder::handler) accepts an existing `rmcp::ServerHandler`. The module
//! [`middleware`](crate::middleware) contains the parameters and results of requests.

pub use rmcp::{
    ServerHandler,
    model::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent, PromptMessage,
        Resource as ResourceLink, ResourceContents, Role, TextContent, Tool as ToolDescription,
        ToolAnnotations,
    },
};
