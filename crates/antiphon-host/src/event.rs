//! What a server tells beside its answers.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::sync::Notify;

use crate::task::{TaskInfo, Tasks};

/// A server's answer to one round of a call: on 2026-07-28 a tool asks by answering, and is called again with what it
/// asked for. In a session there is one round, and what is asked is asked within it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Round {
    /// Its number, from 1.
    pub number: u32,
    /// The keys of what it asks for; none if it is the last.
    pub asks: Vec<String>,
    /// What the tool's run did in it, if the server tells (Antiphon's do if they are built with
    /// `ServerBuilder::with_traces`): `_meta["antiphon/trace"]`, as it came.
    pub trace: Option<Value>,
}

/// Where a server says what a run did.
const TRACE_META: &str = "antiphon/trace";

pub(crate) fn trace_in(result: &Value) -> Option<Value> {
    result.get("_meta")?.get(TRACE_META).cloned()
}

/// Something a server has told.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A line of its log.
    Log {
        /// How bad it is: `debug` to `emergency`.
        level: String,
        /// Who says so.
        logger: Option<String>,
        /// What.
        data: Value,
    },
    /// How far a call has come that nobody listens to by itself.
    Progress(Progress),
    /// Its tools have changed.
    ToolsChanged,
    /// Its prompts have changed.
    PromptsChanged,
    /// Its resources have changed.
    ResourcesChanged,
    /// A resource that was subscribed to has changed.
    ResourceUpdated {
        /// Which.
        uri: String,
    },
    /// A visit to a page is over.
    PageComplete {
        /// Its id.
        elicitation_id: String,
    },
    /// A task has changed, and the server told of it by itself.
    Task(TaskInfo),
    /// The connection was lost and made again.
    Reconnected,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

type Listener = Arc<dyn Fn(Event) + Send + Sync>;
type ProgressListener = Arc<dyn Fn(Progress) + Send + Sync>;
type UpdateListener = Arc<dyn Fn(&str) + Send + Sync>;

/// Who is told what.
#[derive(Clone, Default)]
pub(crate) struct Events {
    listener: Option<Listener>,
    calls: Arc<Mutex<Calls>>,
    resources: Arc<Mutex<BTreeMap<String, UpdateListener>>>,
    tasks: Tasks,
    lost: Arc<Notify>,
}

#[derive(Default)]
struct Calls {
    listening: BTreeMap<String, ProgressListener>,
    /// Progress that came before its call was known: a token is only drawn when the request is sent.
    early: Vec<(String, Progress)>,
}

/// More than this is not kept of progress that nobody listens to.
const EARLY: usize = 64;

impl Events {
    pub(crate) fn new(listener: Option<Listener>) -> Self {
        Self { listener, ..Self::default() }
    }

    /// The same listener, and nobody else's calls, resources and tasks.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.listener.clone())
    }

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    /// The connection's tasks, and who is told of them.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The connection has ended: what the server asked over it has nobody to be answered to.
    pub(crate) fn lose(&self) {
        self.lost.notify_waiters();
    }

    /// Waits until the connection has ended.
    pub(crate) async fn lost(&self) {
        self.lost.notified().await;
    }

    pub(crate) fn task(&self, info: TaskInfo) {
        self.tasks.tell(&info);
        self.tell(Event::Task(info));
    }

    pub(crate) fn tell(&self, event: Event) {
        if matches!(event, Event::ToolsChanged | Event::Reconnected) {
            self.tasks.unlearn();
        }
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    pub(crate) fn progress(&self, token: &str, progress: Progress) {
        let listener = {
            let mut calls = lock(&self.calls);
            let listener = calls.listening.get(token).cloned();
            if listener.is_none() && calls.early.len() < EARLY {
                calls.early.push((token.to_owned(), progress.clone()));
            }
            listener
        };
        if let Some(listener) = listener {
            listener(progress);
        }
    }

    /// Tells `listener` how the call with this token comes along, until the guard is dropped.
    pub(crate) fn listen(&self, token: String, listener: &ProgressListener) -> Listening {
        let early: Vec<Progress> = {
            let mut calls = lock(&self.calls);
            calls.listening.insert(token.clone(), Arc::clone(listener));
            let mut early = Vec::new();
            calls.early.retain(|(before, progress)| {
                let ours = *before == token;
                if ours {
                    early.push(progress.clone());
                }
                !ours
            });
            early
        };
        for progress in early {
            listener(progress);
        }
        Listening { calls: Arc::clone(&self.calls), token }
    }

    pub(crate) fn watch(&self, uri: &str, listener: UpdateListener) {
        lock(&self.resources).insert(uri.to_owned(), listener);
    }

    pub(crate) fn unwatch(&self, uri: &str) {
        lock(&self.resources).remove(uri);
    }

    pub(crate) fn watched(&self) -> Vec<String> {
        lock(&self.resources).keys().cloned().collect()
    }

    pub(crate) fn updated(&self, uri: &str) {
        let listener = lock(&self.resources).get(uri).cloned();
        if let Some(listener) = listener {
            listener(uri);
            self.tell(Event::ResourceUpdated { uri: uri.to_owned() });
        }
    }
}

/// Ends the listening when it is dropped.
pub(crate) struct Listening {
    calls: Arc<Mutex<Calls>>,
    token: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.calls).listening.remove(&self.token);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
