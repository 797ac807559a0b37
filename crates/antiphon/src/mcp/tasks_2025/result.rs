//! Handles `tasks/result`. The request waits for the end of a task. During the wait, the server sends the task's
//! questions to the client.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, task::Poll, time::Duration};

use rmcp::{
    ErrorData, RoleServer,
    model::{ErrorCode, ServerResult},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{Instant, Interval, interval_at},
};

use super::{OfTask, RELATED_TASK, to_json};
use crate::task::Claim;
use crate::{
    error::{Error, ErrorKind},
    mcp::{Client, Handler, Revision, admit::refusal, fits, tasks_2026},
    protocol::reply::{to_call_result, to_error_data},
    task::{Ended, Owner, TaskView, Tasks},
};

/// How long the server waits for the response to a ping. The server pings the client of a request if another request
/// could send the same questions.
const PRESENCE: Duration = Duration::from_secs(5);

impl Handler {
    /// Waits for the end of a task. Returns the same result as a call without a task.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server withdraws the questions that this future has sent. The next `tasks/result`
    /// request for the same task sends these questions again. The task keeps the answers that arrived before the future
    /// was dropped.
    pub(super) async fn task_result(
        &self,
        tasks: &Arc<Tasks>,
        request: OfTask,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let access = TaskAccess { tasks };
        let owner = tasks_2026::owner(&self.service, &context.extensions);
        let mut view = access.get(&owner, &request.task_id).await?;
        self.permit_tool("tasks/result", &view.tool, &context)?;
        let peer = context.peer.clone();
        let client = self.client(context);
        self.follow(tasks, &view, &client, peer);
        // This request counts as a request that waits for users. If the task has already ended, the server answers the
        // request even if the limit on waiting requests is reached.
        let waits = self.service.runtime.limiter.await_people(&self.service.runtime.limits);
        if let Err(refused) = &waits
            && !view.status.is_final()
        {
            return Err(refusal(&self.service, refused, client.extensions()));
        }
        let mut alive = self.keep_alive().map(|every| interval_at(Instant::now() + every, every));
        let wanted = Arc::new(Notify::new());
        let mut questions =
            Questions { access, client: &client, wanted: Arc::clone(&wanted), out: Vec::new() };
        // All iterations of the loop use the same future, so that other events do not restart the ping.
        let mut deserted = std::pin::pin!(deserted(&client, &wanted));
        while !view.status.is_final() {
            // The registration happens before the read of the task. So this request does not miss a question that
            // another request releases after the read.
            let released = tasks.asking.released();
            if questions.claim(&view) {
                // Another request can have stored the answer after this request read `view`.
                view = access.get(&owner, &request.task_id).await?;
                if view.status.is_final() {
                    break;
                }
            }
            questions.put(&view);
            tokio::select! {
                biased;
                () = client.cancelled().cancelled() => {
                    return Err(to_error_data(&Error::new(ErrorKind::Cancelled)));
                }
                (question, answer) = questions.answered() => view = access.take(&owner, question, answer).await?,
                changed = tasks.changed(&owner, &request.task_id, view.version) => {
                    view = changed.map_err(|error| to_error_data(&error))?.ok_or_else(tasks_2026::unknown)?;
                }
                // Over HTTP, the server cannot detect that a client has disconnected. The client can also have
                // reconnected in another session.
                () = &mut deserted => {
                    return Err(ErrorData::internal_error("the client did not answer a ping", None));
                }
                () = released, if questions.misses(&view) => view = access.get(&owner, &request.task_id).await?,
                () = keep_alive(&client, alive.as_mut()) => {}
            }
        }
        finished(view)
    }
}

/// Reads and changes tasks. This type converts errors into MCP errors.
#[derive(Clone, Copy)]
struct TaskAccess<'a> {
    tasks: &'a Arc<Tasks>,
}

/// Converts the result of a task that has ended into the response of the `tasks/result` request.
fn finished(view: TaskView) -> Result<Value, ErrorData> {
    match view.ended {
        Some(Ended::Output(output)) => {
            let result = to_call_result(output.into(), Revision::Session);
            let mut result = to_json(ServerResult::CallToolResult(result))?;
            result["_meta"][RELATED_TASK] = json!({"taskId": view.id});
            Ok(result)
        }
        Some(Ended::Error { code, message, data }) => Err(ErrorData::new(ErrorCode(code), message, data)),
        // MCP has no error code for a cancelled task. So the response is the same as for a cancelled call.
        Some(Ended::Cancelled) | None => Err(ErrorData::internal_error("the task was cancelled", None)),
    }
}

/// Pings the client periodically, so that the session stays open.
async fn keep_alive(client: &Client, every: Option<&mut Interval>) {
    let Some(every) = every else { return std::future::pending().await };
    every.tick().await;
    client.ping(every.period()).await;
}

/// Completes if another request wants to send the same questions, and the client of this request does not respond to a
/// ping.
async fn deserted(client: &Client, wanted: &Notify) {
    loop {
        wanted.notified().await;
        if !client.ping(PRESENCE).await {
            return;
        }
    }
}

/// The questions of a task that a `tasks/result` request sends to the client.
struct Questions<'a> {
    access: TaskAccess<'a>,
    client: &'a Client,
    /// Notifies this request if another request wants to send the questions that this request has claimed.
    wanted: Arc<Notify>,
    out: Vec<Question>,
}

struct Question {
    claim: Claim,
    task: String,
    key: String,
    request: Value,
    /// The future that returns the client's answer. The value is `None` until the server has sent the question.
    answer: Option<Answer>,
}

type Answer = Pin<Box<dyn Future<Output = crate::Result<Value>> + Send>>;

impl Questions<'_> {
    /// Claims each question that this client can answer and that no other request sends. Returns `true` if this method
    /// claimed a question.
    fn claim(&mut self, view: &TaskView) -> bool {
        let before = self.out.len();
        for (key, request) in &view.asks {
            if self.has(key) || self.client.lacks(request).is_some() {
                continue;
            }
            let Some(claim) = Claim::of(self.access.tasks, &view.id, key, &self.wanted) else { continue };
            let (task, key, request) = (view.id.clone(), key.clone(), request.clone());
            self.out.push(Question { claim, task, key, request, answer: None });
        }
        self.out.len() > before
    }

    /// Returns `true` if another request has claimed a question that the client of this request could answer.
    fn misses(&self, view: &TaskView) -> bool {
        view.asks.iter().any(|(key, request)| !self.has(key) && self.client.lacks(request).is_none())
    }

    fn has(&self, key: &str) -> bool {
        self.out.iter().any(|question| question.key == key)
    }

    /// Sends the claimed questions to the client, and withdraws questions that are no longer open.
    fn put(&mut self, view: &TaskView) {
        self.out.retain(|question| view.asks.contains_key(&question.key));
        for question in self.out.iter_mut().filter(|question| question.answer.is_none()) {
            let mut request = question.request.clone();
            request["params"]["_meta"][RELATED_TASK] = json!({"taskId": view.id});
            question.answer = Some(Box::pin(self.client.ask(&request)));
        }
    }

    /// Waits for the next answer of the client. This method does not use separate Tokio tasks, but polls all sent
    /// requests itself. Over HTTP, the server must send a question on the stream of the request that asks the question.
    async fn answered(&mut self) -> (Question, crate::Result<Value>) {
        let (at, answer) = std::future::poll_fn(|cx| {
            for (at, question) in self.out.iter_mut().enumerate() {
                if let Some(answer) = &mut question.answer
                    && let Poll::Ready(answer) = answer.as_mut().poll(cx)
                {
                    return Poll::Ready((at, answer));
                }
            }
            Poll::Pending
        })
        .await;
        (self.out.swap_remove(at), answer)
    }
}

impl TaskAccess<'_> {
    async fn get(&self, owner: &Owner, id: &str) -> Result<TaskView, ErrorData> {
        let found = self.tasks.get(owner, id).await.map_err(|error| to_error_data(&error))?;
        found.ok_or_else(tasks_2026::unknown)
    }

    /// Stores the client's answer in the task.
    async fn take(
        &self,
        owner: &Owner,
        question: Question,
        answer: crate::Result<Value>,
    ) -> Result<TaskView, ErrorData> {
        let Question { claim, task, key, request, .. } = question;
        let answer = match answer {
            Ok(answer) if fits(&request, &answer) => answer,
            Ok(_) => {
                // If the server sent the question again immediately, the client would return the same answer again.
                let message = format!("the answer to `{}` is not valid", request["method"]);
                return Err(ErrorData::invalid_params(message, None));
            }
            Err(error) => match error.kind() {
                // If the client could not show a form, the server handles this form as cancelled by the user.
                ErrorKind::Client { .. } if request["method"] == "elicitation/create" => {
                    json!({"action": "cancel"})
                }
                // A run cannot store a client's error as an answer. So the question stays open, and the server can send
                // the question again.
                ErrorKind::Client { code, message } => {
                    return Err(ErrorData::new(ErrorCode(*code), message.clone(), None));
                }
                _ => return Err(to_error_data(&error)),
            },
        };
        let (tasks, owner) = (Arc::clone(self.tasks), owner.clone());
        // A separate Tokio task stores the answer. So the answer is stored even if the waiting request is dropped now.
        let taken = tokio::spawn(async move {
            let taken = tasks.answer(&owner, &task, &BTreeMap::from([(key, answer)])).await;
            // The claim ends only after the answer is stored. So no other request can send the question before the
            // answer is stored.
            drop(claim);
            taken
        });
        match taken.await {
            Ok(taken) => taken.map_err(|error| to_error_data(&error))?.ok_or_else(tasks_2026::unknown),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }
}
