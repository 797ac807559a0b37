//! Open questions on the web page, and their answers.

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

/// The user's answer to a question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    pub(super) action: Action,
    /// The values that the user entered into the form.
    #[serde(default)]
    pub(super) content: Value,
    /// Whether to approve all further sampling requests of this call.
    #[serde(default)]
    pub(super) all: bool,
    /// Whether to show the model's reply to the user before the studio sends the reply to the server.
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

/// An open question, and the channel for its answer.
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

    /// Asks the user a question and waits for the answer. Returns `None` if the question was withdrawn.
    ///
    /// # Cancel safety
    ///
    /// If the future of `ask` is dropped, the question is withdrawn, and the web page receives an event.
    pub(super) async fn ask(&self, id: &str, mut question: Value) -> Option<Answer> {
        let (tx, rx) = oneshot::channel();
        question["ask"] = json!(id);
        self.lock().insert(id.to_owned(), Open { question: question.clone(), tx });
        let _open = OpenAsk { asks: self, id };
        self.feed.tell("ask", question);
        rx.await.ok()
    }

    /// Delivers an answer to the open question `id`. Returns `false` if the question is not open.
    pub(super) fn answer(&self, id: &str, answer: Answer) -> bool {
        let Some(Open { tx, .. }) = self.lock().remove(id) else { return false };
        let action = answer.action;
        // Send this event before the answer, so that the web page receives later events after this event.
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

    /// Returns the open questions, oldest first, for a web page that missed their events.
    pub(super) fn open(&self) -> Vec<Value> {
        let open = self.lock();
        let mut open: Vec<(&String, &Open)> = open.iter().collect();
        // The IDs consist of the session's ID and a number, so this order is the order of the numbers.
        open.sort_by_key(|(id, _)| (id.len(), *id));
        open.into_iter().map(|(_, open)| open.question.clone()).collect()
    }

    /// Withdraws all open questions.
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

/// An open question. Dropping an `OpenAsk` withdraws the question.
struct OpenAsk<'a> {
    asks: &'a Asks,
    id: &'a str,
}

impl Drop for OpenAsk<'_> {
    fn drop(&mut self) {
        // `answer` removes the question first, so an answered question is not withdrawn.
        if self.asks.lock().remove(self.id).is_some() {
            self.asks.settle(self.id, "withdrawn");
        }
    }
}
