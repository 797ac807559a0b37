//! Which questions of tasks a client is being asked at this moment.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, futures::Notified};

use crate::task::Tasks;

/// The questions that clients of this process have before them, by task and key.
///
/// Whoever waits for a task asks what it asks, and several may wait for one: a form is shown once all the same.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    claimed: Mutex<HashSet<(String, String)>>,
    released: Notify,
}

impl Asking {
    fn claimed(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when somebody lets go of a question after this was called.
    pub(super) fn released(&self) -> Notified<'_> {
        self.released.notified()
    }
}

/// The right to ask a question, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    tasks: Arc<Tasks>,
    question: (String, String),
}

impl Claim {
    /// `None`: somebody else is asking.
    pub(super) fn of(tasks: &Arc<Tasks>, task: &str, key: &str) -> Option<Self> {
        let question = (task.to_owned(), key.to_owned());
        let claims = tasks.asking.claimed().insert(question.clone());
        claims.then(|| Self { tasks: Arc::clone(tasks), question })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.tasks.asking.claimed().remove(&self.question);
        self.tasks.asking.released.notify_waiters();
    }
}
