//! MCP Apps: web pages of a server that a host shows, and tools that only these pages call.

use rmcp::{RoleServer, model::Tool, service::RequestContext};

use crate::protocol::{UI_EXTENSION, UI_META};

/// Returns whether the client can see a tool. A tool for apps only is hidden from clients that have not
/// declared the apps extension, because its results are not for models.
pub(super) fn is_there(tool: &Tool, context: &RequestContext<RoleServer>) -> bool {
    !is_for_apps_only(tool)
        || context.client_capabilities().is_some_and(|declared| {
            declared.extensions.is_some_and(|extensions| extensions.contains_key(UI_EXTENSION))
        })
}

/// Returns whether the tool is hidden from models: `_meta.ui.visibility` without `model`.
fn is_for_apps_only(tool: &Tool) -> bool {
    let visibility = tool.meta.as_ref().and_then(|meta| meta.0.get(UI_META)?.get("visibility")?.as_array());
    visibility.is_some_and(|visibility| !visibility.iter().any(|who| who == "model"))
}
