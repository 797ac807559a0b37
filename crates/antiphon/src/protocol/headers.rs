//! The headers of MCP over HTTP. They are looked for in every request, so nobody reads their names anew.

use http::HeaderName;

pub(crate) static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
pub(crate) static METHOD: HeaderName = HeaderName::from_static("mcp-method");
#[cfg(feature = "auth")]
pub(crate) static NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
