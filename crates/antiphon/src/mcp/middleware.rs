//! Tower layers around MCP requests. This module contains the requests, the responses and the services for these
//! layers.

use std::{
    fmt,
    future::{Future, poll_fn},
    sync::Arc,
    task::{Context, Poll},
};

use antiphon_llm::BoxFuture;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
        CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams, GetPromptResponse,
        GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::{Map, Value};
use tower_layer::Layer;
use tower_service::Service;

/// An MCP request in the form that a layer receives. See [`ServerBuilder::layer`](crate::ServerBuilder::layer).
///
/// ```
/// use antiphon::middleware::{Params, Request};
///
/// fn describe(request: &Request) -> String {
///     match request.params() {
///         Params::CallTool(call) => format!("{} of {}", request.method(), call.name),
///         _ => request.method().to_owned(),
///     }
/// }
/// ```
pub struct Request {
    params: Params,
    extensions: http::Extensions,
    principal: Option<String>,
    context: RequestContext<RoleServer>,
    handler: Arc<dyn Dispatch>,
    pub(super) origin: Origin,
}

/// The handler that receives a request after the request has passed through all layers.
pub(super) trait Dispatch: Send + Sync {
    fn dispatch(
        self: Arc<Self>,
        params: Params,
        origin: Origin,
        context: RequestContext<RoleServer>,
    ) -> Reply;
}

/// The original message of a request, for handlers that need more than the parsed parameters.
pub(super) enum Origin {
    Typed,
    /// An MCP 2025-11-25 `tools/call` with a `task` field, which the SDK does not support.
    CallAsTask(CustomRequest),
    Listen(Box<SubscriptionContext>),
}

/// The parameters of an MCP request. There is one variant for each MCP method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Params {
    /// The parameters of `initialize`, a method of MCP 2025-11-25 and earlier.
    Initialize(Box<InitializeRequestParams>),
    /// The method `server/discover` of MCP 2026-07-28, which has no parameters.
    Discover,
    /// The method `ping`, which has no parameters.
    Ping,
    /// The parameters of `tools/list`.
    ListTools(Option<PaginatedRequestParams>),
    /// The parameters of `tools/call`. If an MCP 2025-11-25 call has a `task` field, the response is
    /// [`Response::Custom`] with the created task.
    CallTool(CallToolRequestParams),
    /// The parameters of `prompts/list`.
    ListPrompts(Option<PaginatedRequestParams>),
    /// The parameters of `prompts/get`.
    GetPrompt(GetPromptRequestParams),
    /// The parameters of `resources/list`.
    ListResources(Option<PaginatedRequestParams>),
    /// The parameters of `resources/templates/list`.
    ListResourceTemplates(Option<PaginatedRequestParams>),
    /// The parameters of `resources/read`.
    ReadResource(ReadResourceRequestParams),
    /// The parameters of `resources/subscribe`, a method of MCP 2025-11-25.
    Subscribe(SubscribeRequestParams),
    /// The parameters of `resources/unsubscribe`, a method of MCP 2025-11-25.
    Unsubscribe(UnsubscribeRequestParams),
    /// The parameters of `subscriptions/listen`, a method of MCP 2026-07-28. The SDK has already acknowledged the
    /// filter of the subscription, so a layer cannot change this filter. The server returns the response when the
    /// subscription ends.
    Listen(SubscriptionFilter),
    /// The parameters of `completion/complete`.
    Complete(CompleteRequestParams),
    /// The parameters of `logging/setLevel`, a method of MCP 2025-11-25.
    SetLevel(SetLevelRequestParams),
    /// The parameters of `tasks/get`, a method of MCP 2026-07-28.
    GetTask(GetTaskParams),
    /// The parameters of `tasks/update`, a method of MCP 2026-07-28.
    UpdateTask(UpdateTaskParams),
    /// The parameters of `tasks/cancel`, a method of MCP 2026-07-28.
    CancelTask(CancelTaskParams),
    /// The parameters of any other request, including the task methods of MCP 2025-11-25. [`Request::method`] returns
    /// the name of the method.
    Custom(CustomRequest),
}

/// The result of an MCP request. A layer must return the variant that belongs to the method of the request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Response {
    /// The result of `initialize`.
    Initialize(Box<InitializeResult>),
    /// The result of `server/discover`.
    Discover(Box<DiscoverResult>),
    /// The result of `tools/list`.
    ListTools(ListToolsResult),
    /// The result of `tools/call`: a tool result, a list of questions (MCP 2026-07-28), or a task.
    CallTool(CallToolResponse),
    /// The result of `prompts/list`.
    ListPrompts(ListPromptsResult),
    /// The result of `prompts/get`: the messages of the prompt, or a list of questions.
    GetPrompt(GetPromptResponse),
    /// The result of `resources/list`.
    ListResources(ListResourcesResult),
    /// The result of `resources/templates/list`.
    ListResourceTemplates(ListResourceTemplatesResult),
    /// The result of `resources/read`: the contents of the resource, or a list of questions.
    ReadResource(ReadResourceResponse),
    /// The result of `completion/complete`.
    Complete(CompleteResult),
    /// The result of `tasks/get`.
    GetTask(Box<GetTaskResult>),
    /// The result of a [`Params::Custom`] request, and the result of an MCP 2025-11-25 call with a `task` field.
    Custom(CustomResult),
    /// The result of the methods that return no data: `ping`, `logging/setLevel`, `resources/subscribe`,
    /// `resources/unsubscribe`, `subscriptions/listen`, `tasks/update` and `tasks/cancel`.
    Empty,
}

impl Request {
    pub(super) fn new(
        handler: Arc<dyn Dispatch>,
        principal: Option<String>,
        params: Params,
        context: RequestContext<RoleServer>,
    ) -> Self {
        let extensions = http::Extensions::new();
        Self { params, extensions, principal, context, handler, origin: Origin::Typed }
    }

    /// Returns the name of the MCP method, for example `tools/call`.
    pub fn method(&self) -> &str {
        match &self.params {
            Params::Initialize(_) => "initialize",
            Params::Discover => "server/discover",
            Params::Ping => "ping",
            Params::ListTools(_) => "tools/list",
            Params::CallTool(_) => "tools/call",
            Params::ListPrompts(_) => "prompts/list",
            Params::GetPrompt(_) => "prompts/get",
            Params::ListResources(_) => "resources/list",
            Params::ListResourceTemplates(_) => "resources/templates/list",
            Params::ReadResource(_) => "resources/read",
            Params::Subscribe(_) => "resources/subscribe",
            Params::Unsubscribe(_) => "resources/unsubscribe",
            Params::Listen(_) => "subscriptions/listen",
            Params::Complete(_) => "completion/complete",
            Params::SetLevel(_) => "logging/setLevel",
            Params::GetTask(_) => "tasks/get",
            Params::UpdateTask(_) => "tasks/update",
            Params::CancelTask(_) => "tasks/cancel",
            // Inside the server, the names of the MCP 2025-11-25 task methods have this prefix.
            Params::Custom(custom) => custom.method.strip_prefix("antiphon/").unwrap_or(&custom.method),
        }
    }

    /// Returns the parameters of the request.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the parameters of the request as a mutable reference. Do not replace the variant. The client expects the
    /// result of the method that the client called.
    ///
    /// # Replay
    ///
    /// The server binds the `requestState` of a run to the tool name and the arguments that your layer sets. So your
    /// layer must change all requests of a run in the same way. If the tool name or the arguments differ between two
    /// requests of a run, the server rejects the `requestState`.
    pub fn params_mut(&mut self) -> &mut Params {
        &mut self.params
    }

    /// Returns the JSON-RPC ID of the request.
    pub fn id(&self) -> String {
        self.context.id.to_string()
    }

    /// Returns the MCP version of the request, for example `2026-07-28`.
    pub fn protocol_version(&self) -> Option<String> {
        self.context.protocol_version().map(|version| version.to_string())
    }

    /// Returns the `_meta` of the request.
    pub fn meta(&self) -> &Map<String, Value> {
        &self.context.meta.0.0
    }

    /// Returns the principal, which is the name of the authenticated caller. See
    /// [`Ctx::principal`](crate::Ctx::principal).
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// Returns the identity of the caller, which consists of the principal and its scopes. See
    /// [`Ctx::identity`](crate::Ctx::identity).
    pub fn identity(&self) -> Option<&antiphon_transport::identity::Identity> {
        self.context.extensions.get::<http::request::Parts>()?.extensions.get()
    }

    /// Returns the headers of the HTTP request. Returns `None` if the client did not send the request over HTTP. See
    /// [`Ctx::headers`](crate::Ctx::headers).
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        Some(&self.context.extensions.get::<http::request::Parts>()?.headers)
    }

    /// Returns `true` if the request resumes a run. Such a request contains the `requestState` from an earlier
    /// response. Only requests of MCP 2026-07-28 can resume a run.
    pub fn is_resumed(&self) -> bool {
        match &self.params {
            Params::CallTool(params) => params.request_state.is_some(),
            Params::GetPrompt(params) => params.request_state.is_some(),
            Params::ReadResource(params) => params.request_state.is_some(),
            _ => false,
        }
    }

    /// Returns the values that layers have added to the request. To add a value, use
    /// [`extensions_mut`](Self::extensions_mut).
    pub fn extensions(&self) -> &http::Extensions {
        &self.extensions
    }

    /// Returns a mutable reference to the values that layers have added to the request. A layer can add a value here,
    /// and tools can read this value with [`Ctx::extension`](crate::Ctx::extension).
    pub fn extensions_mut(&mut self) -> &mut http::Extensions {
        &mut self.extensions
    }

    /// Passes the request to the handler of the server.
    fn dispatch(self) -> Reply {
        let Self { params, extensions, mut context, handler, origin, principal: _ } = self;
        if !extensions.is_empty() {
            context.extensions.insert(crate::run::client::Added(extensions));
        }
        handler.dispatch(params, origin, context)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// The boxed error that the service of a layer returns. The error can be an [`ErrorData`] or any other error type.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) type Reply = BoxFuture<'static, Result<Response, ErrorData>>;

/// The service to which a layer passes requests. This next service consists of the layers that were added later, and
/// the server.
#[derive(Clone)]
pub struct Next(Box<dyn Stack>);

/// A layer's service without type parameters. The service can be cloned through a shared reference.
trait Stack: Send + Sync {
    fn clone_box(&self) -> Box<dyn Stack>;
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorData>>;
    fn call(&mut self, request: Request) -> Reply;
}

impl Clone for Box<dyn Stack> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

impl Next {
    /// Creates the service after all layers, which calls the handler.
    pub(crate) fn innermost() -> Self {
        Self(Box::new(Innermost))
    }

    /// Wraps a service, so that the type of the service is no longer visible.
    pub(crate) fn new<S>(service: S) -> Self
    where
        S: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Self(Box::new(Erased(service)))
    }

    /// Passes the request to the next service, and returns the response of this service.
    ///
    /// # Errors
    ///
    /// Returns an MCP error if the next service rejects the request.
    pub async fn run(mut self, request: Request) -> Result<Response, ErrorData> {
        poll_fn(|cx| self.0.poll_ready(cx)).await?;
        self.0.call(request).await
    }
}

impl Service<Request> for Next {
    type Response = Response;
    type Error = ErrorData;
    type Future = Reply;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorData>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Reply {
        self.0.call(request)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

/// The service of a layer, for which [`Next`] hides the type.
#[derive(Clone)]
struct Erased<S>(S);

impl<S> Stack for Erased<S>
where
    S: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn clone_box(&self) -> Box<dyn Stack> {
        Box::new(self.clone())
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ErrorData>> {
        self.0.poll_ready(cx).map_err(to_error_data)
    }

    fn call(&mut self, request: Request) -> Reply {
        let reply = self.0.call(request);
        Box::pin(async move { reply.await.map_err(to_error_data) })
    }
}

/// Converts the error of a layer into an MCP error. If the layer's error is not an MCP error, the client does not
/// receive its text, and only the log contains this text.
fn to_error_data(error: impl Into<BoxError>) -> ErrorData {
    match error.into().downcast::<ErrorData>() {
        Ok(error) => *error,
        Err(error) => {
            tracing::error!(
                %error,
                "a layer of the server failed; return an `ErrorData` to send the reason to the client"
            );
            ErrorData::internal_error("the request failed", None)
        }
    }
}

/// The service that receives a request after the request has passed through all layers.
#[derive(Clone, Copy)]
struct Innermost;

impl Stack for Innermost {
    fn clone_box(&self) -> Box<dyn Stack> {
        Box::new(*self)
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ErrorData>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Reply {
        request.dispatch()
    }
}

/// Creates a layer from an async function. The function receives a request and the next service, and returns a
/// response. To pass the request to the next service, call [`Next::run`].
///
/// # Examples
///
/// ```
/// use antiphon::{
///     middleware::{self, ErrorData, Next, Params, Request, Response},
///     prelude::*,
/// };
///
/// async fn office_hours(request: Request, next: Next) -> Result<Response, ErrorData> {
///     if matches!(request.params(), Params::CallTool(_)) && is_closed() {
///         return Err(ErrorData::invalid_request("the office is closed", None));
///     }
///     next.run(request).await
/// }
///
/// let server = Server::builder("office", "1.0.0").layer(middleware::from_fn(office_hours)).build()?;
/// # let _ = server;
/// # fn is_closed() -> bool { false }
/// # Ok::<(), antiphon::BuildError>(())
/// ```
pub fn from_fn<F, Fut>(function: F) -> FromFn<F>
where
    F: Fn(Request, Next) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Response, ErrorData>> + Send + 'static,
{
    FromFn { function }
}

/// The layer that [`from_fn`] creates from an async function.
#[derive(Clone, Copy)]
pub struct FromFn<F> {
    function: F,
}

impl<F: Clone> Layer<Next> for FromFn<F> {
    type Service = FromFnService<F>;

    fn layer(&self, next: Next) -> FromFnService<F> {
        FromFnService { function: self.function.clone(), next }
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

/// The service of the layer that [`from_fn`] creates from an async function.
#[derive(Clone)]
pub struct FromFnService<F> {
    function: F,
    next: Next,
}

impl<F, Fut> Service<Request> for FromFnService<F>
where
    F: Fn(Request, Next) -> Fut,
    Fut: Future<Output = Result<Response, ErrorData>> + Send + 'static,
{
    type Response = Response;
    type Error = ErrorData;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ErrorData>> {
        // This service is always ready, because `Next::run` waits until the next service is ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Fut {
        (self.function)(request, self.next.clone())
    }
}

impl<F> fmt::Debug for FromFnService<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFnService").finish_non_exhaustive()
    }
}
