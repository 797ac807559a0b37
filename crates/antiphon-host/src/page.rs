//! Pages the person is sent to: to sign in, to pay, to enter what must not pass through the host.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::form::BoxFuture;

/// The error code that says that pages have to be visited first.
pub(crate) const PAGES_REQUIRED: i32 = -32042;

/// A page to visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Page {
    /// Why.
    #[serde(default)]
    pub message: String,
    /// Where. Show it before it is opened, and open it only if the person agrees.
    pub url: String,
    /// What the server calls the visit when it tells that it is over; 2026-07-28 has no such id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

impl Page {
    pub(crate) fn read(params: &Value) -> Option<Self> {
        Self::deserialize(params).ok()
    }
}

/// Who opens pages. Says whether the person agreed to go. Every `Fn(Page) -> impl Future<Output =
/// bool>` is one.
pub trait PageHandler: Send + Sync + 'static {
    /// Shows where the person is sent, and opens it if they agree.
    fn open(&self, page: Page) -> BoxFuture<'_, bool>;
}

impl<F, Fut> PageHandler for F
where
    F: Fn(Page) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bool> + Send + 'static,
{
    fn open(&self, page: Page) -> BoxFuture<'_, bool> {
        Box::pin(self(page))
    }
}

/// The visits whose end the server has not told of, oldest first.
#[derive(Clone, Default)]
pub(crate) struct Visits {
    open: Arc<Mutex<VecDeque<Visit>>>,
}

struct Visit {
    id: String,
    over: watch::Sender<bool>,
}

/// How many visits are kept: a server need not tell of their end.
const MAX_VISITS: usize = 256;

impl Visits {
    /// Begins to wait for the end of a visit. Call it before the page is opened: the end may come at
    /// once.
    pub(crate) fn begin(&self, id: &str) -> watch::Receiver<bool> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(visit) = open.iter().find(|visit| visit.id == id) {
            return visit.over.subscribe();
        }
        if open.len() >= MAX_VISITS {
            open.pop_front();
        }
        let (over, heard) = watch::channel(false);
        open.push_back(Visit { id: id.to_owned(), over });
        heard
    }

    /// The user did not go.
    pub(crate) fn forget(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|visit| visit.id != id);
    }

    /// The server says that a visit is over. An id nobody knows is ignored.
    pub(crate) fn complete(&self, id: &str) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|visit| visit.id == id).and_then(|at| open.remove(at));
        if let Some(visit) = &known {
            visit.over.send_replace(true);
        }
        known.is_some()
    }
}

impl fmt::Debug for Visits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visits").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_drop_the_oldest_beyond_their_limit() {
        let visits = Visits::default();
        for number in 0..=MAX_VISITS {
            drop(visits.begin(&number.to_string()));
        }
        assert!(!visits.complete("0"));
        assert!(visits.complete("1"));
        assert!(!visits.complete("1"), "it ends once");
        visits.forget("2");
        assert!(!visits.complete("2"));
    }
}
