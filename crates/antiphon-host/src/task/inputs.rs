//! Asks the questions of a 2026-07-28 task.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{
    StreamExt as _,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use rmcp::ErrorData;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::known::{Claim, Task};
use crate::{answering::Answering, form::BoxFuture};

type Answered = (Claim, Result<Value, ErrorData>);

/// The open questions of a task. The task is polled while questions are open, because the task can ask further
/// questions or withdraw questions.
pub(super) struct Inputs<'a> {
    answering: &'a Answering,
    task: &'a Arc<Task>,
    asking: FuturesUnordered<Abortable<BoxFuture<'a, Answered>>>,
    /// Handles with which `Inputs` withdraws open questions.
    withdraw: BTreeMap<String, Withdraw>,
    permits: Arc<Semaphore>,
}

struct Withdraw {
    question: AbortHandle,
    /// The number of polls in a row without this question.
    missed: u8,
}

/// If a question is missing in this number of consecutive polls, the question is withdrawn. One poll without the
/// question is not enough, because a server with several replicas can return an old state.
const MISSED: u8 = 2;

/// The kind of questions that a poll of a task has returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The task asks new questions.
    New,
    /// A question is still open.
    Pending,
    /// The task asks only questions that are already answered.
    OnlyGiven,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(answering: &'a Answering, task: &'a Arc<Task>, at_a_time: usize) -> Self {
        let permits = Arc::new(Semaphore::new(at_a_time.max(1)));
        Self { answering, task, asking: FuturesUnordered::new(), withdraw: BTreeMap::new(), permits }
    }

    /// Asks the new questions in `requests`, and withdraws the open questions that are missing in `requests`.
    pub(super) fn ask(&mut self, requests: Map<String, Value>) -> Asked {
        self.withdraw.retain(|key, withdraw| {
            withdraw.missed = if requests.contains_key(key) { 0 } else { withdraw.missed + 1 };
            let wanted = withdraw.missed < MISSED;
            if !wanted {
                withdraw.question.abort();
            }
            wanted
        });
        let mut asked = Asked::OnlyGiven;
        for (key, request) in requests {
            if let Some(claim) = self.task.claim(&key) {
                asked = Asked::New;
                self.begin(claim, request);
            } else if asked != Asked::New && !self.task.is_given(&key) {
                asked = Asked::Pending;
            }
        }
        asked
    }

    fn begin(&mut self, claim: Claim, request: Value) {
        let (answering, permits) = (self.answering, Arc::clone(&self.permits));
        let (question, registration) = AbortHandle::new_pair();
        self.withdraw.insert(claim.key.clone(), Withdraw { question, missed: 0 });
        let question: BoxFuture<'a, Answered> = Box::pin(async move {
            if let Some(answer) = claim.answer.clone() {
                return (claim, Ok(answer));
            }
            // The semaphore is never closed. Without a permit, one more question would be asked at the same time.
            let _permit = permits.acquire_owned().await;
            let method = request["method"].as_str().unwrap_or_default();
            let answer = answering.answer(method, &request["params"], Some(&claim.key)).await;
            (claim, answer)
        });
        self.asking.push(Abortable::new(question, registration));
    }

    /// Returns the next answer of the user. Waits forever if no question is open.
    ///
    /// # Cancel safety
    ///
    /// `next` is cancel safe: if you drop the future of `next`, no answer is lost.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            match self.asking.next().await {
                Some(Ok((claim, answer))) => {
                    self.withdraw.remove(&claim.key);
                    return (claim, answer);
                }
                // The question was withdrawn.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}
