//! A handler that passes each request through the tower layers that the author has added.

use std::{borrow::Cow, ops::Deref, sync::Arc, time::Duration};

use antiphon_llm::BoxFuture;
use antiphon_transport::legacy_tasks::REJECTED;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult,
        DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio_util::either::Either;

use super::{
    Handler, Revision,
    middleware::{Dispatch, Next, Origin, Params, Reply, Request, Response},
    tasks_2025,
};
use crate::{
    mcp::Service,
    run::client::{Connection, revision},
};

/// A [`Handler`] whose requests first pass through the layers of the server.
pub(crate) enum Layered {
    /// The server has no layers, so each request goes directly to the handler.
    Direct(Handler),
    /// The server has layers. After the layers, all requests go to the same handler.
    Layers(Arc<Handler>, Next),
}

impl Layered {
    pub(crate) fn new(service: Arc<Service>, session_idle: Option<Duration>) -> Self {
        let layers = service.layers.clone();
        let handler = Handler::new(service, session_idle);
        match layers {
            None => Self::Direct(handler),
            Some(layers) => Self::Layers(Arc::new(handler), layers),
        }
    }

    /// Sets the connection from which the handler receives its requests. Default: none.
    pub(crate) fn with_connection(mut self, connection: Connection) -> Self {
        let handler = match &mut self {
            Self::Direct(handler) => handler,
            Self::Layers(handler, _) => Arc::get_mut(handler).expect("a new handler is not shared"),
        };
        handler.set_connection(connection);
        self
    }

    /// If the server has layers, passes a request through the layers. `params` converts the request for the layers, and
    /// `result` converts the response of the layers. If the server has no layers, this method calls `direct` and
    /// returns its future without a box or a wrapper.
    fn pass<'a, P, T, F>(
        &'a self,
        request: P,
        context: RequestContext<RoleServer>,
        direct: impl FnOnce(&'a Handler, P, RequestContext<RoleServer>) -> F,
        params: impl FnOnce(P) -> Params,
        result: fn(Response) -> Option<T>,
    ) -> Either<F, BoxFuture<'a, Result<T, ErrorData>>>
    where
        T: 'a,
        F: Future<Output = Result<T, ErrorData>> + Send,
    {
        match self {
            Self::Direct(handler) => Either::Left(direct(handler, request, context)),
            Self::Layers(handler, layers) => {
                let request = to_request(handler, params(request), context);
                Either::Right(Box::pin(run(layers, request, result)))
            }
        }
    }
}

impl Deref for Layered {
    type Target = Handler;

    fn deref(&self) -> &Handler {
        match self {
            Self::Direct(handler) => handler,
            Self::Layers(handler, _) => handler,
        }
    }
}

fn to_request(handler: &Arc<Handler>, params: Params, context: RequestContext<RoleServer>) -> Request {
    let principal = handler.service.principal(&context.extensions);
    let handler: Arc<Handler> = Arc::clone(handler);
    Request::new(handler, principal, params, context)
}

/// Passes a request through the layers, and extracts the result with `result` from the response of the layers.
async fn run<T>(layers: &Next, request: Request, result: fn(Response) -> Option<T>) -> Result<T, ErrorData> {
    let response = layers.clone().run(request).await?;
    result(response).ok_or_else(other_method)
}

/// Returns the result of a method whose response contains no data.
#[expect(clippy::needless_pass_by_value, reason = "the same signature for all methods")]
fn empty(response: Response) -> Option<()> {
    matches!(response, Response::Empty).then_some(())
}

impl Dispatch for Handler {
    fn dispatch(
        self: Arc<Self>,
        params: Params,
        origin: Origin,
        context: RequestContext<RoleServer>,
    ) -> Reply {
        Box::pin(dispatch(self, params, origin, context))
    }
}

/// Passes a request to the handler after the request has passed through all layers.
async fn dispatch(
    handler: Arc<Handler>,
    params: Params,
    origin: Origin,
    context: RequestContext<RoleServer>,
) -> Result<Response, ErrorData> {
    match (params, origin) {
        (Params::CallTool(params), Origin::CallAsTask(request)) => {
            let request = as_task(request, params);
            handler.on_custom_request(request, context).await.map(Response::Custom)
        }
        (Params::Listen(_), Origin::Listen(subscription)) => {
            handler.listen(*subscription).await.map(|()| Response::Empty)
        }
        (Params::Initialize(params), _) => {
            let result = handler.initialize(*params, context).await;
            result.map(|result| Response::Initialize(Box::new(result)))
        }
        (Params::Discover, _) => {
            handler.discover(context).await.map(|result| Response::Discover(Box::new(result)))
        }
        (Params::Ping, _) => handler.ping(context).await.map(|()| Response::Empty),
        (Params::ListTools(page), _) => handler.list_tools(page, context).await.map(Response::ListTools),
        (Params::CallTool(params), _) => handler.call_tool(params, context).await.map(Response::CallTool),
        (Params::ListPrompts(page), _) => {
            handler.list_prompts(page, context).await.map(Response::ListPrompts)
        }
        (Params::GetPrompt(params), _) => handler.get_prompt(params, context).await.map(Response::GetPrompt),
        (Params::ListResources(page), _) => {
            handler.list_resources(page, context).await.map(Response::ListResources)
        }
        (Params::ListResourceTemplates(page), _) => {
            handler.list_resource_templates(page, context).await.map(Response::ListResourceTemplates)
        }
        (Params::ReadResource(params), _) => {
            handler.read_resource(params, context).await.map(Response::ReadResource)
        }
        (Params::Subscribe(params), _) => {
            #[expect(deprecated, reason = "2025-11-25 has no other way to subscribe")]
            let result = handler.subscribe(params, context).await;
            result.map(|()| Response::Empty)
        }
        (Params::Unsubscribe(params), _) => {
            #[expect(deprecated, reason = "2025-11-25 has no other way to unsubscribe")]
            let result = handler.unsubscribe(params, context).await;
            result.map(|()| Response::Empty)
        }
        (Params::Complete(params), _) => handler.complete(params, context).await.map(Response::Complete),
        (Params::SetLevel(params), _) => handler.set_level(params, context).await.map(|()| Response::Empty),
        (Params::GetTask(params), _) => {
            let result = handler.get_task(params, context).await;
            result.map(|result| Response::GetTask(Box::new(result)))
        }
        (Params::UpdateTask(params), _) => {
            handler.update_task(params, context).await.map(|()| Response::Empty)
        }
        (Params::CancelTask(params), _) => {
            handler.cancel_task(params, context).await.map(|()| Response::Empty)
        }
        (Params::Custom(request), _) => {
            handler.on_custom_request(request, context).await.map(Response::Custom)
        }
        // A layer has put subscription parameters into a request of another method.
        (Params::Listen(_), _) => Err(other_method()),
    }
}

/// Returns the original `tools/call` request with its `task` field. The returned request contains the tool name and the
/// arguments as the layers have changed them.
fn as_task(mut request: CustomRequest, params: CallToolRequestParams) -> CustomRequest {
    if let Some(Value::Object(sent)) = &mut request.params {
        sent.insert("name".into(), params.name.into_owned().into());
        match params.arguments {
            Some(arguments) => sent.insert("arguments".into(), Value::Object(arguments)),
            None => sent.remove("arguments"),
        };
    }
    request
}

/// Returns the error for two mistakes of a layer: the layer changed the method of a request, or the layer returned the
/// result of another method.
fn other_method() -> ErrorData {
    tracing::error!("a layer of the server returned the response of another method");
    ErrorData::internal_error("the request failed", None)
}

/// Passes a request through the layers if the SDK does not parse the parameters of this request.
async fn run_custom(
    handler: &Arc<Handler>,
    layers: &Next,
    request: CustomRequest,
    context: RequestContext<RoleServer>,
) -> Result<CustomResult, ErrorData> {
    // The transport renames those MCP 2025-11-25 requests that the SDK does not support.
    let legacy = tasks_2025::Method::of(&request.method);
    let request = match legacy.filter(|_| revision(&context) != Revision::Rounds) {
        Some(tasks_2025::Method::Tools) => {
            let page = Some(tasks_2025::params(&request)?);
            let request = to_request(handler, Params::ListTools(page), context);
            return match layers.clone().run(request).await? {
                Response::ListTools(listed) => handler.with_execution(listed).map(CustomResult),
                _ => Err(other_method()),
            };
        }
        Some(tasks_2025::Method::Call) => {
            let call = Params::CallTool(tasks_2025::params(&request)?);
            let mut call = to_request(handler, call, context);
            call.origin = Origin::CallAsTask(request);
            call
        }
        _ => to_request(handler, Params::Custom(request), context),
    };
    run(layers, request, |response| match response {
        Response::Custom(result) => Some(result),
        _ => None,
    })
    .await
}

/// Implements methods of the handler. The parameters and the result of each method have a variant in `Params` and in
/// `Response`.
macro_rules! layered {
    ($($variant:ident: fn $name:ident($params:ty) -> $result:ty;)*) => {
        $(fn $name(
            &self,
            request: $params,
            context: RequestContext<RoleServer>,
        ) -> impl Future<Output = Result<$result, ErrorData>> + Send + '_ {
            self.pass(request, context, Handler::$name, Params::$variant, |response| match response {
                Response::$variant(result) => Some(result),
                _ => None,
            })
        })*
    };
}

/// Implements methods of the handler whose results contain no data.
macro_rules! empty {
    ($($variant:ident: fn $name:ident($params:ty);)*) => {
        $(fn $name(
            &self,
            request: $params,
            context: RequestContext<RoleServer>,
        ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
            self.pass(request, context, Handler::$name, Params::$variant, empty)
        })*
    };
}

// This implementation must contain every method of the trait. If a method is missing, the SDK uses the default
// implementation of the method and does not call the handler.
impl ServerHandler for Layered {
    layered! {
        CallTool: fn call_tool(CallToolRequestParams) -> CallToolResponse;
        ListTools: fn list_tools(Option<PaginatedRequestParams>) -> ListToolsResult;
        GetPrompt: fn get_prompt(GetPromptRequestParams) -> GetPromptResponse;
        ListPrompts: fn list_prompts(Option<PaginatedRequestParams>) -> ListPromptsResult;
        ReadResource: fn read_resource(ReadResourceRequestParams) -> ReadResourceResponse;
        ListResources: fn list_resources(Option<PaginatedRequestParams>) -> ListResourcesResult;
        ListResourceTemplates: fn list_resource_templates(Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
        Complete: fn complete(CompleteRequestParams) -> CompleteResult;
    }

    empty! {
        SetLevel: fn set_level(SetLevelRequestParams);
        UpdateTask: fn update_task(UpdateTaskParams);
        CancelTask: fn cancel_task(CancelTaskParams);
    }

    fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<GetTaskResult, ErrorData>> + Send + '_ {
        self.pass(request, context, Handler::get_task, Params::GetTask, |response| match response {
            Response::GetTask(result) => Some(*result),
            _ => None,
        })
    }

    fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<InitializeResult, ErrorData>> + Send + '_ {
        let params = |request| Params::Initialize(Box::new(request));
        self.pass(request, context, Handler::initialize, params, |response| match response {
            Response::Initialize(result) => Some(*result),
            _ => None,
        })
    }

    fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<DiscoverResult, ErrorData>> + Send + '_ {
        let direct = |handler, (), context| Handler::discover(handler, context);
        self.pass(
            (),
            context,
            direct,
            |()| Params::Discover,
            |response| match response {
                Response::Discover(result) => Some(*result),
                _ => None,
            },
        )
    }

    fn ping(
        &self,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        self.pass(
            (),
            context,
            |handler, (), context| Handler::ping(handler, context),
            |()| Params::Ping,
            empty,
        )
    }

    fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        #[expect(deprecated, reason = "2025-11-25 has no other way to subscribe")]
        self.pass(request, context, Handler::subscribe, Params::Subscribe, empty)
    }

    fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        #[expect(deprecated, reason = "2025-11-25 has no other way to unsubscribe")]
        self.pass(request, context, Handler::unsubscribe, Params::Unsubscribe, empty)
    }

    fn listen(
        &self,
        context: SubscriptionContext,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        match self {
            Self::Direct(handler) => Either::Left(handler.listen(context)),
            Self::Layers(handler, layers) => {
                let filter = context.accepted().clone();
                let mut request =
                    to_request(handler, Params::Listen(filter), context.request_context().clone());
                request.origin = Origin::Listen(Box::new(context));
                Either::Right(Box::pin(run(layers, request, empty)))
            }
        }
    }

    fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CustomResult, ErrorData>> + Send + '_ {
        match self {
            Self::Layers(handler, layers) if request.method != REJECTED => {
                Either::Right(Box::pin(run_custom(handler, layers, request, context)))
            }
            _ => Either::Left(Handler::on_custom_request(self, request, context)),
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Handler::accepted_subscription_filter(self, requested)
    }

    fn negotiate_initialize(&self, request: &InitializeRequestParams) -> Result<InitializeResult, ErrorData> {
        Handler::negotiate_initialize(self, request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Handler::supported_protocol_versions(self)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Handler::get_tool(self, name)
    }

    fn get_info(&self) -> ServerConfig {
        Handler::get_info(self)
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        Handler::on_cancelled(self, notification, context).await;
    }

    async fn on_progress(
        &self,
        notification: ProgressNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        Handler::on_progress(self, notification, context).await;
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        Handler::on_initialized(self, context).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        Handler::on_roots_list_changed(self, context).await;
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        context: NotificationContext<RoleServer>,
    ) {
        Handler::on_custom_notification(self, notification, context).await;
    }
}
