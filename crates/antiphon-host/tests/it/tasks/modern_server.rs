//! A server of 2026-07-28 that keeps its tasks with the SDK's own manager.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        CreateTaskResult, DetailedTask, GetTaskParams, GetTaskResult, InputRequest, ServerCapabilities,
        ServerConfig, TaskPayload, UpdateTaskParams,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::json;
use tokio::sync::Notify;

use super::Pipes;

#[derive(Clone, Default)]
pub(super) struct Modern {
    pub(super) manager: TaskManager,
    /// Ends a nap.
    pub(super) wake: Arc<Notify>,
    /// Is told of every look at a task.
    pub(super) looked: Arc<Notify>,
    pub(super) updates: Arc<AtomicUsize>,
    /// The id of the last task.
    pub(super) last: Arc<Mutex<String>>,
    /// How many answers get lost, together with the connection.
    pub(super) loses: Arc<AtomicUsize>,
    pub(super) pipes: Arc<Mutex<Pipes>>,
    /// How many looks find that the server's store is away.
    pub(super) away: Arc<AtomicUsize>,
    /// Shows every question it ever asked, answered or not, until the task ends.
    pub(super) lags: bool,
    pub(super) shown: Arc<Mutex<rmcp::model::InputRequests>>,
}

pub(super) fn question() -> InputRequest {
    serde_json::from_value(
        json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}}),
    )
    .unwrap()
}

fn say(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

impl Modern {
    async fn run(self, tool: String, ctx: TaskContext) -> Result<CallToolResult, TaskExit> {
        match &*tool {
            "nap" => {
                ctx.set_status_message("asleep");
                tokio::select! {
                    () = self.wake.notified() => Ok(say("rested")),
                    () = ctx.cancelled() => Err(TaskExit::Cancelled),
                }
            }
            "greet" => {
                let (one, two) =
                    tokio::join!(ctx.request_input("one", question()), ctx.request_input("two", question()));
                let three = ctx.request_input("three", question()).await?;
                Ok(say(format!(
                    "{} {} {}",
                    one?["content"]["name"], two?["content"]["name"], three["action"]
                )))
            }
            // Goes on without the answer as soon as it is woken.
            "impatient" => {
                tokio::select! {
                    _ = ctx.request_input("who", question()) => Ok(say("answered")),
                    () = self.wake.notified() => Ok(say("went on")),
                }
            }
            // Gets the answer and still sleeps.
            "lag" => {
                ctx.request_input("who", question()).await?;
                self.wake.notified().await;
                Ok(say("awake"))
            }
            _ => {
                Err(ErrorData::new(rmcp::model::ErrorCode(-32050), "broken", Some(json!({"part": 1}))).into())
            }
        }
    }
}

impl ServerHandler for Modern {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "quick" {
            return Ok(CallToolResponse::Complete(say("done")));
        }
        let (server, tool) = (self.clone(), request.name.to_string());
        let options = TaskOptions::new().with_poll_interval_ms(50);
        let task = self.manager.spawn(options, move |ctx| Box::pin(server.run(tool, ctx)));
        self.last.lock().unwrap().clone_from(&task.task_id);
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        if self.away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(ErrorData::internal_error("try again later", None));
        }
        let mut task = self.manager.get_task(&request.task_id)?;
        if self.lags && !task.status().is_terminal() {
            let mut shown = self.shown.lock().unwrap();
            if let TaskPayload::InputRequired { input_requests } = &task.payload {
                shown.extend(input_requests.clone());
            }
            task = DetailedTask::new(task.task, TaskPayload::InputRequired { input_requests: shown.clone() });
        }
        self.looked.notify_one();
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.loses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.pipes.lock().unwrap().cut();
            return std::future::pending().await;
        }
        self.updates.fetch_add(request.input_responses.len(), Ordering::SeqCst);
        self.manager.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.manager.cancel_task(&request.task_id)
    }
}
