//! The MCP types for the content of results, as the SDK (`rmcp`) defines them.
//!
//! No other `rmcp` type appears in Antiphon's public API, with two exceptions:
//! [`ServerBuilder::handler`](crate::ServerBuilder::handler) accepts an existing `rmcp::ServerHandler`, and the module
//! [`middleware`](crate::middleware) has the parameters and results of requests.

pub use rmcp::{
    ServerHandler,
    model::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent, PromptMessage,
        Resource as ResourceLink, ResourceContents, Role, TextContent, Tool as ToolDescription,
        ToolAnnotations,
    },
};
