//! The questions of tasks that clients of this process are answering.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use super::Tasks;

/// The open questions at clients of this process, by task and key.
///
/// Every request that waits for a task's result asks the task's questions. Several requests can wait for the
/// same task, but only one of them shows a form. If another request also wants to ask, it notifies the first
/// one, which must then check that its client still responds.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    claimed: Mutex<HashMap<(String, String), Arc<Notify>>>,
    released: Notify,
}

impl Asking {
    fn claimed(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Notify>>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a claim is released after this call.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }
}

/// The right to ask a question, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    tasks: Arc<Tasks>,
    question: (String, String),
}

impl Claim {
    /// Claims a question. Returns `None` if another request is asking it, and notifies that request through
    /// its `wanted`.
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
