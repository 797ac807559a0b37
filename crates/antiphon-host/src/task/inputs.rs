//! What a task of 2026-07-28 asks for, and who is being asked.

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

/// The questions of a task that are being asked. They are asked while the task is looked at further,
/// because it may ask for more, or not need an answer any more.
pub(super) struct Inputs<'a> {
    answering: &'a Answering,
    task: &'a Arc<Task>,
    asking: FuturesUnordered<Abortable<BoxFuture<'a, Answered>>>,
    /// How to withdraw what is being asked.
    withdraw: BTreeMap<String, Withdraw>,
    permits: Arc<Semaphore>,
}

struct Withdraw {
    question: AbortHandle,
    /// How many looks in a row did not find it.
    missed: u8,
}

/// A question that this many looks in a row do not find is not wanted any more. One is not enough: a
/// server of many replicas may show what was.
const MISSED: u8 = 2;

/// What a look at the questions of a task came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// There were new ones.
    New,
    /// Somebody is being asked.
    Pending,
    /// There are only those that were answered.
    OnlyGiven,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(answering: &'a Answering, task: &'a Arc<Task>, at_a_time: usize) -> Self {
        let permits = Arc::new(Semaphore::new(at_a_time.max(1)));
        Self { answering, task, asking: FuturesUnordered::new(), withdraw: BTreeMap::new(), permits }
    }

    /// Begins to ask for what is new among `requests`, and withdraws what is not there any more.
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
            // It is never closed; without a permit there would just be one more asked at a time.
            let _permit = permits.acquire_owned().await;
            let method = request["method"].as_str().unwrap_or_default();
            let answer = answering.answer(method, &request["params"], Some(&claim.key)).await;
            (claim, answer)
        });
        self.asking.push(Abortable::new(question, registration));
    }

    /// The next answer. Waits forever if nobody is being asked.
    ///
    /// # Cancel safety
    ///
    /// Safe: no answer is lost.
    pub(super) async fn next(&mut self) -> Answered {
        loop {
            match self.asking.next().await {
                Some(Ok((claim, answer))) => {
                    self.withdraw.remove(&claim.key);
                    return (claim, answer);
                }
                // Withdrawn.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}
