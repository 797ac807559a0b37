//! A server of 2025-11-25, written by hand: its tasks are in a map, and their methods have the names
//! they have behind the layer that carries them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomNotification,
        CustomRequest, CustomResult, ErrorCode, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ServerConfig, ServerNotification,
    },
    service::{Peer, RequestContext},
};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

#[derive(Clone)]
pub(super) struct Legacy {
    tasks: Arc<Mutex<BTreeMap<String, Value>>>,
    changed: watch::Sender<u64>,
    /// Ends a nap.
    pub(super) wake: Arc<Notify>,
    /// Is told when somebody begins to wait in `tasks/result`.
    pub(super) awaited: Arc<Notify>,
    /// Is told of every look at a task.
    pub(super) looked: Arc<Notify>,
    /// How often a tool was called without a task.
    pub(super) plain: Arc<AtomicUsize>,
    pub(super) manners: Manners,
}

/// How far the server keeps to the specification.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    Polite,
    /// Wraps what it should not, and leaves out the `ttl`.
    Wraps,
    /// Its pages go round in circles.
    Circles,
    /// Does not declare tasks.
    Undeclared,
    /// Passes over the wish for a task.
    Deaf,
    /// Says something beside the task.
    Meta,
}

impl Legacy {
    pub(super) fn new(manners: Manners) -> Self {
        Self {
            tasks: Arc::default(),
            changed: watch::channel(0).0,
            wake: Arc::default(),
            awaited: Arc::default(),
            looked: Arc::default(),
            plain: Arc::default(),
            manners,
        }
    }

    fn task(&self, params: &Value) -> Result<Value, ErrorData> {
        let id = params["taskId"].as_str().unwrap_or_default();
        let unknown = || ErrorData::invalid_params("Failed to retrieve task: Task not found", None);
        self.tasks.lock().unwrap().get(id).cloned().ok_or_else(unknown)
    }

    /// Changes a task and tells of it, if it has not ended.
    async fn change(&self, id: &str, status: &str, peer: &Peer<RoleServer>) {
        let task = {
            let mut tasks = self.tasks.lock().unwrap();
            let task = tasks.get_mut(id).unwrap();
            if matches!(task["status"].as_str(), Some("completed" | "failed" | "cancelled")) {
                return;
            }
            task["status"] = json!(status);
            task["statusMessage"] = json!(format!("now {status}"));
            task.clone()
        };
        self.changed.send_modify(|changes| *changes += 1);
        let told = CustomNotification::new("notifications/tasks/status", Some(outside(&task)));
        // Nobody may be there to hear it.
        let _ = peer.send_notification(ServerNotification::CustomNotification(told)).await;
    }

    fn create(&self, params: &Value, context: &RequestContext<RoleServer>) -> Value {
        let mut tasks = self.tasks.lock().unwrap();
        let tool = params["name"].as_str().unwrap().to_owned();
        let id = format!("task-{}", tasks.len());
        let status = if tool == "greet" { "input_required" } else { "working" };
        let task = json!({"taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": params["task"]["ttl"], "pollInterval": 50, "tool": tool});
        tasks.insert(id.clone(), task.clone());
        let (server, peer) = (self.clone(), context.peer.clone());
        let token = context.meta.get_progress_token();
        tokio::spawn(async move {
            match &*tool {
                "nap" => {
                    server.wake.notified().await;
                    if let Some(token) = token {
                        let _ = peer.notify_progress(ProgressNotificationParam::new(token, 1.0)).await;
                    }
                    server.change(&id, "completed", &peer).await;
                }
                "break" => server.change(&id, "failed", &peer).await,
                _ => {}
            }
        });
        outside(&task)
    }

    async fn result(&self, params: &Value, context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
        let mut changed = self.changed.subscribe();
        let mut task = self.task(params)?;
        let id = task["taskId"].as_str().unwrap().to_owned();
        self.awaited.notify_one();
        let mut said = "rested".to_owned();
        if task["status"] == "input_required" {
            let question = serde_json::from_value(json!({"mode": "form", "message": "Who?",
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                "_meta": {"io.modelcontextprotocol/related-task": {"taskId": id}}}));
            let answer = context.peer.create_elicitation(question.unwrap()).await;
            let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            said = format!("Hello, {}", answer.content.unwrap()["name"]);
            self.change(&id, "completed", &context.peer).await;
        }
        loop {
            task = self.task(params)?;
            match task["status"].as_str().unwrap() {
                // The tool does not like its arguments: the code is that of an unknown task.
                "failed" => return Err(ErrorData::invalid_params("no such month", None)),
                "cancelled" => return Err(ErrorData::internal_error("it was cancelled", None)),
                "completed" => break,
                _ => changed.changed().await.unwrap(),
            }
        }
        Ok(json!({"content": [{"type": "text", "text": said}], "isError": false,
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": id}}}))
    }
}

/// A task as others see it.
fn outside(task: &Value) -> Value {
    let mut task = task.clone();
    task.as_object_mut().unwrap().remove("tool");
    task
}

impl ServerHandler for Legacy {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = json!({"tools": {}});
        if self.manners != Manners::Undeclared {
            capabilities["experimental"] =
                json!({"antiphon/tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}});
        }
        ServerConfig::new(serde_json::from_value(capabilities).unwrap())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &str, support: &str| {
            json!({"name": name, "inputSchema": {"type": "object"},
                "_meta": {"antiphon/execution": {"taskSupport": support}}})
        };
        let tools = json!([
            tool("nap", "optional"),
            tool("greet", "required"),
            tool("break", "optional"),
            tool("plain", "forbidden"),
            {"name": "silent", "inputSchema": {"type": "object"}},
        ]);
        Ok(serde_json::from_value(json!({"tools": tools})).unwrap())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "greet" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "only as a task", None));
        }
        self.plain.fetch_add(1, Ordering::SeqCst);
        Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text("at once")])))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default();
        let wrapped = |key: &str, value: Value| {
            if self.manners == Manners::Wraps { json!({key: value}) } else { value }
        };
        let mut answer = match &*request.method {
            "antiphon/tasks/call" if self.manners == Manners::Deaf => {
                json!({"content": [{"type": "text", "text": "at once"}]})
            }
            "antiphon/tasks/call" => json!({"task": self.create(&params, &context)}),
            "antiphon/tasks/get" => {
                let task = self.task(&params)?;
                self.looked.notify_one();
                wrapped("task", outside(&task))
            }
            "antiphon/tasks/result" => wrapped("result", self.result(&params, &context).await?),
            "antiphon/tasks/cancel" => {
                let task = self.task(&params)?;
                let id = task["taskId"].as_str().unwrap();
                if !matches!(task["status"].as_str(), Some("working" | "input_required")) {
                    return Err(ErrorData::invalid_params("Cannot cancel task: it has ended", None));
                }
                self.change(id, "cancelled", &context.peer).await;
                wrapped("task", outside(&self.task(&params)?))
            }
            "antiphon/tasks/list" => {
                let tasks = self.tasks.lock().unwrap();
                let from = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
                let page: Vec<Value> = tasks.values().skip(from).take(2).map(outside).collect();
                let next = if from + 2 < tasks.len() {
                    Some(from + 2)
                } else {
                    (self.manners == Manners::Circles).then_some(0)
                };
                let mut list = json!({"tasks": page});
                if let Some(next) = next {
                    list["nextCursor"] = json!(next.to_string());
                }
                list
            }
            other => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, other.to_owned(), None)),
        };
        if self.manners == Manners::Wraps
            && let Some(task) = answer["task"].as_object_mut()
        {
            task.remove("ttl");
        }
        if self.manners == Manners::Meta {
            answer["_meta"] = json!({"example.com/mood": "good"});
        }
        Ok(CustomResult::new(answer))
    }
}
