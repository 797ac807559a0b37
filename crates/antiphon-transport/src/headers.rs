//! The HTTP header names of MCP, as constants.

use http::HeaderName;

/// `Last-Event-ID`: the last event that a client has received, when it resumes a stream.
pub static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// `Mcp-Method`: the MCP method of an MCP 2026-07-28 request.
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`: the name of the tool or prompt, or the URI of the resource, in an MCP 2026-07-28 request.
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// `Mcp-Session-Id`: the session that a request belongs to, in protocol revisions up to MCP 2025-11-25.
pub static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version`: the protocol revision of a request.
pub static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
