//! The tasks of a connection that have handles or listeners.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use rmcp::model::{CallToolResult, Tool};
use serde_json::Value;

use super::info::TaskInfo;

/// The state of a task. All handles of a connection for one task share the state of the task. So a question of a task
/// is asked only once, even if several handles wait.
pub(crate) struct Task {
    pub(super) id: String,
    inputs: Mutex<BTreeMap<String, Input>>,
    said: Mutex<Said>,
    /// The result of the task, after the task has ended. A stored result does not change.
    pub(super) result: OnceLock<CallToolResult>,
}

/// Values from earlier responses of the server. In later responses, the SDK discards the values that `Said` stores. The
/// SDK parses a working 2025-11-25 task as a 2026-07-28 task. The fields of these two kinds of tasks have different
/// names.
#[derive(Default)]
struct Said {
    ttl: Option<Duration>,
    poll_interval: Option<Duration>,
}

/// The state of a question.
#[derive(PartialEq, Eq)]
enum Input {
    /// The question was asked and has no answer yet.
    Asked,
    /// The question has an answer, but the server has possibly not received the answer.
    Kept(Value),
    /// The server has received the answer. No other answer to the question is sent.
    Given,
}

impl Task {
    fn new(id: &str) -> Self {
        Self { id: id.to_owned(), inputs: Mutex::default(), said: Mutex::default(), result: OnceLock::new() }
    }

    /// Fills in missing values of `info` from earlier responses.
    pub(super) fn complete(&self, mut info: TaskInfo) -> TaskInfo {
        let mut said = lock(&self.said);
        said.ttl = info.ttl.or(said.ttl);
        said.poll_interval = info.poll_interval.or(said.poll_interval);
        (info.ttl, info.poll_interval) = (said.ttl, said.poll_interval);
        info
    }

    /// Returns whether the server has received the answer for `key`.
    pub(super) fn is_given(&self, key: &str) -> bool {
        lock(&self.inputs).get(key) == Some(&Input::Given)
    }

    /// Claims the question `key`, unless the question is already claimed or answered. If an answer exists, the claim
    /// contains the answer.
    pub(super) fn claim(self: &Arc<Self>, key: &str) -> Option<Claim> {
        let mut inputs = lock(&self.inputs);
        let answer = match inputs.get_mut(key) {
            None => None,
            Some(Input::Kept(answer)) => Some(answer.take()),
            Some(Input::Asked | Input::Given) => return None,
        };
        inputs.insert(key.to_owned(), Input::Asked);
        Some(Claim { task: Arc::clone(self), key: key.to_owned(), answer })
    }
}

/// A question that one handle has claimed. If the claim is dropped before the answer is sent, another handle can claim
/// the question.
pub(super) struct Claim {
    task: Arc<Task>,
    pub(super) key: String,
    /// An existing answer that the server has not received.
    pub(super) answer: Option<Value>,
}

impl Claim {
    /// Keeps the answer for the next claim, in case the server does not receive the answer now.
    pub(super) fn keep(mut self, answer: Value) -> Self {
        self.answer = Some(answer);
        self
    }

    /// Discards the answer, because the server rejected the answer.
    pub(super) fn forget(mut self) {
        self.answer = None;
    }

    /// Records that the server has received the answer.
    pub(super) fn given(self) {
        lock(&self.task.inputs).insert(self.key.clone(), Input::Given);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut inputs = lock(&self.task.inputs);
        if inputs.get(&self.key) == Some(&Input::Asked) {
            match self.answer.take() {
                Some(answer) => inputs.insert(std::mem::take(&mut self.key), Input::Kept(answer)),
                None => inputs.remove(&self.key),
            };
        }
    }
}

/// Whether a 2025-11-25 tool can run as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Support {
    #[default]
    Forbidden,
    Optional,
    Required,
}

impl Support {
    fn of(tool: &Tool) -> Self {
        let execution = tool.meta.as_ref().and_then(|meta| meta.get("antiphon/execution"));
        match execution.and_then(|execution| execution["taskSupport"].as_str()) {
            Some("optional") => Self::Optional,
            Some("required") => Self::Required,
            _ => Self::Forbidden,
        }
    }
}

type Listener = Arc<dyn Fn(&TaskInfo) + Send + Sync>;

/// The tasks of a connection.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    known: BTreeMap<String, Weak<Task>>,
    listening: BTreeMap<String, Vec<(u64, Listener)>>,
    listeners: u64,
    tools: BTreeMap<String, Support>,
}

impl Tasks {
    /// Returns the state of the task with the ID `id`. All handles of the task share the returned state.
    pub(super) fn pick_up(&self, id: &str) -> Arc<Task> {
        let mut inner = lock(&self.inner);
        if let Some(task) = inner.known.get(id).and_then(Weak::upgrade) {
            return task;
        }
        inner.known.retain(|_, task| task.strong_count() > 0);
        let task = Arc::new(Task::new(id));
        inner.known.insert(id.to_owned(), Arc::downgrade(&task));
        task
    }

    /// Calls `listener` with the notifications about a task, until the guard is dropped.
    pub(super) fn listen(&self, id: &str, listener: Listener) -> TaskListening {
        let mut inner = lock(&self.inner);
        inner.listeners += 1;
        let number = inner.listeners;
        inner.listening.entry(id.to_owned()).or_default().push((number, listener));
        TaskListening { tasks: self.clone(), id: id.to_owned(), number }
    }

    pub(crate) fn tell(&self, info: &TaskInfo) {
        let (task, listeners) = {
            let inner = lock(&self.inner);
            let listeners: Vec<Listener> = inner
                .listening
                .get(&info.id)
                .map(|all| all.iter().map(|(_, listener)| Arc::clone(listener)).collect())
                .unwrap_or_default();
            (inner.known.get(&info.id).and_then(Weak::upgrade), listeners)
        };
        if let Some(task) = task {
            task.complete(info.clone());
        }
        // Call the listeners without the lock, because a listener can register another listener.
        for listener in listeners {
            listener(info);
        }
    }

    /// Stores which tools can run as tasks.
    pub(crate) fn learn(&self, tools: &[Tool]) {
        let tools = tools.iter().map(|tool| (tool.name.to_string(), Support::of(tool))).collect();
        lock(&self.inner).tools = tools;
    }

    /// Clears the information from [`learn`](Self::learn) after the tools have changed.
    pub(crate) fn unlearn(&self) {
        lock(&self.inner).tools.clear();
    }

    pub(super) fn support(&self, tool: &str) -> Option<Support> {
        lock(&self.inner).tools.get(tool).copied()
    }
}

/// The registration of a listener for a task. Dropping a `TaskListening` removes the listener.
#[must_use = "the listener is removed when this guard is dropped"]
pub struct TaskListening {
    tasks: Tasks,
    id: String,
    number: u64,
}

impl Drop for TaskListening {
    fn drop(&mut self) {
        let mut inner = lock(&self.tasks.inner);
        if let Some(listeners) = inner.listening.get_mut(&self.id) {
            listeners.retain(|(number, _)| *number != self.number);
            if listeners.is_empty() {
                inner.listening.remove(&self.id);
            }
        }
    }
}

impl fmt::Debug for TaskListening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskListening").field("id", &self.id).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
