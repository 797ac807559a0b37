//! Questions on the page's table, and the answers to them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::feed::Feed;

/// What the person did with a question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    pub(super) action: Action,
    /// What they filled in.
    #[serde(default)]
    pub(super) content: Value,
    /// Whether the rest of this call's samples may go through unseen.
    #[serde(default)]
    pub(super) all: bool,
    /// Whether they want to see the model's reply before the server does.
    #[serde(default)]
    pub(super) review: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Accept,
    Decline,
    Cancel,
}

/// The questions of a session.
#[derive(Debug)]
pub(super) struct Asks {
    session: String,
    feed: Arc<Feed>,
    open: Mutex<BTreeMap<String, Open>>,
    last: AtomicU64,
}

/// A question, and who waits for its answer.
#[derive(Debug)]
struct Open {
    question: Value,
    tx: oneshot::Sender<Answer>,
}

impl Asks {
    pub(super) fn new(session: &str, feed: Arc<Feed>) -> Self {
        Self { session: session.to_owned(), feed, open: Mutex::default(), last: AtomicU64::new(0) }
    }

    pub(super) fn next_id(&self) -> String {
        format!("{}-{}", self.session, self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Puts a question to the person, and waits. None if the question ended without them.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the question is withdrawn, and the page is told.
    pub(super) async fn ask(&self, id: &str, mut question: Value) -> Option<Answer> {
        let (tx, rx) = oneshot::channel();
        question["ask"] = json!(id);
        self.lock().insert(id.to_owned(), Open { question: question.clone(), tx });
        let _open = OpenAsk { asks: self, id };
        self.feed.tell("ask", question);
        rx.await.ok()
    }

    /// Hands over an answer; false if nobody asks that, or no more.
    pub(super) fn answer(&self, id: &str, answer: Answer) -> bool {
        let Some(Open { tx, .. }) = self.lock().remove(id) else { return false };
        let action = answer.action;
        // Told before the answer goes on its way, so that what it leads to comes after.
        self.settle(
            id,
            match action {
                Action::Accept => "accept",
                Action::Decline => "decline",
                Action::Cancel => "cancel",
            },
        );
        tx.send(answer).is_ok()
    }

    /// What is on the table, oldest first, for a page that has lost the events that told of it.
    pub(super) fn open(&self) -> Vec<Value> {
        let open = self.lock();
        let mut open: Vec<(&String, &Open)> = open.iter().collect();
        // The ids are the session's and a number.
        open.sort_by_key(|(id, _)| (id.len(), *id));
        open.into_iter().map(|(_, open)| open.question.clone()).collect()
    }

    /// Withdraws all that is on the table.
    pub(super) fn withdraw(&self) {
        let open = std::mem::take(&mut *self.lock());
        for id in open.keys() {
            self.settle(id, "withdrawn");
        }
    }

    pub(super) fn settle(&self, id: &str, how: &str) {
        self.feed.tell("settled", json!({"ask": id, "how": how}));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question on the table, until it is dropped.
struct OpenAsk<'a> {
    asks: &'a Asks,
    id: &'a str,
}

impl Drop for OpenAsk<'_> {
    fn drop(&mut self) {
        // Whoever answers takes it from the table first.
        if self.asks.lock().remove(self.id).is_some() {
            self.asks.settle(self.id, "withdrawn");
        }
    }
}
