//! Handles `tasks/get`, `tasks/cancel` and `tasks/list`.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rmcp::{ErrorData, RoleServer, model::PaginatedRequestParams, service::RequestContext};
use serde_json::{Value, json};

use super::{OfTask, may_list, method_not_found, status::flat};
use crate::{
    mcp::{Handler, tasks_2026},
    protocol::reply::to_error_data,
    task::{Cancelled, Tasks},
    trace,
};

impl Handler {
    /// Handles `tasks/get`, which reads a task.
    pub(super) async fn show_task(
        &self,
        tasks: &Arc<Tasks>,
        request: OfTask,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        let found = tasks.get(&owner, &request.task_id).await;
        let view = found.map_err(|error| to_error_data(&error))?.ok_or_else(tasks_2026::unknown)?;
        self.permit_tool("tasks/get", &view.tool, &context)?;
        let peer = context.peer.clone();
        self.follow(tasks, &view, &self.client(context), peer);
        let mut shown = flat(&view);
        if self.service.runtime.traces {
            let traced = tasks.trace(&owner, &request.task_id).await;
            if let Some(traced) = traced.map_err(|error| to_error_data(&error))? {
                shown["_meta"][trace::META] = traced;
            }
        }
        Ok(shown)
    }

    /// Handles `tasks/cancel`. Unlike on MCP 2026-07-28, the server returns an error if the task has already ended.
    pub(super) async fn end_task(
        &self,
        tasks: &Arc<Tasks>,
        request: OfTask,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        self.permit_task("tasks/cancel", &request.task_id, context).await?;
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        let found = tasks.cancel(&owner, &request.task_id).await;
        match found.map_err(|error| to_error_data(&error))?.ok_or_else(tasks_2026::unknown)? {
            Cancelled::Now(view) => Ok(flat(&view)),
            Cancelled::Before(view) => {
                let status = flat(&view)["status"].take();
                let status = status.as_str().unwrap_or_default();
                Err(ErrorData::invalid_params(
                    format!("the task cannot be cancelled: its status is already `{status}`"),
                    None,
                ))
            }
        }
    }

    /// Handles `tasks/list`. The cursor contains a position in the store. So the server encrypts the cursor, and only
    /// this caller can use the cursor.
    pub(super) async fn list_tasks(
        &self,
        tasks: &Arc<Tasks>,
        page: PaginatedRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let service = &self.service;
        if !may_list(service, tasks, &context.extensions) {
            return Err(method_not_found("`tasks/list` is available only to authenticated callers; authenticate, or set `TaskConfig::with_anonymous_list` on the server".into()));
        }
        let principal = service.principal(&context.extensions);
        let owner = Tasks::owner(principal.as_deref());
        let name = format!("tasks/list {}", principal.as_deref().unwrap_or_default());
        let after = match page.cursor {
            None => None,
            Some(cursor) => {
                let sealed = URL_SAFE_NO_PAD.decode(cursor).ok();
                let opened =
                    sealed.and_then(|sealed| service.runtime.seal.open_kept(&sealed, name.as_bytes()).ok());
                let after = opened.and_then(|opened| String::from_utf8(opened).ok());
                let foreign =
                    || ErrorData::invalid_params("the cursor is not valid; list again from the start", None);
                Some(after.ok_or_else(foreign)?)
            }
        };
        let listed = tasks.list(&owner, after.as_deref(), service.runtime.limits.list_page_size).await;
        let (mut views, next) = listed.map_err(|error| to_error_data(&error))?;
        views.retain(|view| self.permit_tool("tasks/list", &view.tool, context).is_ok());
        let mut list = json!({"tasks": views.iter().map(flat).collect::<Vec<_>>()});
        if let Some(next) = next {
            let sealed = service.runtime.seal.seal_kept(next.as_bytes(), name.as_bytes());
            list["nextCursor"] = URL_SAFE_NO_PAD.encode(sealed).into();
        }
        Ok(list)
    }
}
