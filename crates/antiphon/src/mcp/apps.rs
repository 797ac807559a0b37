//! MCP Apps: pages of a server's that a host shows, and tools that only they call.

use rmcp::{RoleServer, model::Tool, service::RequestContext};

use crate::protocol::{UI_EXTENSION, UI_META};

/// Whether a tool is there for the client: one that only apps call is not there for a client that has not said that it
/// shows any. What such tools answer is not for models.
pub(super) fn is_there(tool: &Tool, context: &RequestContext<RoleServer>) -> bool {
    !is_for_apps_only(tool)
        || context.client_capabilities().is_some_and(|declared| {
            declared.extensions.is_some_and(|extensions| extensions.contains_key(UI_EXTENSION))
        })
}

/// Whether models are not to have it: `_meta.ui.visibility` without `model`.
fn is_for_apps_only(tool: &Tool) -> bool {
    let visibility = tool.meta.as_ref().and_then(|meta| meta.0.get(UI_META)?.get("visibility")?.as_array());
    visibility.is_some_and(|visibility| !visibility.iter().any(|who| who == "model"))
}
