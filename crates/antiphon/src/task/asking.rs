//! The task questions that this process is currently sending to clients.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use super::Tasks;

/// The task questions that this process is currently sending to clients. The ID of a task and a question key identify
/// each question.
///
/// Every request that waits for a task's result can send the task's questions. Several requests can wait for the same
/// task, but only one request shows a form. If a second request must send a question, the second request notifies the
/// first request. The first request then checks whether the client still responds.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    claimed: Mutex<HashMap<(String, String), Arc<Notify>>>,
    released: Notify,
}

impl Asking {
    fn claimed(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Notify>>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when another request releases a claim. Claims that were released before this call have no effect.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }
}

/// The exclusive right to send a question. Dropping this value releases the right.
#[derive(Debug)]
pub(crate) struct Claim {
    tasks: Arc<Tasks>,
    question: (String, String),
}

impl Claim {
    /// Claims a question. If another request has already claimed the question, this function returns `None` and
    /// notifies that request through the `wanted` handle of that request.
    pub(crate) fn of(tasks: &Arc<Tasks>, task: &str, key: &str, wanted: &Arc<Notify>) -> Option<Self> {
        let question = (task.to_owned(), key.to_owned());
        let mut claimed = tasks.asking.claimed();
        if let Some(asker) = claimed.get(&question) {
            asker.notify_one();
            return None;
        }
        claimed.insert(question.clone(), Arc::clone(wanted));
        Some(Self { tasks: Arc::clone(tasks), question })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.tasks.asking.claimed().remove(&self.question);
        self.tasks.asking.released.notify_waiters();
    }
}
