//! Tasks: calls that outlive their connection, in both revisions.
//!
//! 2025-11-25 and 2026-07-28 know tasks by the same names and little else. Here is the one way to use
//! them: [`begin`] has how they are made, [`follow`] how they are driven to their end.

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

/// What servers say to a task they do not know, and to a cancellation that comes too late.
pub(crate) const INVALID_PARAMS: i32 = -32602;

/// A task, in hand. Cloning it clones the handle.
///
/// A task lives at its server, and goes on when the handle is dropped or the connection is lost. Its
/// id is all that is needed to pick it up again, from another process too.
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
    /// How long each look may take.
    timeout: Option<Duration>,
    /// Hears of the call's progress as long as there is a handle.
    _listening: Option<Arc<Listening>>,
}

#[derive(Clone)]
enum Held {
    Task(Arc<Task>),
    /// The server answered at once.
    Result(Arc<CallToolResult>),
}

impl TaskHandle {
    fn new(connection: &Connection, held: Held) -> Self {
        Self { connection: connection.clone(), held, timeout: None, _listening: None }
    }

    /// The task's id, to be kept by whoever may have to pick it up again. None if the server answered
    /// the call at once: then there is no task, and [`wait`](Self::wait) has the result.
    pub fn id(&self) -> Option<&str> {
        match &self.held {
            Held::Task(task) => Some(&task.id),
            Held::Result(_) => None,
        }
    }

    /// How far it has come.
    ///
    /// # Errors
    ///
    /// [`Error::TaskUnknown`] if the server has no such task, or none any more.
    pub async fn status(&self) -> Result<TaskInfo> {
        match &self.held {
            Held::Task(task) => self.follow(task).look().await.map(|seen| seen.info),
            Held::Result(_) => Ok(TaskInfo::finished()),
        }
    }

    /// Waits for the result, and answers what the task asks on the way with what the host was given.
    ///
    /// It looks at the task as often as the server suggests, and sooner when the server tells of it.
    /// Lost connections are made again. Each question is asked once, however many wait, and an answer
    /// that was given is not given again.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the task alone. A question that somebody was just asked is asked again by
    /// the next to wait.
    ///
    /// # Errors
    ///
    /// - [`Error::Server`] if the task failed, or asks for what this host does not answer.
    /// - [`Error::TaskCancelled`], [`Error::TaskUnknown`].
    /// - [`Error::TaskUnfinished`], [`Error::TaskStuck`]: the task goes on, and
    ///   can be waited for again.
    pub async fn wait(&self) -> Result<CallToolResult> {
        match &self.held {
            // A task's whole story is in there; whoever waits for it need not carry that around.
            Held::Task(task) => Box::pin(self.follow(task).finish()).await,
            Held::Result(result) => Ok((**result).clone()),
        }
    }

    /// Asks the server to end it, and says how far it is then.
    ///
    /// A task that had ended stays as it ended: look at the status. On 2026-07-28 it may still be
    /// under way, and even complete: the server is only told that nobody wants it any more.
    pub async fn cancel(&self) -> Result<TaskInfo> {
        match &self.held {
            Held::Task(task) => self.follow(task).cancel().await,
            Held::Result(_) => Ok(TaskInfo::finished()),
        }
    }

    /// How it comes along: first how it is now, then every change, until it is finished or an error
    /// ends it. Answers nothing; that is what [`wait`](Self::wait) does, at the same time if you like.
    ///
    /// Changes that come close together may be told as one.
    pub fn updates(&self) -> impl Stream<Item = Result<TaskInfo>> + Send + use<> {
        updates::updates(self.clone())
    }

    fn follow<'a>(&'a self, task: &'a Arc<Task>) -> Follow<'a> {
        Follow::new(&self.connection, task, self.timeout)
    }
}

impl Connection {
    /// Picks up a task by its id: after a restart, in another process, over another connection.
    /// Whether the server knows it is not asked before the handle is used.
    pub fn task(&self, id: &str) -> TaskHandle {
        TaskHandle::new(self, Held::Task(self.answering().events.tasks().pick_up(id)))
    }

    /// This host's tasks at the server, all pages of them.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] on 2026-07-28, which has no such list: keep the ids.
    pub async fn tasks(&self) -> Result<Vec<TaskInfo>> {
        if self.speaks_modern().await? {
            return Err(Error::Misuse("2026-07-28 has no list of tasks; keep their ids".into()));
        }
        let tasks: Vec<Value> = self.list("antiphon/tasks/list", "tasks").await?;
        tasks.iter().map(|task| read("tasks/list", task)).collect()
    }

    /// Tells `listener` what the server tells of a task by itself, until the guard is dropped. No
    /// server has to; [`TaskHandle::updates`] looks as well.
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

/// The beginning of a value, for an error.
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
