//! Events that a server sends in addition to its responses.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    frame::Taps,
    stray::Strays,
    task::{TaskInfo, Tasks},
};

/// One round of a call: a request and the response of the server. On MCP 2026-07-28 a tool returns its questions in
/// the response, and the host calls the tool again with the answers. In a session (MCP 2025-11-25), a call has only
/// one round, and the server sends its questions during this round.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Round {
    /// The number of the round, from 1.
    pub number: u32,
    /// The keys of the questions that the server asked in this round. In the last round of a call, the list of question
    /// keys is empty.
    pub asks: Vec<String>,
    /// The actions of the run in this round, as JSON from `_meta["antiphon/trace"]`. An Antiphon server sends the
    /// actions of a run if the server is built with `ServerBuilder::with_traces`.
    pub trace: Option<Value>,
}

/// The `_meta` key for the trace of a run.
const TRACE_META: &str = "antiphon/trace";

pub(crate) fn trace_in(result: &Value) -> Option<Value> {
    result.get("_meta")?.get(TRACE_META).cloned()
}

/// An event: a notification that the server sent outside of its responses, or a reconnect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server sent a log message.
    Log {
        /// The severity of the message, from `debug` to `emergency`.
        level: String,
        /// The name of the logger on the server.
        logger: Option<String>,
        /// The content of the log message: a text or any JSON value.
        data: Value,
    },
    /// The server reported the progress of a call that has no [progress listener](crate::Call::progress).
    Progress(Progress),
    /// The server's list of tools has changed.
    ToolsChanged,
    /// The server's list of prompts has changed.
    PromptsChanged,
    /// The server's list of resources has changed.
    ResourcesChanged,
    /// A resource to which the host has subscribed has changed.
    ResourceUpdated {
        /// The URI of the resource.
        uri: String,
    },
    /// The user has finished the visit to a web page that the server asked the user to open.
    PageComplete {
        /// The elicitation ID, with which the server and the host identify the visit to the page.
        elicitation_id: String,
    },
    /// The server sent a notification that a task has changed.
    Task(TaskInfo),
    /// The connection was lost, and the host has connected again.
    Reconnected,
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The current value of the progress.
    pub progress: f64,
    /// The value at which the call is complete, if the server sent this value.
    pub total: Option<f64>,
    /// The text that describes the progress to the user.
    pub message: Option<String>,
}

type Listener = Arc<dyn Fn(Event) + Send + Sync>;
type ProgressListener = Arc<dyn Fn(Progress) + Send + Sync>;
type UpdateListener = Arc<dyn Fn(&str) + Send + Sync>;

/// The functions that receive the events of a connection.
#[derive(Clone, Default)]
pub(crate) struct Events {
    listener: Option<Listener>,
    calls: Arc<Mutex<Calls>>,
    resources: Arc<Mutex<BTreeMap<String, UpdateListener>>>,
    tasks: Tasks,
    lost: Arc<Notify>,
    strays: Strays,
    taps: Taps,
}

#[derive(Default)]
struct Calls {
    listening: BTreeMap<String, ProgressListener>,
    /// Progress events that arrived before their call was registered. A call can be registered only after its request
    /// was sent, because the progress token is created when the request is sent.
    early: Vec<(String, Progress)>,
}

/// The maximum number of stored progress events of calls that are not registered yet.
const EARLY: usize = 64;

impl Events {
    pub(crate) fn new(listener: Option<Listener>, strays: Strays, taps: Taps) -> Self {
        Self { listener, strays, taps, ..Self::default() }
    }

    /// Returns a copy with the listeners of this `Events`, but without its calls, resources and tasks.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.listener.clone(), self.strays.fresh(), self.taps.clone())
    }

    /// Returns whether a listener is set.
    pub(crate) fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    pub(crate) fn strays(&self) -> &Strays {
        &self.strays
    }

    pub(crate) fn taps(&self) -> &Taps {
        &self.taps
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Ends the open questions of a lost connection, because the answers to these questions cannot be sent.
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

    /// Calls `listener` with the progress of the call with this token, until the guard is dropped.
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

/// The registration of a progress listener. Dropping a `Listening` ends the registration.
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
