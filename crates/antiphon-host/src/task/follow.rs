//! Follows a task until the task has ended: polls the task, and answers its questions.

use std::{sync::Arc, time::Duration};

use rmcp::{ErrorData, model::CallToolResult};
use serde_json::{Map, Value, json};

use super::{
    INVALID_PARAMS, id_of,
    info::{TaskInfo, TaskStatus, unwrapped, unwrapped_result},
    inputs::{Asked, Inputs},
    known::{Claim, Task},
    pace::{INTERNAL_ERROR, Losses, Pace, is_passing},
    read,
};
use crate::{
    connection::{Connection, Options, parse},
    error::{Error, Result},
};

/// An operation that polls one task and answers its questions, until the task has ended.
pub(super) struct Follow<'a> {
    connection: &'a Connection,
    task: &'a Arc<Task>,
    timeout: Option<Duration>,
    losses: Losses,
    /// The number of errors that the server returned for `tasks/result` while the task was running.
    refused: Losses,
}

/// The state of a task at one poll.
pub(super) struct Seen {
    pub(super) info: TaskInfo,
    /// The complete response of the server. On MCP 2026-07-28, the response also contains the questions and the result.
    detail: Value,
    modern: bool,
}

impl<'a> Follow<'a> {
    pub(super) fn new(connection: &'a Connection, task: &'a Arc<Task>, timeout: Option<Duration>) -> Self {
        let losses = || Losses::new(connection.limits());
        Self { connection, task, timeout, losses: losses(), refused: losses() }
    }

    /// Polls the task, and retries if the connection was lost.
    pub(super) async fn look(&mut self) -> Result<Seen> {
        let (detail, modern) = match self.say_again("get", id_of(self.task)).await {
            Err(Error::Server { code: INVALID_PARAMS, .. }) => {
                return Err(Error::TaskUnknown { id: self.task.id.clone() });
            }
            answered => answered?,
        };
        let info = self.task.complete(read("tasks/get", &detail)?);
        #[cfg(feature = "proxy")]
        if self.connection.answering().forward.is_some() {
            // A proxy reports this state to its caller as progress.
            self.connection.answering().events.tell(crate::event::Event::Task(info.clone()));
        }
        Ok(Seen { info, detail, modern })
    }

    /// Waits for the result of the task, within the limits of the host.
    pub(super) async fn finish(mut self) -> Result<CallToolResult> {
        if let Some(result) = self.task.result.get() {
            return Ok(result.clone());
        }
        let task = self.task;
        let result = match self.connection.limits().task_patience {
            Some(patience) => tokio::time::timeout(patience, self.drive())
                .await
                .map_err(|_| Error::TaskUnfinished { id: task.id.clone(), after: patience })??,
            None => self.drive().await?,
        };
        Ok(task.result.get_or_init(|| result).clone())
    }

    async fn drive(&mut self) -> Result<CallToolResult> {
        let (connection, task) = (self.connection, self.task);
        let limits = connection.limits();
        let mut pace = Pace::new(connection.answering().events.tasks(), &task.id, limits);
        let mut inputs = Inputs::new(connection.answering(), task, limits.concurrent_asks);
        let mut stuck = 0;
        loop {
            let seen = self.look().await?;
            match seen.info.status {
                TaskStatus::Cancelled => return Err(Error::TaskCancelled { id: task.id.clone() }),
                TaskStatus::Completed if seen.modern => {
                    return parse("tasks/get", field(&seen.detail, "result"));
                }
                TaskStatus::Failed if seen.modern => return Err(failure(&seen)),
                TaskStatus::InputRequired if seen.modern => {
                    let requests = requests_in(&seen.detail);
                    let keys: Vec<String> = requests.keys().cloned().collect();
                    match inputs.ask(requests) {
                        Asked::New | Asked::Pending => stuck = 0,
                        Asked::OnlyGiven => stuck += 1,
                    }
                    if stuck > limits.stuck_polls {
                        return Err(Error::TaskStuck { id: task.id.clone(), keys });
                    }
                }
                // On 2025-11-25, `tasks/result` delivers the questions and the result of a task.
                TaskStatus::InputRequired | TaskStatus::Completed | TaskStatus::Failed => {
                    if let Some(result) = self.result().await? {
                        return Ok(result);
                    }
                }
                TaskStatus::Working if seen.modern => {
                    inputs.ask(Map::new());
                }
                TaskStatus::Working => {}
            }
            tokio::select! {
                (claim, answer) = inputs.next() => self.give(claim, answer).await?,
                () = pace.rest(&seen.info) => {}
            }
        }
    }

    /// Polls a 2026-07-28 task until the task has ended or asks a new question. A question is new if its key is not in
    /// `given`. Calls `tell` with each state of the task.
    #[cfg(feature = "proxy")]
    pub(super) async fn stage(
        &mut self,
        given: &[String],
        tell: impl Fn(&TaskInfo) + Send,
    ) -> Result<super::Stage> {
        let (connection, task) = (self.connection, self.task);
        let mut pace = Pace::new(connection.answering().events.tasks(), &task.id, connection.limits());
        loop {
            let seen = self.look().await?;
            tell(&seen.info);
            match seen.info.status {
                TaskStatus::Cancelled => return Err(Error::TaskCancelled { id: task.id.clone() }),
                TaskStatus::Completed => return Ok(super::Stage::Done(field(&seen.detail, "result"))),
                TaskStatus::Failed => return Err(failure(&seen)),
                TaskStatus::InputRequired => {
                    let mut requests = requests_in(&seen.detail);
                    requests.retain(|key, _| !given.contains(key));
                    if !requests.is_empty() {
                        return Ok(super::Stage::Asks(requests));
                    }
                }
                TaskStatus::Working => {}
            }
            pace.rest(&seen.info).await;
        }
    }

    /// Sends answers to the questions of an MCP 2026-07-28 task. If the task has already ended, the answers have no
    /// effect.
    #[cfg(feature = "proxy")]
    pub(super) async fn update(&mut self, answers: Map<String, Value>) -> Result<()> {
        let params = json!({"taskId": self.task.id, "inputResponses": answers});
        match self.say_again("update", params).await {
            Ok(_) | Err(Error::Server { code: INVALID_PARAMS, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for the response to `tasks/result`. During a `tasks/result` request, the server asks the questions of the
    /// task. Returns `None` if the connection was lost, so that the caller polls the task again.
    async fn result(&mut self) -> Result<Option<CallToolResult>> {
        // Users answer questions during this request, so it has no timeout.
        let options = Options { patient: true, ..Options::default() };
        match self.connection.send("antiphon/tasks/result", id_of(self.task), &options).await {
            Ok(result) => parse("tasks/result", unwrapped_result(result)).map(Some),
            Err(Error::Lost { .. }) => Ok(None),
            // The specification does not define the response for a cancelled task. In addition, the error of the call
            // can be the same as the error for an unknown task.
            Err(error @ Error::Server { .. }) => match self.look().await?.info.status {
                TaskStatus::Cancelled => Err(Error::TaskCancelled { id: self.task.id.clone() }),
                // The task is still running, so this error is not its result.
                TaskStatus::Working | TaskStatus::InputRequired => {
                    self.refused.bear(error).await.map(|()| None)
                }
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Sends an answer to the server. The answer can be sent twice, because the server accepts only the first copy.
    async fn give(&mut self, claim: Claim, answer: Result<Value, ErrorData>) -> Result<()> {
        // The answers of a task cannot contain errors, so an error ends the wait.
        let answer = answer.map_err(|error| Error::Server {
            code: error.code.0,
            message: error.message.into_owned(),
            data: error.data,
        })?;
        let mut responses = Map::new();
        responses.insert(claim.key.clone(), answer.clone());
        let params = json!({"taskId": self.task.id, "inputResponses": responses});
        // Keep the answer until the server has received it, so that a lost connection does not repeat the question.
        let unsaid = claim.keep(answer);
        match self.say_again("update", params).await {
            Ok(_) => unsaid.given(),
            Err(error @ Error::Server { code: INVALID_PARAMS, .. }) => {
                unsaid.forget();
                // The task may have ended while the user answered.
                if !self.look().await?.info.status.is_finished() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) async fn cancel(mut self) -> Result<TaskInfo> {
        match self.say_again("cancel", id_of(self.task)).await {
            // A 2025-11-25 server returns the state of the task.
            Ok((value, false)) if TaskInfo::read(&value).is_some() => {
                Ok(self.task.complete(read("tasks/cancel", &value)?))
            }
            // A 2026-07-28 server returns no state, so poll the task. A 2025-11-25 server returns the same error for a
            // task that has ended and for an unknown task.
            Ok(_) | Err(Error::Server { code: INVALID_PARAMS, .. }) => Ok(self.look().await?.info),
            Err(error) => Err(error),
        }
    }

    /// Sends an idempotent request, in the format of the protocol revision, until the server responds.
    async fn say_again(&mut self, verb: &str, params: Value) -> Result<(Value, bool)> {
        let options = Options { timeout: self.timeout, ..Options::default() };
        loop {
            let modern = self.connection.speaks_modern().await?;
            let method = if modern { format!("tasks/{verb}") } else { format!("antiphon/tasks/{verb}") };
            match self.connection.send(&method, params.clone(), &options).await {
                Err(error) if is_passing(&error) => self.losses.bear(error).await?,
                answered => {
                    self.losses.over();
                    return answered.map(|value| (value, modern));
                }
            }
        }
    }
}

/// Returns the questions of a task.
fn requests_in(detail: &Value) -> Map<String, Value> {
    match field(detail, "inputRequests") {
        Value::Object(requests) => requests,
        _ => Map::new(),
    }
}

/// Returns a field of a task. The task can be wrapped in an object with the member `task`.
fn field(detail: &Value, name: &str) -> Value {
    unwrapped(detail).get(name).cloned().unwrap_or_default()
}

/// Returns the error of a failed task on MCP 2026-07-28.
fn failure(seen: &Seen) -> Error {
    let error = &unwrapped(&seen.detail)["error"];
    let message = error["message"].as_str().or(seen.info.message.as_deref()).unwrap_or("the task failed");
    Error::Server {
        code: error["code"].as_i64().and_then(|code| code.try_into().ok()).unwrap_or(INTERNAL_ERROR),
        message: message.to_owned(),
        data: error.get("data").filter(|data| !data.is_null()).cloned(),
    }
}
