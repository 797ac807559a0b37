//! Which questions of tasks a client is being asked at this moment.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use super::Tasks;

/// The questions that clients of this process have before them, by task and key.
///
/// Whoever waits for a task asks what it asks, and several may wait for one: a form is shown once all the same.
/// Whoever asks is told when somebody else would, and has to make sure that its client is still there.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    claimed: Mutex<HashMap<(String, String), Arc<Notify>>>,
    released: Notify,
}

impl Asking {
    fn claimed(&self) -> MutexGuard<'_, HashMap<(String, String), Arc<Notify>>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when somebody lets go of a question after this was called.
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
    /// `None`: somebody else is asking, and is told through its `wanted` that this one would.
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
