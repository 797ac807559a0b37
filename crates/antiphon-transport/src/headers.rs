//! The headers of MCP over HTTP, as constants that need no parsing.

use http::HeaderName;

/// `Last-Event-ID`: where a client resumes a stream.
pub static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// `Mcp-Method`: the method of a 2026-07-28 request.
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`: the tool, prompt or resource that a 2026-07-28 request is about.
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// `Mcp-Session-Id`: the session that a request belongs to, up to 2025-11-25.
pub static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version`: the protocol revision of a request.
pub static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
