//! The tasks that somebody has in hand, and who is told of them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use rmcp::model::{CallToolResult, Tool};
use serde_json::Value;

use super::info::TaskInfo;

/// What is known of a task. All handles of a connection for the same task share it, so that a
/// question is asked once, however many wait.
pub(crate) struct Task {
    pub(super) id: String,
    inputs: Mutex<BTreeMap<String, Input>>,
    said: Mutex<Said>,
    /// How it ended, once that is known. It cannot end otherwise.
    pub(super) result: OnceLock<CallToolResult>,
}

/// What a server once said, and the SDK loses when the server says it again: it reads a working task
/// of 2025-11-25 as one of 2026-07-28, whose fields have other names.
#[derive(Default)]
struct Said {
    ttl: Option<Duration>,
    poll_interval: Option<Duration>,
}

/// How far a question of a task has come.
#[derive(PartialEq, Eq)]
enum Input {
    /// Somebody is being asked.
    Asked,
    /// There is an answer, and the server may not have it yet.
    Kept(Value),
    /// The server has the answer. It is never given another.
    Given,
}

impl Task {
    fn new(id: &str) -> Self {
        Self { id: id.to_owned(), inputs: Mutex::default(), said: Mutex::default(), result: OnceLock::new() }
    }

    /// Completes `info` with what was said before.
    pub(super) fn complete(&self, mut info: TaskInfo) -> TaskInfo {
        let mut said = lock(&self.said);
        said.ttl = info.ttl.or(said.ttl);
        said.poll_interval = info.poll_interval.or(said.poll_interval);
        (info.ttl, info.poll_interval) = (said.ttl, said.poll_interval);
        info
    }

    /// Whether the server has the answer for `key`.
    pub(super) fn is_given(&self, key: &str) -> bool {
        lock(&self.inputs).get(key) == Some(&Input::Given)
    }

    /// Takes it on to answer `key`, unless somebody else did. If there was an answer already, it comes
    /// along.
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

/// A question that somebody has taken on. Dropped before the answer is given, it is anybody's again.
pub(super) struct Claim {
    task: Arc<Task>,
    pub(super) key: String,
    /// An answer there already was, for the server to have.
    pub(super) answer: Option<Value>,
}

impl Claim {
    /// Keeps the answer for whoever takes the question on next, should the server not get it now.
    pub(super) fn keep(mut self, answer: Value) -> Self {
        self.answer = Some(answer);
        self
    }

    /// The server does not want the answer.
    pub(super) fn forget(mut self) {
        self.answer = None;
    }

    /// The server has the answer.
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

/// Whether a tool of 2025-11-25 can be a task.
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
    /// The task with this id: the same for all who have it in hand.
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

    /// Tells `listener` what the server tells of a task, until the guard is dropped.
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
        // Not under the lock: a listener may well listen to something else.
        for listener in listeners {
            listener(info);
        }
    }

    /// Remembers which tools can be tasks.
    pub(crate) fn learn(&self, tools: &[Tool]) {
        let tools = tools.iter().map(|tool| (tool.name.to_string(), Support::of(tool))).collect();
        lock(&self.inner).tools = tools;
    }

    /// Forgets it: the tools have changed.
    pub(crate) fn unlearn(&self) {
        lock(&self.inner).tools.clear();
    }

    pub(super) fn support(&self, tool: &str) -> Option<Support> {
        lock(&self.inner).tools.get(tool).copied()
    }
}

/// Hears of a task. Dropped, it ends.
#[must_use = "nothing is heard any more when this is dropped"]
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
