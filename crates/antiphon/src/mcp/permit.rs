//! Authorization of requests. This module also decides which tools, prompts and resources the sender of a request can
//! see.

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

/// The rules that decide which requests a caller is allowed to send.
pub(crate) trait Authorize: Any + Send + Sync {
    /// Checks whether `identity` is allowed to call the MCP method `method`. If the request calls a tool, `tool` is
    /// this tool.
    ///
    /// If `identity` is `None`, the server has not authenticated the caller. Over stdio, an unauthenticated caller is
    /// the user who started the server, so all requests are allowed. Over HTTP, an unauthenticated request has bypassed
    /// the authentication layer.
    ///
    /// # Errors
    ///
    /// Returns the reason for the rejection if the caller is not allowed to send the request.
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
    /// Returns an error if the caller is not allowed to call the MCP method `method`. If the request calls a tool,
    /// `tool` is this tool.
    ///
    /// Over streamable HTTP, the authentication layer has already rejected such a request with a challenge. The method
    /// `permit` also checks the requests of all other transports.
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

    /// Returns the tool `name`. If the sender of the request cannot see a tool with this name, this method counts the
    /// request and returns `None`. `resumes` returns `true` if the request resumes a run of a tool. A resumed run
    /// continues even if the group of its tool is disabled.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller is not allowed to call the tool, or has sent too many requests.
    pub(super) async fn permit_call<'a>(
        &self,
        registry: &'a Registry,
        name: &str,
        context: &RequestContext<RoleServer>,
        resumes: impl Fn(&Tool) -> bool,
    ) -> Result<Option<&'a Arc<Tool>>, ErrorData> {
        // A client can call only the tools that the client can also list.
        let seen = registry.tool(name).filter(|tool| self.viewer(context).sees_tool(tool));
        if let Some(tool) = seen.filter(|tool| tool.groups.is_empty()) {
            self.permit("tools/call", Some(tool), &context.extensions)?;
            return Ok(Some(tool));
        }
        self.permit("tools/call", None, &context.extensions)?;
        // The server counts the request before it reads the enabled groups from the store.
        pass(&self.service, &context.extensions)?;
        // The server also reads the groups if the name is unknown or if the tool is hidden. So the response to an
        // unknown name takes as long as the response to the name of a hidden tool.
        let groups = Box::pin(self.enabled_groups(registry, context)).await?;
        let tool = seen.filter(|tool| tool.is_enabled(&groups) || resumes(tool));
        if let Some(tool) = tool {
            self.permit("tools/call", Some(tool), &context.extensions)?;
            // The admission of the call counts the request again. So the first count is reversed here.
            refund(&self.service, &context.extensions);
        }
        Ok(tool)
    }

    /// Returns `true` if a call resumes a run of `tool`. A call resumes a run if the server encrypted the
    /// `requestState` of the call for the same tool, caller and arguments.
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

    /// Returns the tool groups that are enabled in the session of a request. If the request has no session, returns the
    /// tool groups that are enabled for the principal of the caller.
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

    /// Returns the sender of a request. The returned value decides which tools, prompts and resources this sender can
    /// see.
    pub(super) fn viewer<'a>(&'a self, context: &'a RequestContext<RoleServer>) -> Viewer<'a> {
        Viewer { service: &self.service, context, info: OnceLock::new() }
    }

    /// Returns `true` if resources or templates with this URI exist, but the sender of the request cannot see any of
    /// them.
    pub(super) fn hides_resource(&self, uri: &str, context: &RequestContext<RoleServer>) -> bool {
        let registry = self.service.registry();
        let exists = registry.resource(uri).is_some() || registry.template(uri, |_| true).is_some();
        exists && !self.sees_resource(uri, context)
    }

    /// Returns `true` if the sender of the request can see a resource or a template with this URI.
    pub(super) fn sees_resource(&self, uri: &str, context: &RequestContext<RoleServer>) -> bool {
        let (registry, viewer) = (self.service.registry(), self.viewer(context));
        registry.resource(uri).is_some_and(|resource| viewer.sees_resource(resource))
            || registry.template(uri, |template| viewer.sees_template(template)).is_some()
    }

    /// Rejects requests about a task of `tool` if the caller cannot see `tool` or is not allowed to call `tool`. If the
    /// group of `tool` has been disabled, the caller can still see the task.
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

    /// Rejects requests about a task if the caller is not allowed to call the tool of this task. The server checks this
    /// permission before it processes the request.
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
            // If the task is unknown, the method that handles the request returns the error.
            None => Ok(()),
        }
    }
}

/// The sender of a request. The server uses this type to decide which tools, prompts and resources are visible.
pub(super) struct Viewer<'a> {
    service: &'a Service,
    context: &'a RequestContext<RoleServer>,
    /// Information about the caller and the client of the request. Most tools, prompts and resources are always
    /// visible. So the server creates this information only when a visibility condition needs it.
    info: OnceLock<RequestInfo<'a>>,
}

impl Viewer<'_> {
    /// Returns information about the caller and the client of the request.
    fn info(&self) -> &RequestInfo<'_> {
        self.info
            .get_or_init(|| RequestInfo::new(self.context, self.service.principal(&self.context.extensions)))
    }

    /// Returns `true` if the sender of the request meets all of these visibility conditions.
    pub(super) fn sees(&self, conditions: &VisibleIf) -> bool {
        conditions.is_always() || conditions.holds(self.info())
    }

    /// Returns `true` if the sender of the request can see a tool. This method does not check the groups of the tool.
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

/// Returns `true` if the client can see a tool. Some tools are only for MCP Apps, because their results are not for
/// models. Only clients that have declared the MCP Apps extension see these tools. Only clients that can receive
/// waiting results see the tools for waiting results.
fn is_visible(tool: &Tool, context: &RequestContext<RoleServer>) -> bool {
    let shows_apps = || shows_apps(context);
    // In MCP 2025-11-25, tasks are not an extension. A client of this protocol revision can call a tool with or without
    // a task.
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

/// Returns `true` if the client has declared that it shows MCP Apps.
pub(super) fn shows_apps(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|declared| {
        declared.extensions.is_some_and(|extensions| extensions.contains_key(UI_EXTENSION))
    })
}

/// Returns `true` if models must not see the tool. Models must not see a tool whose `_meta.ui.visibility` does not
/// contain `model`.
fn is_for_apps_only(tool: &Tool) -> bool {
    let meta = tool.definition.meta.as_ref();
    let visibility = meta.and_then(|meta| meta.0.get(UI_META)?.get("visibility")?.as_array());
    visibility.is_some_and(|visibility| !visibility.iter().any(|who| who == "model"))
}
