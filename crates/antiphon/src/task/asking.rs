//! The questions of tasks that clients of this process are currently asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use super::Tasks;

/// The questions that are currently sent to clients of this process, by task and by question key.
///
/// Every request that waits for a task's result can send the task's questions. Several requests can wait for the same
/// task, but only one of them shows a form. If a second request wants to send a question, it notifies the request that
/// already sends this question. The notified request must then check whether its client still responds.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    claimed: Mutex<HashMap<(String, String), Arc<Notify>>>,
    released: Notify,
}

impl Asking {
    fn claimed(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Notify>>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a claim is released after this call. Claims that were released earlier do not count.
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
    /// Claims a question. Returns `None` if another request has already claimed the question. In that case, this
    /// function notifies the request that holds the claim, through the `wanted` of that request.
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
