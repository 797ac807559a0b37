//! Web pages for the user: to sign in, to pay, or to enter data that must not pass through the host.

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

/// The error code for a request that requires visits to web pages first.
pub(crate) const PAGES_REQUIRED: i32 = -32042;

/// A web page that a server asks the user to visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Page {
    /// The text that explains to the user the reason for the visit.
    #[serde(default)]
    pub message: String,
    /// The URL of the web page. Show the URL to the user, and open the page only if the user agrees.
    pub url: String,
    /// The elicitation ID, with which the server reports that the user has finished. On MCP 2026-07-28, web pages
    /// have no elicitation ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

impl Page {
    pub(crate) fn read(params: &Value) -> Option<Self> {
        Self::deserialize(params).ok()
    }
}

/// A handler that opens web pages for the user. Every closure `Fn(Page) -> impl Future<Output = bool>` implements
/// `PageHandler`.
pub trait PageHandler: Send + Sync + 'static {
    /// Shows the URL to the user, and opens the page if the user agrees. Returns whether the user agreed to open the
    /// page.
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

/// The visits to web pages whose end the server has not reported yet. The oldest visit comes first.
#[derive(Clone, Default)]
pub(crate) struct Visits {
    open: Arc<Mutex<VecDeque<Visit>>>,
}

struct Visit {
    id: String,
    over: watch::Sender<bool>,
}

/// The maximum number of stored visits. Visits can accumulate, because a server does not have to report the end of a
/// visit.
const MAX_VISITS: usize = 256;

impl Visits {
    /// Starts to wait for the end of a visit. Call `begin` before you open the web page, because the report of the end
    /// can arrive immediately.
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

    /// Removes a visit that the user declined.
    pub(crate) fn forget(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|visit| visit.id != id);
    }

    /// Ends a visit when the server reports its end. Returns `false` if no visit has the elicitation ID `id`.
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
