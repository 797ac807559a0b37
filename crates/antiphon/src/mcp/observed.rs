//! A handler that records telemetry for each request.

use std::{borrow::Cow, sync::Arc};

use antiphon_llm::BoxFuture;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        CancelledNotificationParam, CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest,
        CustomResult, DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskResult, InitializeRequestParams, InitializeResult, JsonObject, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};

use super::layered::Layered;
use crate::{
    mcp::Service,
    protocol::revision::VERSIONS,
    run::client::Connection,
    telemetry::{About, Ended, RequestSpan},
};

/// A handler that records each request in spans and metrics.
pub(crate) struct Observed(Layered);

/// The details that telemetry records about a request, in addition to the method.
#[derive(Default)]
struct What {
    name: Option<String>,
    uri: Option<String>,
    arguments: Option<JsonObject>,
    is_run: bool,
}

impl Observed {
    pub(crate) fn new(service: Arc<Service>, session_idle: Option<std::time::Duration>) -> Self {
        Self(Layered::new(service, session_idle))
    }

    /// Sets the connection from which the handler receives its requests. Default: none.
    pub(crate) fn with_connection(self, connection: Connection) -> Self {
        Self(self.0.with_connection(connection))
    }

    /// Records a request. Telemetry needs only the method of this request.
    fn told<'a, T, F>(
        &'a self,
        method: &'static str,
        context: RequestContext<RoleServer>,
        work: impl FnOnce(RequestContext<RoleServer>) -> F + Send + 'a,
    ) -> BoxFuture<'a, Result<T, ErrorData>>
    where
        T: Send + 'a,
        F: Future<Output = Result<T, ErrorData>> + Send + 'a,
    {
        self.told_of(method, &What::default(), context, work, |_| None)
    }

    /// Records a request. The returned future is boxed, because the SDK moves the future of a request several times
    /// before the future starts. Without the box, the future of each request would be as large as the largest future of
    /// any method.
    fn told_of<'a, T, F>(
        &'a self,
        method: &'static str,
        what: &What,
        mut context: RequestContext<RoleServer>,
        work: impl FnOnce(RequestContext<RoleServer>) -> F + Send + 'a,
        said: fn(&T) -> Option<&CallToolResult>,
    ) -> BoxFuture<'a, Result<T, ErrorData>>
    where
        T: Send + 'a,
        F: Future<Output = Result<T, ErrorData>> + Send + 'a,
    {
        parsed(&context);
        if !self.0.service.runtime.recorder.is_on() {
            return Box::pin(work(context));
        }
        let Some(operation) = self.operation(method, what, &context) else { return Box::pin(work(context)) };
        context.extensions.insert(operation.clone());
        let work = Box::pin(work(context));
        Box::pin(async move {
            let mut in_flight = operation.in_flight();
            let answer = operation.within(work).await;
            let result = answer.as_ref().ok().and_then(said);
            if let (Some(result), true) = (result, operation.wants_content())
                && let Ok(result) = serde_json::to_value(result)
            {
                in_flight.ended(&Ended::Said(&result));
            }
            in_flight.ended(&match &answer {
                Ok(_) if result.is_some_and(|result| result.is_error == Some(true)) => Ended::Failed,
                Ok(_) => Ended::Answered,
                Err(error) => Ended::Refused(error.code.0),
            });
            answer
        })
    }

    /// Starts the span of a request. Returns `None` if the server records no telemetry.
    fn operation(
        &self,
        method: &'static str,
        what: &What,
        context: &RequestContext<RoleServer>,
    ) -> Option<RequestSpan> {
        let (http, header) = header(context);
        let about = About {
            method,
            name: what.name.as_deref(),
            uri: what.uri.as_deref(),
            arguments: what.arguments.as_ref(),
            revision: revision(context.protocol_version().as_ref()),
            id: context.id.to_string(),
            meta: &context.meta.0.0,
            http,
            header,
            is_run: what.is_run,
        };
        RequestSpan::begin(&self.0.service.runtime.recorder, &about)
    }

    /// Returns the details of a request. If telemetry is off, this method does not call `find`.
    fn what(&self, find: impl FnOnce() -> What) -> What {
        if self.0.service.runtime.recorder.is_on() { find() } else { What::default() }
    }

    /// Returns the name of a registered tool. Returns `None` for all other names. Clients can send arbitrary names, and
    /// each name would create a new metric series.
    fn tool(&self, name: &str) -> Option<String> {
        self.0.service.registry().tool(name).map(|tool| tool.name().to_owned())
    }
}

/// Implements handler methods. Telemetry needs only the method of these requests.
macro_rules! told {
    ($($method:literal: fn $name:ident($params:ty) -> $result:ty;)*) => {
        $(fn $name(
            &self,
            request: $params,
            context: RequestContext<RoleServer>,
        ) -> impl Future<Output = Result<$result, ErrorData>> + Send + '_ {
            self.told($method, context, move |context| self.0.$name(request, context))
        })*
    };
}

// This implementation must contain every method of the trait. If a method is missing, the SDK uses the default
// implementation of the method and does not call the handler.
impl ServerHandler for Observed {
    told! {
        "initialize": fn initialize(InitializeRequestParams) -> InitializeResult;
        "completion/complete": fn complete(CompleteRequestParams) -> CompleteResult;
        "logging/setLevel": fn set_level(SetLevelRequestParams) -> ();
        "prompts/list": fn list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        "resources/list": fn list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        "resources/templates/list": fn list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        "tools/list": fn list_tools(Option<PaginatedRequestParams>) -> ListToolsResult;
        "tasks/get": fn get_task(GetTaskParams) -> GetTaskResult;
        "tasks/update": fn update_task(UpdateTaskParams) -> ();
        "tasks/cancel": fn cancel_task(CancelTaskParams) -> ();
    }

    fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        #[expect(deprecated, reason = "2025-11-25 has no other way to subscribe")]
        self.told("resources/subscribe", context, move |context| self.0.subscribe(request, context))
    }

    fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        #[expect(deprecated, reason = "2025-11-25 has no other way to unsubscribe")]
        self.told("resources/unsubscribe", context, move |context| self.0.unsubscribe(request, context))
    }

    fn ping(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        self.told("ping", context, move |context| self.0.ping(context))
    }

    fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<DiscoverResult, ErrorData>> + Send + '_ {
        self.told("server/discover", context, move |context| self.0.discover(context))
    }

    fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send + '_ {
        let what = self.what(|| {
            let name = self.tool(&request.name);
            let wanted = self.0.service.runtime.recorder.wants_content();
            let arguments = request.arguments.clone().filter(|_| wanted);
            What { is_run: name.is_some(), name, uri: None, arguments }
        });
        let work = move |context| self.0.call_tool(request, context);
        self.told_of("tools/call", &what, context, work, complete)
    }

    fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<GetPromptResponse, ErrorData>> + Send + '_ {
        let what = self.what(|| {
            let name = self.0.service.registry().prompt(&request.name).map(|_| request.name.clone());
            What { is_run: name.is_some(), name, ..What::default() }
        });
        let work = move |context| self.0.get_prompt(request, context);
        self.told_of("prompts/get", &what, context, work, |_| None)
    }

    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<ReadResourceResponse, ErrorData>> + Send + '_ {
        let what = self.what(|| {
            let registry = self.0.service.registry();
            let is_run = registry.resource(&request.uri).is_some()
                || registry.template(&request.uri, |_| true).is_some();
            What { uri: Some(request.uri.clone()), is_run, ..What::default() }
        });
        let work = move |context| self.0.read_resource(request, context);
        self.told_of("resources/read", &what, context, work, |_| None)
    }

    // Handles calls with a `task` field, and the MCP 2025-11-25 requests that the transport has renamed.
    fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CustomResult, ErrorData>> + Send + '_ {
        let what = self.what(|| {
            let called = request.params.as_ref().and_then(|params| params["name"].as_str());
            let called = called.filter(|_| request.method == "antiphon/tasks/call");
            What { name: called.and_then(|name| self.tool(name)), ..What::default() }
        });
        let method = known(&request.method);
        let work = move |context| self.0.on_custom_request(request, context);
        self.told_of(method, &what, context, work, |_| None)
    }

    // Telemetry does not record subscriptions, because the client decides how long a subscription lasts.
    fn listen(
        &self,
        context: SubscriptionContext,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        let listening: BoxFuture<'_, _> = Box::pin(self.0.listen(context));
        listening
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.0.accepted_subscription_filter(requested)
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        self.0.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.get_tool(name)
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.0)
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        Box::pin(self.0.on_cancelled(notification, context)).await;
    }

    async fn on_progress(
        &self,
        notification: ProgressNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        Box::pin(self.0.on_progress(notification, context)).await;
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        Box::pin(self.0.on_initialized(context)).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        Box::pin(self.0.on_roots_list_changed(context)).await;
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        context: NotificationContext<RoleServer>,
    ) {
        Box::pin(self.0.on_custom_notification(notification, context)).await;
    }
}

fn complete(response: &CallToolResponse) -> Option<&CallToolResult> {
    match response {
        CallToolResponse::Complete(result) => Some(result),
        _ => None,
    }
}

type Header<'a> = Option<(&'a str, Option<&'a str>)>;

/// Returns whether the client sent a request over HTTP, and the trace context from the HTTP headers. If the MCP message
/// contains a trace context, this trace context has priority.
fn header(context: &RequestContext<RoleServer>) -> (bool, Header<'_>) {
    let Some(parts) = context.extensions.get::<http::request::Parts>() else { return (false, None) };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    (true, text("traceparent").map(|parent| (parent, text("tracestate"))))
}

/// Releases the memory that the server reserved for parsing the request. The handler calls this function for every
/// request.
fn parsed(context: &RequestContext<RoleServer>) {
    let parts = context.extensions.get::<http::request::Parts>();
    let streamable =
        parts.and_then(|parts| parts.extensions.get::<antiphon_transport::streamable::Streamable>());
    if let Some(room) = streamable.and_then(|streamable| streamable.room.as_ref()) {
        room.parsed();
    }
}

/// Returns the name of a known MCP method, or `_OTHER`. Clients can send arbitrary method names, and each name would
/// create a new metric series.
fn known(method: &str) -> &'static str {
    const KNOWN: [&str; 19] = [
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
    ];
    let official = match method.strip_prefix("antiphon/") {
        Some("tasks/call") => "tools/call",
        Some(method) => method,
        None => method,
    };
    KNOWN.into_iter().find(|known| *known == official).unwrap_or("_OTHER")
}

fn revision(version: Option<&ProtocolVersion>) -> &'static str {
    let version = version.map_or("", ProtocolVersion::as_str);
    VERSIONS.into_iter().find(|known| *known == version).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_a_client_made_up_is_no_label() {
        assert_eq!(known("tools/call"), "tools/call");
        assert_eq!(known("antiphon/tasks/call"), "tools/call");
        assert_eq!(known("antiphon/tasks/result"), "tasks/result");
        assert_eq!(known("x/4711"), "_OTHER");
        assert_eq!(revision(None), "unknown");
    }
}
