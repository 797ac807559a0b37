//! Implements the handler trait of the SDK for the tools, prompts and resources of Antiphon's registry.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use antiphon_transport::legacy_tasks::REJECTED;
use antiphon_transport::session::Setting;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CompletionInfo, CustomRequest, CustomResult, ErrorCode,
        Extensions, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Reference, ServerConfig, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;

use super::{
    Client, Revision,
    admit::{enter_completion, pass},
    describe::describe,
    invoke::{Call, Reply, invoke},
    permit::shows_apps,
    promote,
    session::{self, Session, next_change},
    single_use::{Use, once},
    tasks_2025, tasks_2026,
};
use crate::{
    asking::Asking,
    changes::{Change, ChangeNotice},
    error::{Error, ErrorKind},
    mcp::Service,
    prompt::{Completer, Completion, Prompt},
    protocol::reply::{put_trace, to_error_data, to_result},
    resource::{Resource, ResourceTemplate},
    run::{
        AskOptions,
        channels::UNRESPONSIVE,
        client::{Connection, SessionMemory},
        groups,
    },
    task::{TaskView, Tasks},
    tool::{TaskPolicy, ToolOutput},
    url_elicitation::UrlElicitationRequired,
};

/// A handler that serves the requests of one connection. Each request without a connection has its own handler.
///
/// The server creates a new handler for each request without a session, so creating a handler must be cheap. The SDK
/// moves the future of a request before the future runs. So large parts of this future are boxed.
pub(crate) struct Handler {
    pub(super) service: Arc<Service>,
    session: OnceLock<Session>,
    session_idle: Option<Duration>,
    /// The connection from which the handler receives its requests. The value is `None` if the connection does not
    /// belong to one client.
    connection: Option<Connection>,
    /// Receivers for the changes that new subscriptions must report. The SDK has not yet acknowledged these
    /// subscriptions.
    acknowledging: Mutex<VecDeque<Receiver<ChangeNotice>>>,
}

/// The maximum length of a URI that the server stores for a client, in bytes.
const MAX_URI: usize = 8 * 1024;

/// The maximum duration of a completion request. The limit is short, because the user waits for the completion while
/// typing. If the tool timeout is shorter, the tool timeout applies instead.
const COMPLETION: Duration = Duration::from_secs(30);

/// The maximum number of subscriptions that can wait for the SDK's acknowledgement at the same time.
const ACKNOWLEDGING: usize = 64;

impl Handler {
    /// Creates a handler for a session. If a session has no traffic for `session_idle`, the transport closes the
    /// session.
    pub(crate) fn new(service: Arc<Service>, session_idle: Option<Duration>) -> Self {
        Self {
            service,
            session: OnceLock::new(),
            session_idle,
            connection: None,
            acknowledging: Mutex::default(),
        }
    }

    /// Sets the connection from which the handler receives its requests. Default: none.
    pub(super) fn set_connection(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    pub(super) fn session(&self, extensions: &Extensions) -> &Session {
        self.session.get_or_init(|| Session::of(extensions))
    }

    /// Returns how often the server pings the client of a session that waits for a user. Because of the pings, the
    /// transport does not close the session.
    pub(super) fn keep_alive(&self) -> Option<Duration> {
        self.session_idle.map(|idle| idle / 3)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        // The server caches this description, because the SDK calls this method for every request.
        self.service.registry().info(|registry| describe(&self.service, registry)).clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.permit("initialize", None, &context.extensions)?;
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        // The server uses the same description for MCP 2026-07-28, where tasks are different. So the description cannot
        // contain the task capability of MCP 2025-11-25.
        tasks_2025::declare(&self.service, &context.extensions, &mut result);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        match self.service.registry().tool(name) {
            // The SDK calls this method for every tool call, but uses only the headers that the tool declares.
            Some(tool) if tool.has_headers => Some(tool.definition.clone()),
            Some(tool) if !tool.is_conditional() => None,
            // If the sender of a request cannot see this tool, the request calls the inner handler's tool with the same
            // name.
            _ => self.service.inner.as_ref()?.tool(name),
        }
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.permit("tools/list", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        let registry = self.service.registry();
        let legacy = !is_rounds(&context);
        // A client that does not support tasks can receive a waiting result. The waiting result tells the model how to
        // read the actual result later.
        let follows = context.client_capabilities().is_some_and(|declared| declared.supports_tasks());
        let waits = self
            .service
            .asking
            .as_ref()
            .is_some_and(|asking| legacy || !follows || asking.has_page() || shows_apps(&context));
        let groups = Box::pin(self.enabled_groups(&registry, &context)).await?;
        let mut tools: Vec<Tool> = {
            let viewer = self.viewer(&context);
            let visible = registry.tools().iter();
            let visible = visible.filter(|tool| viewer.sees_tool(tool) && tool.is_enabled(&groups));
            visible.map(|tool| tool.definition.clone()).collect()
        };
        let own_count = tools.len();
        if let Some(inner) = &self.service.inner {
            let own = inner.list_tools(None, context.clone()).await?.tools;
            let viewer = self.viewer(&context);
            let sees = |tool: &crate::tool::Tool| viewer.sees_tool(tool) && tool.is_enabled(&groups);
            tools.extend(
                own.into_iter().filter(|own| !registry.tool(&own.name).is_some_and(|tool| sees(tool))),
            );
        }
        if legacy {
            // Before 2026-07-28, the output schema of a tool must describe an object.
            for tool in &mut tools {
                if tool
                    .output_schema
                    .as_ref()
                    .is_some_and(|schema| schema.get("type").is_none_or(|kind| kind != "object"))
                {
                    tool.output_schema = None;
                }
            }
        }
        if waits {
            // A tool of the inner handler can have the same name as a hidden tool of the registry.
            for tool in &mut tools[..own_count] {
                let own = registry.tool(&tool.name);
                if own.is_some_and(|own| own.tasks != TaskPolicy::Never) {
                    Asking::widen_output_schema(tool);
                }
            }
        }
        let (tools, next_cursor) = paged(tools, page, self.service.runtime.limits.list_page_size)?;
        Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) })
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let registry = self.service.registry();
        let resumes = |tool: &crate::tool::Tool| self.resumes(tool, &request, &context);
        let Some(tool) = self.permit_call(&registry, &request.name, &context, resumes).await? else {
            return match &self.service.inner {
                Some(inner) => inner.call_tool(request, context).await,
                None => Err(missing("tool", &request.name, request.request_state.is_some())),
            };
        };
        // This conversion must happen before the server encrypts data that is bound to the arguments.
        request.arguments = request.arguments.map(|arguments| tool.arguments.present(arguments));
        let client = self.client(context);
        let ask = self.ask_options(tool, &client);
        if let Some(tasks) = self.service.tasks.as_ref().filter(|_| tool.tasks == TaskPolicy::Always) {
            let ask = ask.filter(|_| !client.knows_tasks());
            return tasks_2026::call(&self.service, tasks, tool, request, &client, ask).await;
        }
        let arguments = Value::Object(request.arguments.take().unwrap_or_default());
        let detaches = client.knows_tasks() || ask.is_some();
        if let Some(tasks) =
            self.service.tasks.as_ref().filter(|_| detaches && tool.tasks == TaskPolicy::WhenLong)
        {
            let call = Call {
                responses: request.input_responses.clone(),
                state: request.request_state.as_deref(),
                ..self.plain_call("tools/call", &request.name, &arguments)
            };
            let used = Use::of(&self.service, &call, &client);
            // `call` borrows from `request`, but the leg needs to own `request`.
            drop(call);
            let tool = Arc::clone(tool);
            let about = (ask.unwrap_or_default(), self.keep_alive());
            let work = promote::call(&self.service, tasks, tool, request, arguments, client, about);
            let answer = once(used, Box::pin(work)).await;
            return self.with_pages(answer).await;
        }
        let call = Call {
            responses: request.input_responses,
            state: request.request_state.as_deref(),
            timeout: tool.timeout,
            quota: tool.quota,
            declared: tool.elicits.clone(),
            ask: self.plain_options(tool, &client),
            ..self.plain_call("tools/call", &request.name, &arguments)
        };
        let checked = tool.arguments.check(&arguments, self.service.runtime.limits.argument_depth);
        let taken = checked.map(|()| tool.arguments.taken(&arguments));
        let used = Use::of(&self.service, &call, &client);
        let work = async {
            let check = |output: &ToolOutput| tool.check_output(output);
            match invoke(&self.service, call, client, &tool.call, taken, check).await? {
                Reply::InputRequired(result) => Ok(result.into()),
                Reply::Waits(view) => Ok(promote::task_response(&self.service, &view)),
                Reply::Done(result, revision, traced) => {
                    let mut result = to_result(result, revision)?;
                    put_trace(&mut result.meta, traced);
                    Ok(result.into())
                }
            }
        };
        let answer = once(used, Box::pin(work)).await;
        self.with_pages(answer).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.permit("prompts/list", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        let registry = self.service.registry();
        let mut prompts: Vec<_> = {
            let viewer = self.viewer(&context);
            let visible = registry.prompts().iter().filter(|prompt| viewer.sees(&prompt.visible_if));
            visible.map(|prompt| prompt.definition.clone()).collect()
        };
        if let Some(inner) = &self.service.inner {
            let own = inner.list_prompts(None, context.clone()).await?.prompts;
            let viewer = self.viewer(&context);
            prompts.extend(own.into_iter().filter(|own| {
                !registry.prompt(&own.name).is_some_and(|prompt| viewer.sees(&prompt.visible_if))
            }));
        }
        let (prompts, next_cursor) = paged(prompts, page, self.service.runtime.limits.list_page_size)?;
        Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(prompts) })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.permit("prompts/get", None, &context.extensions)?;
        let registry = self.service.registry();
        let visible = |prompt: &&Arc<Prompt>| self.viewer(&context).sees(&prompt.visible_if);
        let Some(prompt) = registry.prompt(&request.name).filter(visible) else {
            pass(&self.service, &context.extensions)?;
            return match &self.service.inner {
                Some(inner) => inner.get_prompt(request, context).await,
                None => Err(missing("prompt", &request.name, request.request_state.is_some())),
            };
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = Call {
            responses: request.input_responses,
            state: request.request_state.as_deref(),
            ..self.plain_call("prompts/get", &request.name, &arguments)
        };
        let client = self.client(context);
        let checked = prompt.arguments.check(&arguments, self.service.runtime.limits.argument_depth);
        let taken = checked.map(|()| prompt.arguments.taken(&arguments));
        let used = Use::of(&self.service, &call, &client);
        let work = async {
            match invoke(&self.service, call, client, &prompt.get, taken, |_| Ok(())).await? {
                Reply::InputRequired(result) => Ok(result.into()),
                Reply::Waits(_) => Err(unasked()),
                Reply::Done(Ok(messages), ..) => {
                    let mut result = GetPromptResult::new(messages);
                    result.description.clone_from(&prompt.definition.description);
                    Ok(result.into())
                }
                Reply::Done(Err(error), ..) => Err(to_error_data(&error)),
            }
        };
        let answer = once(used, Box::pin(work)).await;
        self.with_pages(answer).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.permit("resources/list", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        let registry = self.service.registry();
        let mut resources: Vec<_> = {
            let viewer = self.viewer(&context);
            let listed = registry.resources().iter();
            let listed = listed.filter(|resource| resource.listed && viewer.sees_resource(resource));
            listed.map(|resource| resource.definition.clone()).collect()
        };
        if let Some(inner) = &self.service.inner {
            let own = inner.list_resources(None, context.clone()).await?.resources;
            let viewer = self.viewer(&context);
            resources.extend(own.into_iter().filter(|own| {
                !registry.resource(&own.uri).is_some_and(|resource| viewer.sees_resource(resource))
            }));
        }
        let (resources, next_cursor) = paged(resources, page, self.service.runtime.limits.list_page_size)?;
        Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(resources) })
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.permit("resources/templates/list", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        let registry = self.service.registry();
        let mut templates: Vec<_> = {
            let viewer = self.viewer(&context);
            let visible = registry.templates().iter().filter(|template| viewer.sees_template(template));
            visible.map(|template| template.definition.clone()).collect()
        };
        if let Some(inner) = &self.service.inner {
            templates.extend(inner.list_templates(None, context).await?.resource_templates);
        }
        let (templates, next_cursor) = paged(templates, page, self.service.runtime.limits.list_page_size)?;
        Ok(ListResourceTemplatesResult {
            next_cursor,
            ..ListResourceTemplatesResult::with_all_items(templates)
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.permit("resources/read", None, &context.extensions)?;
        let registry = self.service.registry();
        let uri = request.uri.as_str();
        let visible = |resource: &&Arc<Resource>| self.viewer(&context).sees_resource(resource);
        let matching = |template: &ResourceTemplate| self.viewer(&context).sees_template(template);
        let (read, mime_type, meta, arguments) =
            if let Some(resource) = registry.resource(uri).filter(visible) {
                let Resource { definition, read, .. } = &**resource;
                (read, definition.mime_type.as_deref(), definition.meta.as_ref(), Value::Null)
            } else if let Some((template, arguments)) = registry.template(uri, matching) {
                (&template.read, template.definition.mime_type.as_deref(), None, arguments)
            } else {
                pass(&self.service, &context.extensions)?;
                return match &self.service.inner {
                    Some(inner) => inner.read_resource(request, context).await,
                    None => Err(ErrorData {
                        code: ErrorCode::RESOURCE_NOT_FOUND,
                        data: Some(json!({"uri": uri})),
                        ..missing("resource", uri, request.request_state.is_some())
                    }),
                };
            };
        let call = Call {
            responses: request.input_responses,
            state: request.request_state.as_deref(),
            ..self.plain_call("resources/read", uri, &Value::Null)
        };
        let client = self.client(context);
        let used = Use::of(&self.service, &call, &client);
        let work = async {
            match invoke(&self.service, call, client, read, Ok(&arguments), |_| Ok(())).await? {
                Reply::InputRequired(result) => Ok(result.into()),
                Reply::Waits(_) => Err(unasked()),
                Reply::Done(Ok(contents), ..) => {
                    Ok(ReadResourceResult::new(contents.into_wire(uri, mime_type, meta)).into())
                }
                Reply::Done(Err(error), ..) => Err(to_error_data(&error)),
            }
        };
        let answer = once(used, Box::pin(work)).await;
        self.with_pages(answer).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.permit("completion/complete", None, &context.extensions)?;
        let Some(complete) = self.completer(&request, &context) else {
            pass(&self.service, &context.extensions)?;
            return match &self.service.inner {
                Some(inner) => inner.complete(request, context).await,
                None => Ok(CompleteResult::default()),
            };
        };
        let arguments = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let completion =
            Completion { value: request.argument.value, arguments: arguments.into_iter().collect() };
        let _place = enter_completion(&self.service, &completion, &context.extensions).await?;
        let limit =
            self.service.runtime.limits.tool_timeout.map_or(COMPLETION, |limit| limit.min(COMPLETION));
        let completed = tokio::select! {
            completed = complete(completion) => completed,
            () = tokio::time::sleep(limit) => Err(Error::new(ErrorKind::Timeout(limit))),
            () = context.ct.cancelled() => Err(Error::new(ErrorKind::Cancelled)),
        };
        let mut values = completed.map_err(|error| to_error_data(&error))?;
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let mut info = CompletionInfo::new(values).unwrap_or_default();
        info.total = u32::try_from(total).ok();
        info.has_more = Some(total > CompletionInfo::MAX_VALUES);
        Ok(CompleteResult::new(info))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.permit("logging/setLevel", None, &context.extensions)?;
        if is_rounds(&context) {
            return Err(ErrorData::method_not_found::<rmcp::model::SetLevelRequestMethod>());
        }
        pass(&self.service, &context.extensions)?;
        self.session(&context.extensions).set(Setting::Level(request.level)).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.permit("resources/subscribe", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        let (session, most) = (self.session(&context.extensions), self.service.runtime.limits.subscriptions);
        if request.uri.len() > MAX_URI || session.subscriptions() >= most {
            let message = format!(
                "the subscription was rejected: a session can subscribe to at most {most} resources, with URIs of at most {MAX_URI} bytes"
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        let is_visible = self.sees_resource(&request.uri, &context);
        session.set(Setting::Subscribed { uri: request.uri, is_visible }).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.permit("resources/unsubscribe", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        self.session(&context.extensions).set(Setting::Unsubscribed(request.uri)).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // The SDK acknowledges a subscription before it calls `listen`. The server subscribes to changes here, before
        // the acknowledgement. So the subscription does not miss changes between the acknowledgement and the call of
        // `listen`.
        let mut acknowledging = self.acknowledging.lock().unwrap_or_else(PoisonError::into_inner);
        if acknowledging.len() < ACKNOWLEDGING {
            acknowledging.push_back(self.service.runtime.changes.subscribe());
        }
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        self.permit("subscriptions/listen", None, &request.extensions)?;
        let principal = self.service.principal(&request.extensions);
        let name = principal.map(|principal| groups::principal_name(&self.service.runtime, &principal));
        let acknowledged = self.acknowledging.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut changes = acknowledged.unwrap_or_else(|| self.service.runtime.changes.subscribe());
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.service.runtime.shutdown.cancelled() => return Ok(()),
                change = next_change(&mut changes) => change,
            };
            let Some(ChangeNotice { change, .. }) = change else { return Ok(()) };
            if matches!(&change, Change::Resource(uri) if self.hides_resource(uri, request)) {
                continue;
            }
            session::tell(&context, change, name.as_deref()).await;
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.permit("tasks/get", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        let permit = |view: &TaskView| self.permit_tool("tasks/get", &view.tool, &context);
        tasks_2026::get(&self.service, self.tasks()?, &owner, request, permit).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.permit("tasks/update", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        self.permit_task("tasks/update", &request.task_id, &context).await?;
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        tasks_2026::update(self.tasks()?, &owner, request).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.permit("tasks/cancel", None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        self.permit_task("tasks/cancel", &request.task_id, &context).await?;
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        tasks_2026::cancel(self.tasks()?, &owner, request).await
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, _: NotificationContext<RoleServer>) {
        if let Some(client) = self.session.get().and_then(|session| session.gave_up(&cancelled)) {
            tracing::info!(
                "a client did not answer a question within its own time limit; its user is asked in another way"
            );
            self.service.runtime.unresponsive.put(client, UNRESPONSIVE);
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let service = Arc::downgrade(&self.service);
        let is_conditional = move |uri: &str| {
            service.upgrade().is_none_or(|service| service.registry().is_conditional_resource(uri))
        };
        self.session(&context.extensions).forward(
            &self.service.runtime.changes,
            context.peer,
            is_conditional,
        );
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == REJECTED {
            return Err(rejected(&request));
        }
        let rounds = is_rounds(&context);
        if let Some(method) = tasks_2025::Method::of(&request.method).filter(|_| !rounds) {
            let answer = Box::pin(self.legacy(method, request, context)).await;
            return self.with_pages(answer).await;
        }
        self.permit(&request.method, None, &context.extensions)?;
        pass(&self.service, &context.extensions)?;
        match &self.service.inner {
            Some(inner) => inner.custom(request, context).await,
            None => Err(unknown_method(&request, rounds)),
        }
    }
}

impl Handler {
    /// Returns the tasks of the server. The SDK calls the task methods only if the server has declared that it supports
    /// tasks.
    fn tasks(&self) -> Result<&Arc<Tasks>, ErrorData> {
        self.service.tasks.as_ref().ok_or_else(tasks_2026::unknown)
    }

    pub(super) fn client(&self, context: RequestContext<RoleServer>) -> Client {
        // A request of MCP 2026-07-28 does not belong to a session.
        if is_rounds(&context) {
            return Client::new(context).with_connection(self.connection.clone());
        }
        // The server creates the session here if the session does not exist yet. A call can arrive before the
        // notification that begins the session.
        let session = self.session(&context.extensions);
        Client::new(context)
            .with_session(Arc::new(session.shared().clone()), session.level())
            .with_connection(self.connection.clone())
    }

    /// Returns `answer` unchanged. If `answer` is an error that asks the user to open web pages, this method first
    /// records the elicitations of this error in the session. From this record, the server can later notify the client
    /// when the user has finished on a web page.
    async fn with_pages<T>(&self, answer: Result<T, ErrorData>) -> Result<T, ErrorData> {
        if let (Err(error), Some(session)) = (&answer, self.session.get())
            && let Some(data) = &error.data
            && let Some(required) = UrlElicitationRequired::from_error_data(error.code.0, data)
        {
            for page in required.elicitations {
                session.shared().elicited(&page.elicitation_id).await;
            }
        }
        answer
    }

    fn plain_call<'a>(&self, method: &'static str, name: &'a str, arguments: &'a Value) -> Call<'a> {
        Call {
            method,
            name,
            arguments,
            responses: None,
            state: None,
            timeout: None,
            quota: None,
            keep_alive: self.keep_alive(),
            declared: None,
            ask: AskOptions::default(),
        }
    }

    /// Returns the settings for questions in a call of `tool`. These settings also state how long a call can take
    /// before the server returns a waiting result. Returns `None` if only the client can show questions, or if runs of
    /// `tool` cannot become tasks.
    fn ask_options(&self, tool: &crate::tool::Tool, client: &Client) -> Option<AskOptions> {
        let asking = self.service.asking.as_ref()?;
        if tool.tasks == TaskPolicy::Never {
            return None;
        }
        let policy = &asking.policy;
        Some(AskOptions {
            channels: asking.channels(tool, client),
            relay: asking.relays(client),
            quick: policy.quick,
            expiry: policy.expiry,
            hand_over_after: Some(policy.hand_over_after),
            heartbeat: Some(policy.heartbeat),
            max_waiting: Some(policy.max_waiting),
            checks_client: false,
        })
    }

    /// Returns the settings for questions in a call of `tool` if runs of `tool` cannot become tasks.
    fn plain_options(&self, tool: &crate::tool::Tool, client: &Client) -> AskOptions {
        match &self.service.asking {
            Some(asking) if asking.checks_client(tool, client) => {
                AskOptions { checks_client: true, quick: asking.policy.quick, ..AskOptions::default() }
            }
            _ => AskOptions::default(),
        }
    }

    fn completer(
        &self,
        request: &CompleteRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Completer> {
        let (registry, viewer) = (self.service.registry(), self.viewer(context));
        let argument = request.argument.name.as_str();
        match &request.r#ref {
            Reference::Prompt(prompt) => {
                let prompt = registry.prompt(&prompt.name).filter(|prompt| viewer.sees(&prompt.visible_if));
                prompt?.completions.get(argument).cloned()
            }
            Reference::Resource(resource) => registry
                .templates()
                .iter()
                .find(|template| {
                    template.definition.uri_template == resource.uri && viewer.sees_template(template)
                })?
                .completions
                .get(argument)
                .cloned(),
            _ => None,
        }
    }
}

/// Returns the error for a tool, prompt or resource that the server does not have. `is_resumed` is true if the client
/// resumes a run of this tool, prompt or resource.
fn missing(what: &str, name: &str, is_resumed: bool) -> ErrorData {
    let message = if is_resumed {
        format!("the run cannot continue: the server no longer has the {what} `{name}`")
    } else {
        format!("there is no {what} `{name}`")
    };
    ErrorData::invalid_params(message, None)
}

/// Returns the error for a question that a prompt or resource asks and that would have to wait on the server for the
/// user. Only runs of tools can wait on the server, because `task_result` returns results of tools only.
fn unasked() -> ErrorData {
    ErrorData::internal_error(
        "a prompt or a resource cannot ask this question: the client does not answer it, and only tools can wait for an answer through another channel; ask the question in a tool",
        None,
    )
}

fn is_rounds(context: &RequestContext<RoleServer>) -> bool {
    crate::run::client::revision(context) == Revision::Rounds
}

/// Returns the error for a request that the transport has rejected before the SDK parses the request.
fn rejected(request: &CustomRequest) -> ErrorData {
    let error = request.params.clone().and_then(|params| serde_json::from_value(params).ok());
    error.unwrap_or_else(|| ErrorData::invalid_request("the transport rejected the request", None))
}

/// Returns the error for an unknown method. The SDK also passes a known method to this function if the parameters of
/// the request are invalid.
pub(super) fn unknown_method(request: &CustomRequest, rounds: bool) -> ErrorData {
    const KNOWN: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];
    /// The methods that MCP 2026-07-28 has removed. On MCP 2026-07-28, these methods are unknown, even if their
    /// parameters are valid.
    const OF_SESSIONS: [&str; 3] = ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    let method = request.method.as_str();
    if KNOWN.contains(&method) || (OF_SESSIONS.contains(&method) && !rounds) {
        return ErrorData::invalid_params(format!("the parameters of `{method}` are not valid"), None);
    }
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None)
}

/// Returns one page of a list, and the cursor with which the client requests the next page.
fn paged<T>(
    items: Vec<T>,
    page: Option<PaginatedRequestParams>,
    size: usize,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let total = items.len();
    let start = match page.and_then(|page| page.cursor) {
        None => 0,
        Some(cursor) => match cursor.parse() {
            Ok(start) if start <= total => start,
            _ => {
                return Err(ErrorData::invalid_params(
                    "the cursor is not valid; list again from the start",
                    None,
                ));
            }
        },
    };
    let next = start.saturating_add(size);
    let page = items.into_iter().skip(start).take(size).collect();
    Ok((page, (next < total).then(|| next.to_string())))
}
