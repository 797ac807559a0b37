//! Answers the questions of a server, in sessions and in rounds.

use std::sync::Arc;

use antiphon_transport::revision::Revision;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        CustomNotification, ElicitRequestParams, ElicitResult, ErrorCode, ListRootsResult,
        ResourceUpdatedNotificationParam,
    },
    service::{NotificationContext, RequestContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    event::{Event, Events},
    form::{Form, Forms, Shown},
    page::{Page, PageHandler, Visits},
    sampling::{SampleError, Sampling},
    telemetry::Telling,
};

/// The handlers that answer the questions of a server.
#[derive(Clone)]
pub(crate) struct Answering {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The capabilities that the host declares to servers. If the value is `None`, the host declares the capabilities
    /// that have a handler.
    pub(crate) declared: Option<Value>,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) forms: Forms,
    pub(crate) pages: Option<Arc<dyn PageHandler>>,
    pub(crate) roots: Option<Vec<Root>>,
    pub(crate) events: Events,
    pub(crate) visits: Visits,
    pub(crate) telling: Telling,
    /// A function that answers every question in place of the handlers.
    #[cfg(feature = "proxy")]
    pub(crate) forward: Option<Forward>,
}

/// A function that answers a question. The arguments of the function are the method and the parameters of the question.
#[cfg(feature = "proxy")]
pub(crate) type Forward =
    Arc<dyn Fn(String, Value) -> crate::form::BoxFuture<'static, Result<Value, ErrorData>> + Send + Sync>;

/// A root: a folder in which the user works. Servers can request the list of roots.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Root {
    /// The location of the folder, as a `file://` URI.
    pub uri: String,
    /// The name that users see for the folder.
    pub name: Option<String>,
}

impl Root {
    /// Creates a root at `uri` without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None }
    }

    /// Sets the name that users see for the folder. Default: none.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// The error code of a rejected sampling request.
const REFUSED: i32 = -1;

impl Answering {
    /// Returns the capabilities that the host declares: tasks, and every capability that has a handler.
    pub(crate) fn capabilities(&self) -> Value {
        if let Some(declared) = &self.declared {
            return declared.clone();
        }
        let mut capabilities = json!({});
        if self.sampling.is_some() {
            capabilities["sampling"] = json!({"tools": {}});
        }
        let mut modes = json!({});
        if !self.forms.is_empty() {
            modes["form"] = json!({});
        }
        if self.pages.is_some() {
            modes["url"] = json!({});
        }
        if modes.as_object().is_some_and(|modes| !modes.is_empty()) {
            capabilities["elicitation"] = modes;
        }
        if self.roots.is_some() {
            capabilities["roots"] = json!({});
        }
        // This extension declares that the host supports tasks. Servers can then run calls as tasks.
        capabilities["extensions"] = json!({rmcp::model::TASKS_EXTENSION_ID: {}});
        capabilities
    }

    /// Returns whether a connection reports changes of the server's lists as events. A proxy listens to changes of the
    /// server's lists on only one of its connections.
    pub(crate) fn watches_lists(&self) -> bool {
        #[cfg(feature = "proxy")]
        if self.forward.is_some() {
            return false;
        }
        self.events.is_heard()
    }

    /// Answers one request of a server. `key` is the question key of the request in its round.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: &Value,
        key: Option<&str>,
    ) -> Result<Value, ErrorData> {
        let answer = async {
            #[cfg(feature = "proxy")]
            if let Some(forward) = &self.forward {
                if let Some(id) = params["elicitationId"].as_str() {
                    // The server later reports the end of the user's visit to the page. The host then sends an event
                    // to the application.
                    self.visits.begin(id);
                }
                return forward(method.to_owned(), params.clone()).await;
            }
            match method {
                "sampling/createMessage" => self.sample(params).await,
                "elicitation/create" => self.elicit(params, key).await,
                "roots/list" => self.list_roots(),
                other => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, other.to_owned(), None)),
            }
        };
        self.telling.answer(method, params).within(answer).await
    }

    async fn sample(&self, params: &Value) -> Result<Value, ErrorData> {
        let Some(sampling) = &self.sampling else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "sampling/createMessage", None));
        };
        let request = read(params)?;
        match sampling.reply(request).await {
            Ok(reply) => Ok(json!(reply)),
            Err(SampleError::Refused(refused)) => {
                Err(ErrorData::new(ErrorCode(REFUSED), refused.to_string(), None))
            }
            Err(SampleError::Model(error)) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }

    async fn elicit(&self, params: &Value, key: Option<&str>) -> Result<Value, ErrorData> {
        let undeclared = |mode: &str| {
            ErrorData::invalid_params(
                format!("this host does not support elicitation in mode `{mode}`"),
                None,
            )
        };
        if params["mode"] == "url" {
            let (Some(pages), Some(page)) = (&self.pages, Page::read(params)) else {
                return Err(undeclared("url"));
            };
            // In a session, the server can report that the user has finished the page. The report can arrive before
            // `open` returns.
            let visit = page.elicitation_id.clone().filter(|_| key.is_none());
            if let Some(id) = &visit {
                self.visits.begin(id);
            }
            let agreed = pages.open(page).await;
            if let (Some(id), false) = (&visit, agreed) {
                self.visits.forget(id);
            }
            return Ok(json!({"action": if agreed { "accept" } else { "decline" }}));
        }
        if self.forms.is_empty() {
            return Err(undeclared("form"));
        }
        let name = key.map(|key| name_of(key).to_owned());
        let shown: Shown = self.forms.show(Form::read(params, name)).await;
        Ok(shown.into_result())
    }

    fn list_roots(&self) -> Result<Value, ErrorData> {
        let Some(roots) = &self.roots else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots/list", None));
        };
        let roots: Vec<Value> = roots
            .iter()
            .map(|root| match &root.name {
                Some(name) => json!({"uri": root.uri, "name": name}),
                None => json!({"uri": root.uri}),
            })
            .collect();
        Ok(json!({"roots": roots}))
    }

    /// Answers a request that the SDK received in a session.
    async fn live<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl serde::Serialize,
        context: &RequestContext<RoleClient>,
    ) -> Result<T, ErrorData> {
        let mut params = write(params)?;
        // The SDK separates `_meta` from the other parameters.
        if params.get("_meta").is_none()
            && let Ok(meta) = serde_json::to_value(&context.meta)
            && meta.as_object().is_some_and(|meta| !meta.is_empty())
        {
            params["_meta"] = meta;
        }
        tokio::select! {
            answer = self.answer(method, &params, None) => read(&answer?),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the server cancelled the request", None)),
            () = self.events.lost() => Err(ErrorData::internal_error("the connection was lost", None)),
        }
    }
}

/// Returns the part of a question key that the author chose: `name` in `branch/name#2`.
pub(crate) fn name_of(key: &str) -> &str {
    let name = key.rsplit('/').next().unwrap_or(key);
    name.split(['#', '~']).next().unwrap_or(name)
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, ErrorData> {
    T::deserialize(value).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

fn write(value: impl serde::Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ClientHandler for Answering {
    fn get_info(&self) -> ClientConfig {
        let capabilities: ClientCapabilities =
            serde_json::from_value(self.capabilities()).unwrap_or_default();
        let about = rmcp::model::Implementation::new(self.name.clone(), self.version.clone());
        let mut config = ClientConfig::new(capabilities, about);
        // `initialize` proposes this revision. Without this setting, the SDK would propose a revision that has no
        // `initialize`.
        config.protocol_version = Revision::Session.protocol_version();
        config
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.live("sampling/createMessage", params, &context).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.live("elicitation/create", params, &context).await
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.live("roots/list", json!({}), &context).await
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.events.updated(&params.uri);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.tell(Event::ResourcesChanged);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.tell(Event::ToolsChanged);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.events.tell(Event::PromptsChanged);
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        if notification.method == "notifications/elicitation/complete"
            && let Some(id) = notification.params.as_ref().and_then(|params| params["elicitationId"].as_str())
            && self.visits.complete(id)
        {
            self.events.tell(Event::PageComplete { elicitation_id: id.to_owned() });
        }
    }
}

/// Returns a progress token as text.
pub(crate) fn token(token: &rmcp::model::ProgressToken) -> String {
    token.0.to_string()
}
