//! Tasks: calls that outlive their connection, on both revisions.
//!
//! The tasks of 2025-11-25 and of 2026-07-28 have the same name, but different protocols. This module has one API for
//! both: [`begin`] creates tasks, and [`follow`] drives them to their end.

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
};

/// The error code of a server for an unknown task, and for a cancellation that is too late.
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// A handle to a task. A clone is a handle to the same task.
///
/// A task runs at its server, and continues if the handle is dropped or the connection is lost. The ID is enough to
/// get another handle, also in another process.
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

    /// Returns the ID of the task. Store it if you need another handle later. Returns `None` if the server returned
    /// the result without a task. Then [`wait`](Self::wait) returns it.
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
    /// Returns [`Error::TaskUnknown`] if the server does not have the task, or has deleted it.
    pub async fn status(&self) -> Result<TaskInfo> {
        match &self.held {
            Held::Task(task) => self.follow(task).look().await.map(|seen| seen.info),
            Held::Result(_) => Ok(TaskInfo::finished()),
        }
    }

    /// Waits for the result, and answers the questions of the task with the handlers of the host.
    ///
    /// It polls the task at the interval that the server suggests, and earlier after a notification. It reconnects
    /// after a lost connection. Each question is asked once, even if several handles wait. An answer that the server
    /// has received is not sent again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the task continues. The next call asks a question again that was open.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Server`] if the task failed, or asks for input that this host cannot provide.
    /// - Returns [`Error::TaskCancelled`] if the task was cancelled, and [`Error::TaskUnknown`] if it does not exist.
    /// - Returns [`Error::TaskUnfinished`] or [`Error::TaskStuck`] if a limit is reached. The task continues, and you
    ///   can wait for it again.
    pub async fn wait(&self) -> Result<CallToolResult> {
        match &self.held {
            // The future is large, so it is boxed. The future of the caller then stays small.
            Held::Task(task) => Box::pin(self.follow(task).finish()).await,
            Held::Result(result) => Ok((**result).clone()),
        }
    }

    /// Requests the cancellation of the task, and returns its state.
    ///
    /// A task that has already ended keeps its status. On 2026-07-28 the server receives only a request, so the task
    /// can still be running, and can even complete.
    pub async fn cancel(&self) -> Result<TaskInfo> {
        match &self.held {
            Held::Task(task) => self.follow(task).cancel().await,
            Held::Result(_) => Ok(TaskInfo::finished()),
        }
    }

    /// Returns a stream of the task's states: the current one, then every change, until the task has ended or an
    /// error occurs. It answers no questions. [`wait`](Self::wait) does, and can run at the same time.
    ///
    /// Changes that are close together can be returned as one.
    pub fn updates(&self) -> impl Stream<Item = Result<TaskInfo>> + Send + use<> {
        updates::updates(self.clone())
    }

    fn follow<'a>(&'a self, task: &'a Arc<Task>) -> Follow<'a> {
        Follow::new(&self.connection, task, self.timeout)
    }
}

impl Connection {
    /// Returns a handle to a task by its ID: after a restart, in another process, or over another connection. This
    /// sends no request. If the server does not have the task, the first use of the handle fails.
    pub fn task(&self, id: &str) -> TaskHandle {
        TaskHandle::new(self, Held::Task(self.answering().events.tasks().pick_up(id)))
    }

    /// Lists the tasks of this host at the server, from all pages.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Misuse`] on 2026-07-28, which has no such list. Store the IDs instead.
    pub async fn tasks(&self) -> Result<Vec<TaskInfo>> {
        if self.speaks_modern().await? {
            return Err(Error::Misuse("2026-07-28 has no list of tasks; keep their ids".into()));
        }
        let tasks: Vec<Value> = self.list("antiphon/tasks/list", "tasks").await?;
        tasks.iter().map(|task| read("tasks/list", task)).collect()
    }

    /// Calls `listener` with the notifications about a task, until the guard is dropped. Servers do not have to send
    /// any. [`TaskHandle::updates`] also polls.
    pub fn on_task(&self, id: &str, listener: impl Fn(&TaskInfo) + Send + Sync + 'static) -> TaskListening {
        self.answering().events.tasks().listen(id, Arc::new(listener))
    }
}

fn read(method: &str, value: &Value) -> Result<TaskInfo> {
    TaskInfo::read(value).ok_or_else(|| Error::Malformed {
        method: method.to_owned(),
        problem: format!("`{}` is no task", shortened(value)),
    })
}

/// Returns the start of a value, for an error message.
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
