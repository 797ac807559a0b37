//! Authorization of requests, and the tools that a client can see.

use std::{any::Any, sync::Arc};

use antiphon_transport::identity::{Identity, Refusal};
use rmcp::{ErrorData, RoleServer, model::Extensions, service::RequestContext};

use super::{Handler, Revision};
use crate::{
    protocol::{UI_EXTENSION, UI_META},
    registry::Registry,
    run::client::revision,
    tool::{Tool, Visibility},
};

/// The authorization rules of a server.
pub(crate) trait Authorize: Any + Send + Sync {
    /// Checks whether `identity` can send a request of `method`, for `tool` if it calls one.
    ///
    /// `None` is an unauthenticated caller. Over stdio, that is the user who started the server, who can do
    /// everything. Over HTTP, the request bypassed the authentication layer.
    ///
    /// # Errors
    ///
    /// Returns the reason for the rejection.
    fn authorize(
        &self,
        registry: &Registry,
        identity: Option<&Identity>,
        over_http: bool,
        method: &str,
        tool: Option<&Tool>,
    ) -> Result<(), Refusal>;
}

impl Handler {
    /// Rejects a request of `method`, for `tool` if it calls one, that its caller is not allowed to send.
    ///
    /// Over streamable HTTP, the layer has already answered such a request with a challenge. This check
    /// applies to every transport.
    pub(super) fn permit(
        &self,
        method: &str,
        tool: Option<&Tool>,
        extensions: &Extensions,
    ) -> Result<(), ErrorData> {
        let Some(auth) = &self.service.auth else { return Ok(()) };
        let parts = extensions.get::<http::request::Parts>();
        let identity = parts.and_then(|parts| parts.extensions.get());
        auth.authorize(&self.service.registry(), identity, parts.is_some(), method, tool).map_err(|refusal| {
            let mut data = serde_json::json!({"error": refusal.code()});
            if let Refusal::Scope(needs) = &refusal {
                data["scope"] = needs.join(" ").into();
            }
            ErrorData::invalid_request(refusal.to_string(), Some(data))
        })
    }

    /// Returns the tool with this name, or `None` if the client cannot see one. Rejects the call if the caller
    /// is not allowed to send it.
    pub(super) fn permit_call<'a>(
        &self,
        registry: &'a Registry,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<&'a Arc<Tool>>, ErrorData> {
        // A client can call only the tools that it can list.
        let tool = registry.tool(name).filter(|tool| is_visible(tool, context));
        self.permit("tools/call", tool.map(|tool| &**tool), &context.extensions)?;
        Ok(tool)
    }

    /// Rejects a request about a task of `tool` if the caller is not allowed to call that tool.
    pub(super) fn permit_tool(
        &self,
        method: &str,
        tool: &str,
        extensions: &Extensions,
    ) -> Result<(), ErrorData> {
        self.permit(method, self.service.registry().tool(tool).map(|tool| &**tool), extensions)
    }

    /// Rejects a request about a task, before it is processed, if the caller is not allowed to call the
    /// task's tool.
    pub(super) async fn permit_task(
        &self,
        method: &str,
        id: &str,
        extensions: &Extensions,
    ) -> Result<(), ErrorData> {
        let Some(tasks) = self.service.tasks.as_ref().filter(|_| self.service.has_scoped_tools()) else {
            return Ok(());
        };
        let owner = super::tasks_2026::owner(&self.service, extensions);
        let found = tasks.get(&owner, id).await;
        match found.map_err(|error| crate::protocol::reply::to_error_data(&error))? {
            Some(view) => self.permit_tool(method, &view.tool, extensions),
            // The method itself returns the error for an unknown task.
            None => Ok(()),
        }
    }
}

/// Returns whether the client can see a tool. A tool for MCP Apps only is hidden from clients that have not
/// declared the apps extension, because its results are not for models. The tools for waiting results are hidden from
/// clients that do not receive such results.
pub(super) fn is_visible(tool: &Tool, context: &RequestContext<RoleServer>) -> bool {
    let shows_apps = || shows_apps(context);
    // The tasks of 2025-11-25 are not an extension, and a client of that revision can call a tool without them.
    let follows_tasks = || {
        revision(context) == Revision::Rounds
            && context.client_capabilities().is_some_and(|declared| declared.supports_tasks())
    };
    let is_needed = match tool.visibility {
        Visibility::Everyone => true,
        Visibility::WithoutTasks => !follows_tasks() || shows_apps(),
        Visibility::WithApps => shows_apps(),
    };
    is_needed && (!is_for_apps_only(tool) || shows_apps())
}

/// Returns whether the client has declared that it shows MCP Apps.
pub(super) fn shows_apps(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|declared| {
        declared.extensions.is_some_and(|extensions| extensions.contains_key(UI_EXTENSION))
    })
}

/// Returns whether the tool is hidden from models: `_meta.ui.visibility` without `model`.
fn is_for_apps_only(tool: &Tool) -> bool {
    let meta = tool.definition.meta.as_ref();
    let visibility = meta.and_then(|meta| meta.0.get(UI_META)?.get("visibility")?.as_array());
    visibility.is_some_and(|visibility| !visibility.iter().any(|who| who == "model"))
}
