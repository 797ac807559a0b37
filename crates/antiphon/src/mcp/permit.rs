//! Whether whoever sent a request may make it.

use std::any::Any;

use antiphon_transport::identity::{Identity, Refusal};
use rmcp::{ErrorData, model::Extensions};

use super::Handler;
use crate::{registry::Registry, tool::Tool};

/// Says who may do what.
pub(crate) trait Authorize: Any + Send + Sync {
    /// Whether a request of `method`, for `tool` if it calls one, may be made by `identity`.
    ///
    /// `None` is somebody of whom nothing is known: over a pipe that is whoever started the server, who may do everything;
    /// over HTTP it is somebody who came in past the layer.
    ///
    /// # Errors
    ///
    /// Why it may not.
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
    /// Refuses a request of `method`, for `tool` if it calls one, that whoever sent it may not make.
    ///
    /// Over streamable HTTP such a request does not come this far: it was answered with a challenge. Here it is held up
    /// whatever it came over.
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

    /// Refuses a request about a task of `tool` that whoever sent it may not call.
    pub(super) fn permit_tool(
        &self,
        method: &str,
        tool: &str,
        extensions: &Extensions,
    ) -> Result<(), ErrorData> {
        self.permit(method, self.service.registry().tool(tool).map(|tool| &**tool), extensions)
    }

    /// Refuses a request about a task, before it is done, if whoever sent it may not call the task's tool.
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
            // Whoever does it says so.
            None => Ok(()),
        }
    }
}
