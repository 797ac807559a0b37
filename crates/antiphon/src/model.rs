//! The MCP types for the content blocks of results. The SDK (`rmcp`) defines these types.
//!
//! In addition to this module, only two parts of Antiphon's public API contain `rmcp` types.
//! [`ServerBuilder::handler`](crate::ServerBuilder::handler) accepts an existing `rmcp::ServerHandler`. The module
//! [`middleware`](crate::middleware) exports the parameters and results of requests.

pub use rmcp::{
    ServerHandler,
    model::{
        Annotations, AudioContent, ContentBlock, EmbeddedResource, Icon, ImageContent, PromptMessage,
        Resource as ResourceLink, ResourceContents, Role, TextContent, Tool as ToolDescription,
        ToolAnnotations,
    },
};
