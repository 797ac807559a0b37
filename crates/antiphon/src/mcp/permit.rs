//! Authorization of requests. This module also decides which tools, prompts and resources a request can see.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use antiphon_transport::identity::{Identity, Refusal};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, Extensions},
    service::RequestContext,
};
use serde_json::Value;

use super::{
    Handler, Revision, Service,
    admit::{pass, refund},
    tasks_2026,
};
use crate::{
    protocol::{UI_EXTENSION, UI_META, reply::to_error_data},
    registry::Registry,
    resource::{Resource, ResourceTemplate},
    run::{
        client::{has_session, revision},
        groups,
    },
    seal::Binding,
    tool::{Tool, Visibility},
    visibility::{RequestInfo, VisibleIf},
};

/// The authorization rules of a server.
pub(crate) trait Authorize: Any + Send + Sync {
    /// Checks whether `identity` is allowed to send a request of `method`. If the request calls a tool, `tool` is this
    /// tool.
    ///
    /// If `identity` is `None`, the caller is not authenticated. Over stdio, this caller is the user who started the
    /// server, and all requests are allowed. Over HTTP, the request has bypassed the authentication layer.
    ///
    /// # Errors
    ///
    /// Returns the reason if the request is rejected.
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
    /// Rejects a request of `method` if the caller is not allowed to send it. If the request calls a tool, `tool` is
    /// this tool.
    ///
    /// Over streamable HTTP, the authentication layer has already answered such requests with a challenge. This check
    /// applies to all transports.
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

    /// Returns the tool with this name. If the request cannot see such a tool, this method counts the request and
    /// returns `None`. `resumes` returns whether the request resumes a run of a tool. A resumed run continues even if
    /// the group of its tool is disabled.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller is not allowed to send the call, or has sent too many requests.
    pub(super) async fn permit_call<'a>(
        &self,
        registry: &'a Registry,
        name: &str,
        context: &RequestContext<RoleServer>,
        resumes: impl Fn(&Tool) -> bool,
    ) -> Result<Option<&'a Arc<Tool>>, ErrorData> {
        // A client can call only the tools that it can also list.
        let seen = registry.tool(name).filter(|tool| self.viewer(context).sees_tool(tool));
        if let Some(tool) = seen.filter(|tool| tool.groups.is_empty()) {
            self.permit("tools/call", Some(tool), &context.extensions)?;
            return Ok(Some(tool));
        }
        self.permit("tools/call", None, &context.extensions)?;
        // The request is counted before the groups are read from the store.
        pass(&self.service, &context.extensions)?;
        // The groups are also read if the name is unknown or hidden, so that the error takes the same time in all
        // cases.
        let groups = Box::pin(self.enabled_groups(registry, context)).await?;
        let tool = seen.filter(|tool| tool.is_enabled(&groups) || resumes(tool));
        if let Some(tool) = tool {
            self.permit("tools/call", Some(tool), &context.extensions)?;
            // The call is counted again on admission, so the first count is reversed.
            refund(&self.service, &context.extensions);
        }
        Ok(tool)
    }

    /// Returns whether a call resumes a run of `tool`. In this case, its `requestState` was encrypted for this tool,
    /// this caller and these arguments.
    pub(super) fn resumes(
        &self,
        tool: &Tool,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> bool {
        let Some(state) = request.request_state.as_deref() else { return false };
        if revision(context) != Revision::Rounds {
            return false;
        }
        let runtime = &self.service.runtime;
        let principal = self.service.principal(&context.extensions).unwrap_or_default();
        let arguments = Value::Object(tool.arguments.present(request.arguments.clone().unwrap_or_default()));
        let binding = Binding::new(&runtime.audience, &principal, "tools/call", tool.name(), &arguments);
        runtime.seal.open(state, &binding, SystemTime::now()).is_ok()
    }

    /// Returns the groups of tools that are enabled in the session of a request. If the request has no session,
    /// returns the groups that are enabled for its principal.
    pub(super) async fn enabled_groups(
        &self,
        registry: &Registry,
        context: &RequestContext<RoleServer>,
    ) -> Result<BTreeSet<String>, ErrorData> {
        if !registry.has_groups() {
            return Ok(BTreeSet::new());
        }
        let groups = if has_session(context) {
            self.session(&context.extensions).shared().groups().await
        } else if let Some(principal) = self.service.principal(&context.extensions) {
            groups::enabled_groups(&self.service.runtime, &principal).await
        } else {
            return Ok(BTreeSet::new());
        };
        groups.map_err(|error| to_error_data(&error))
    }

    /// Returns the sender of a request, to decide which items the request can see.
    pub(super) fn viewer<'a>(&'a self, context: &'a RequestContext<RoleServer>) -> Viewer<'a> {
        Viewer { service: &self.service, context, info: OnceLock::new() }
    }

    /// Returns whether resources or templates have this URI, but the request can see none of them.
    pub(super) fn hides_resource(&self, uri: &str, context: &RequestContext<RoleServer>) -> bool {
        let registry = self.service.registry();
        let exists = registry.resource(uri).is_some() || registry.template(uri, |_| true).is_some();
        exists && !self.sees_resource(uri, context)
    }

    /// Returns whether the request can see at least one resource or template with this URI.
    pub(super) fn sees_resource(&self, uri: &str, context: &RequestContext<RoleServer>) -> bool {
        let (registry, viewer) = (self.service.registry(), self.viewer(context));
        registry.resource(uri).is_some_and(|resource| viewer.sees_resource(resource))
            || registry.template(uri, |template| viewer.sees_template(template)).is_some()
    }

    /// Rejects a request about a task of `tool` if the caller cannot see this tool, or is not allowed to call it. If
    /// the tool's group has been disabled, the task stays visible.
    pub(super) fn permit_tool(
        &self,
        method: &str,
        tool: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let registry = self.service.registry();
        let tool = registry.tool(tool);
        if tool.is_some_and(|tool| tool.is_conditional() && !tool.is_visible_to(self.viewer(context).info()))
        {
            return Err(tasks_2026::unknown());
        }
        self.permit(method, tool.map(|tool| &**tool), &context.extensions)
    }

    /// Rejects a request about a task if the caller is not allowed to call the tool of the task. This check happens
    /// before the request is processed.
    pub(super) async fn permit_task(
        &self,
        method: &str,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let is_needed = || self.service.has_scoped_tools() || self.service.registry().has_conditional_tools();
        let Some(tasks) = self.service.tasks.as_ref().filter(|_| is_needed()) else {
            return Ok(());
        };
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        let found = tasks.get(&owner, id).await;
        match found.map_err(|error| to_error_data(&error))? {
            Some(view) => self.permit_tool(method, &view.tool, context),
            // If the task is unknown, the method itself returns the error.
            None => Ok(()),
        }
    }
}

/// The sender of a request.
pub(super) struct Viewer<'a> {
    service: &'a Service,
    context: &'a RequestContext<RoleServer>,
    /// The caller and the client of the request. This value is created only when an item has a condition, because most
    /// items have none.
    info: OnceLock<RequestInfo<'a>>,
}

impl Viewer<'_> {
    /// Returns the caller and the client of the request.
    fn info(&self) -> &RequestInfo<'_> {
        self.info
            .get_or_init(|| RequestInfo::new(self.context, self.service.principal(&self.context.extensions)))
    }

    /// Returns whether the request can see an item that has these conditions.
    pub(super) fn sees(&self, conditions: &VisibleIf) -> bool {
        conditions.is_always() || conditions.holds(self.info())
    }

    /// Returns whether the request can see a tool. This method does not check the groups of the tool.
    pub(super) fn sees_tool(&self, tool: &Tool) -> bool {
        is_visible(tool, self.context) && (!tool.is_conditional() || tool.is_visible_to(self.info()))
    }

    pub(super) fn sees_resource(&self, resource: &Resource) -> bool {
        (!resource.for_apps || shows_apps(self.context)) && self.sees(&resource.visible_if)
    }

    pub(super) fn sees_template(&self, template: &ResourceTemplate) -> bool {
        self.sees(&template.visible_if)
    }
}

/// Returns whether the client can see a tool. A tool can be only for MCP Apps. Its results are not for models, so only
/// clients that have declared the apps extension see it. Clients that do not receive waiting results do not see the
/// tools for these results.
fn is_visible(tool: &Tool, context: &RequestContext<RoleServer>) -> bool {
    let shows_apps = || shows_apps(context);
    // The tasks of 2025-11-25 are not an extension. A client of this revision can call a tool without a task.
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

/// Returns whether the tool is hidden from models. This is the case if its `_meta.ui.visibility` does not contain
/// `model`.
fn is_for_apps_only(tool: &Tool) -> bool {
    let meta = tool.definition.meta.as_ref();
    let visibility = meta.and_then(|meta| meta.0.get(UI_META)?.get("visibility")?.as_array());
    visibility.is_some_and(|visibility| !visibility.iter().any(|who| who == "model"))
}
