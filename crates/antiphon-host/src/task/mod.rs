//! Tasks: calls that outlive their connection, on both revisions.
//!
//! The tasks of MCP 2025-11-25 and of MCP 2026-07-28 have the same name, but different protocols. The module `task`
//! provides one API for both protocols: [`begin`] creates tasks, and [`follow`] waits until a task has ended.

mod begin;
mod follow;
mod info;
mod inputs;
mod known;
mod pace;
mod updates;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::Stream;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

pub use self::{
    begin::TaskCall,
    info::{TaskInfo, TaskStatus},
    known::TaskListening,
};
pub(crate) use self::{begin::call, known::Tasks};
use self::{follow::Follow, known::Task};
use crate::{
    connection::Connection,
    error::{Error, Result},
    event::Listening,
    form::BoxFuture,
};

/// The error code that a server returns for an unknown task, and for a cancellation that is too late.
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// A handle to a task. A clone of a `TaskHandle` is a handle to the same task.
///
/// A task runs on its server. The task continues if you drop the handle or lose the connection. With the ID of the
/// task, you can get another handle to the task, even in another process.
///
/// ```no_run
/// use std::time::Duration;
///
/// # async fn example(server: antiphon_host::Connection) -> antiphon_host::Result<()> {
/// use serde_json::json;
///
/// let task = server.call("report", json!({"year": 2026})).as_task().ttl(Duration::from_secs(3600)).await?;
/// if let Some(id) = task.id() {
///     println!("kept as {id}");
/// }
/// let result = task.wait().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TaskHandle {
    connection: Connection,
    held: Held,
    /// The maximum time for each poll.
    timeout: Option<Duration>,
    /// The registration of the progress listener, which lives as long as the handle.
    _listening: Option<Arc<Listening>>,
}

#[derive(Clone)]
enum Held {
    Task(Arc<Task>),
    /// The server returned the result without a task.
    Result(Arc<CallToolResult>),
}

impl TaskHandle {
    fn new(connection: &Connection, held: Held) -> Self {
        Self { connection: connection.clone(), held, timeout: None, _listening: None }
    }

    /// Returns the ID of the task. Store the ID if you need another handle later. Returns `None` if the server returned
    /// the result without creating a task. If the server created no task, [`wait`](Self::wait) returns the result.
    pub fn id(&self) -> Option<&str> {
        match &self.held {
            Held::Task(task) => Some(&task.id),
            Held::Result(_) => None,
        }
    }

    /// Returns the current state of the task.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TaskUnknown`] if the server does not have the task, or has deleted the task.
    pub async fn status(&self) -> Result<TaskInfo> {
        match &self.held {
            Held::Task(task) => self.status_of(task).await,
            Held::Result(_) => Ok(TaskInfo::finished()),
        }
    }

    /// Waits for the result of the task. Until the task ends, the host answers the questions of the task with the
    /// host's handlers.
    ///
    /// The host polls the task at the interval that the server recommends, or earlier if the server sends a
    /// notification about the task. If the connection is lost, the host reconnects. Each question is asked only once,
    /// even if several handles wait for the task. After the server has received an answer, the host does not send
    /// this answer again.
    ///
    /// # Cancel safety
    ///
    /// If the future of `wait` is dropped, the task continues. If a question was open, the next call of `wait` asks the
    /// question again.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Server`] if the task failed, or asks for input that this host cannot provide.
    /// - Returns [`Error::TaskCancelled`] if the task was cancelled, and [`Error::TaskUnknown`] if the task does not
    ///   exist.
    /// - Returns [`Error::TaskUnfinished`] or [`Error::TaskStuck`] if a limit of the host is reached. The task
    ///   continues, and you can wait for the task again.
    pub async fn wait(&self) -> Result<CallToolResult> {
        match &self.held {
            Held::Task(task) => self.wait_for(task).await,
            Held::Result(result) => Ok((**result).clone()),
        }
    }

    /// Requests the cancellation of the task, and returns the state of the task.
    ///
    /// If the task has already ended, its status does not change. On MCP 2026-07-28 the server does not have to cancel
    /// the task immediately. So the task can still be running after `cancel` has returned, and can even complete.
    pub async fn cancel(&self) -> Result<TaskInfo> {
        match &self.held {
            Held::Task(task) => self.cancel_of(task).await,
            Held::Result(_) => Ok(TaskInfo::finished()),
        }
    }

    /// Returns a stream of the states of the task. The stream contains the current state, then every change, until the
    /// task has ended or an error occurs. The stream does not answer questions. [`wait`](Self::wait) answers the
    /// questions of the task, and can run at the same time as the stream.
    ///
    /// If several changes happen within a short time, the stream can return only the last state.
    pub fn updates(&self) -> impl Stream<Item = Result<TaskInfo>> + Send + use<> {
        updates::updates(self.clone())
    }

    // These methods are not `async`, so that programs with a host do not compile the futures again.
    fn status_of<'a>(&'a self, task: &'a Arc<Task>) -> BoxFuture<'a, Result<TaskInfo>> {
        Box::pin(async move { self.follow(task).look().await.map(|seen| seen.info) })
    }

    fn wait_for<'a>(&'a self, task: &'a Arc<Task>) -> BoxFuture<'a, Result<CallToolResult>> {
        Box::pin(self.follow(task).finish())
    }

    fn cancel_of<'a>(&'a self, task: &'a Arc<Task>) -> BoxFuture<'a, Result<TaskInfo>> {
        Box::pin(self.follow(task).cancel())
    }

    fn follow<'a>(&'a self, task: &'a Arc<Task>) -> Follow<'a> {
        Follow::new(&self.connection, task, self.timeout)
    }
}

/// The next questions or the result of a 2026-07-28 task. Callers of `Connection::stage` answer the questions of the
/// task themselves.
#[cfg(feature = "proxy")]
pub(crate) enum Stage {
    /// The task asks the questions in this value.
    Asks(serde_json::Map<String, Value>),
    /// The task has ended with the result in this value.
    Done(Value),
}

#[cfg(feature = "proxy")]
impl Connection {
    /// Sends `answers` to the 2026-07-28 task `id`, and waits for the next stage of the task. `given` contains the keys
    /// of all questions that were answered.
    pub(crate) async fn stage(
        &self,
        id: &str,
        answers: serde_json::Map<String, Value>,
        given: &[String],
        tell: impl Fn(&TaskInfo) + Send,
    ) -> Result<Stage> {
        let task = self.answering().events.tasks().pick_up(id);
        let mut follow = Follow::new(self, &task, None);
        if !answers.is_empty() {
            follow.update(answers).await?;
        }
        follow.stage(given, tell).await
    }
}

impl Connection {
    /// Returns a handle to the task with the ID `id`. Use `task` after a restart, in another process, or over another
    /// connection. `task` sends no request. If the server does not have the task, the first use of the handle fails.
    pub fn task(&self, id: &str) -> TaskHandle {
        TaskHandle::new(self, Held::Task(self.answering().events.tasks().pick_up(id)))
    }

    /// Lists all tasks of this host on the server. The host requests all pages of the list.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Misuse`] on MCP 2026-07-28, because MCP 2026-07-28 has no list of tasks. If you need your tasks
    /// later, store their IDs.
    pub async fn tasks(&self) -> Result<Vec<TaskInfo>> {
        if self.speaks_modern().await? {
            return Err(Error::Misuse(
                "protocol revision 2026-07-28 has no list of tasks; store the task IDs instead".into(),
            ));
        }
        let tasks: Vec<Value> = self.list("antiphon/tasks/list", "tasks").await?;
        tasks.iter().map(|task| read("tasks/list", task)).collect()
    }

    /// Calls `listener` for each notification about the task, until the returned value is dropped. MCP does not require
    /// a server to send notifications about tasks. [`TaskHandle::updates`] also polls the task.
    pub fn on_task(&self, id: &str, listener: impl Fn(&TaskInfo) + Send + Sync + 'static) -> TaskListening {
        self.answering().events.tasks().listen(id, Arc::new(listener))
    }
}

fn read(method: &str, value: &Value) -> Result<TaskInfo> {
    TaskInfo::read(value).ok_or_else(|| Error::Malformed {
        method: method.to_owned(),
        problem: format!("`{}` is not a task", shortened(value)),
    })
}

/// Returns the first characters of a JSON value, for an error message.
fn shortened(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

fn id_of(task: &Task) -> Value {
    json!({"taskId": task.id})
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id()).finish_non_exhaustive()
    }
}
