//! Pending questions: sends them to a client in a session, or to a provider.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use antiphon_replay::{Failure, Key, Outcome};
use serde_json::{Value, json};

use super::{
    Persistence, Run, State,
    route::{self, Answerer, FallbackReason, Route, Situation},
};
use crate::{
    error::{Error, ErrorKind, Result},
    protocol::{Level, Note},
};

/// The name of the announcement that a provider is asked instead of the client. A run makes it once.
const PROVIDER: &str = "provider";

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// Waits for `answer` for at most `limit`, and fails with `ErrorKind::Unanswered` after that.
///
/// At the limit it drops `answer`, which withdraws the question.
async fn in_time(answer: impl Future<Output = Result<Value>>, limit: Option<Duration>) -> Result<Value> {
    let Some(limit) = limit else { return answer.await };
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unanswered)))
}

pub(super) struct Asking<'a> {
    run: &'a Run,
    /// The requests in flight, by question key and question number. A loop asks a new question under the same
    /// key.
    requests: BTreeMap<(Key, u64), (Answerer, Answer<'a>)>,
    /// The answerers that failed, by question.
    tried: BTreeMap<(Key, u64), Vec<(Answerer, Failure)>>,
}

/// The decision about one question, made while the state is locked.
enum Decided {
    Ask(Answerer, Value, Option<(std::sync::Arc<dyn antiphon_llm::Model>, FallbackReason)>),
    End(Outcome),
}

impl<'a> Asking<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run, requests: BTreeMap::new(), tried: BTreeMap::new() }
    }

    /// Returns the number of requests to providers that are in flight.
    pub(super) fn of_providers(&self) -> usize {
        self.requests.values().filter(|(answerer, _)| *answerer == Answerer::Provider).count()
    }

    /// Sends the pending questions that were not sent yet, and ends the questions that cannot be asked.
    ///
    /// Returns whether it ended any. In a session it sends one form at a time, because the user has one
    /// screen. In rounds it sends nothing to the client: the questions that remain pending are part of the
    /// round's response.
    pub(super) fn start(&mut self) -> bool {
        let mut state = self.run.state();
        let decided = self.decide(&mut state);
        let mut wakers = Vec::new();
        let mut ended = false;
        let mut because = None;
        for ((key, since), decided) in decided {
            match decided {
                Decided::End(outcome) => {
                    ended = true;
                    match outcome {
                        Outcome::Refused(missing) => state.machine().refuse(&key, missing),
                        Outcome::Failed(failure) => state.machine().fail(&key, failure),
                        Outcome::Answer(_) | Outcome::Done(_) => {}
                    }
                    wakers.extend(state.take_waker(&key));
                }
                Decided::Ask(answerer, mut request, provider) => {
                    let told = self.run.span.ask(&mut request, answerer == Answerer::Client);
                    let answer: Answer<'a> = match provider {
                        Some((model, why)) => {
                            if why != FallbackReason::Policy {
                                because.get_or_insert_with(|| (model.name().to_owned(), why));
                            }
                            Box::pin(route::ask(self.run, model, request, why))
                        }
                        None => Box::pin(told.within(in_time(
                            self.run.client.ask(&request),
                            self.run.runtime.limits.answer_timeout,
                        ))),
                    };
                    self.requests.insert((key, since), (answerer, answer));
                }
            }
        }
        // A run announces this once. The machine keeps the announcement in the journal, even in a loop that
        // discards its earlier turns.
        let news = because.filter(|_| state.machine().say_once(PROVIDER));
        drop(state);
        wakers.into_iter().for_each(std::task::Waker::wake);
        if let Some((model, why)) = news {
            self.say(&model, why);
        }
        ended
    }

    fn decide(&mut self, state: &mut State) -> Vec<((Key, u64), Decided)> {
        let run = self.run;
        // A task has no limit of rounds.
        let rounds_left = match run.persistence() {
            Some(_) => u32::MAX,
            None => run.runtime.limits.max_rounds.saturating_sub(state.machine().round()),
        };
        let cancelled = run.persistence().is_some_and(Persistence::is_cancelled);
        let machine = &*state.machine();
        let pending = machine.pending_since();
        let unanswered: BTreeSet<&Key> =
            pending.iter().map(|(key, ..)| *key).filter(|key| machine.is_unanswered(key)).collect();
        // Dropping a request cancels it, so this withdraws the questions that the tool no longer awaits.
        let waits = |(key, since): &(Key, u64)| {
            pending.iter().any(|(waiting, asked, _)| *waiting == key && asked == since)
        };
        self.requests.retain(|id, _| waits(id));
        self.tried.retain(|id, _| waits(id));
        let live = run.is_live();
        let is_form = |request: &Value| request["method"] == "elicitation/create";
        let mut form_open = pending.iter().any(|(key, since, request)| {
            is_form(request) && self.requests.contains_key(&((*key).clone(), *since))
        });
        let round_is_made = pending.iter().any(|(_, _, request)| !route::is_sampling(request));
        let mut decided = Vec::new();
        for (key, since, request) in pending {
            let id = (key.clone(), since);
            if self.requests.contains_key(&id) && !cancelled {
                continue;
            }
            let tried = self.tried.get(&id).map(Vec::as_slice).unwrap_or_default();
            let unanswered = !live && unanswered.contains(key);
            if cancelled {
                let failure = Error::new(ErrorKind::Cancelled).to_failure();
                decided.push((id, Decided::End(Outcome::Failed(failure))));
                continue;
            }
            let situation = Situation { client: &run.client, rounds_left, round_is_made, unanswered, tried };
            let decision = match run.runtime.models.route(request, &situation) {
                Route::Client if !live || (form_open && is_form(request)) => continue,
                Route::Client => {
                    form_open |= is_form(request);
                    Decided::Ask(Answerer::Client, request.clone(), None)
                }
                Route::Provider(model, why) => {
                    Decided::Ask(Answerer::Provider, request.clone(), Some((model, why)))
                }
                Route::Nobody(missing) => Decided::End(Outcome::Refused(missing.name().into())),
                Route::Failed(failure) => Decided::End(Outcome::Failed(failure)),
            };
            decided.push((id, decision));
        }
        decided
    }

    /// Waits for the next answer and passes it to the tool. Never completes if no request is in flight.
    pub(super) async fn answered(&mut self) {
        let (id, answer) = std::future::poll_fn(|cx| {
            for (id, (_, request)) in &mut self.requests {
                // A provider can be third-party code. A call without a response is worse than a failed call,
                // so a panic becomes an error.
                match catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(cx))) {
                    Ok(Poll::Ready(answer)) => return Poll::Ready((id.clone(), answer)),
                    Ok(Poll::Pending) => {}
                    Err(_) => {
                        super::drive::log_panic("a model provider panicked");
                        let failed =
                            ErrorKind::Model("the model provider failed unexpectedly: its code panicked; the standard error output of the server contains the panic message".into());
                        return Poll::Ready((id.clone(), Err(Error::new(failed))));
                    }
                }
            }
            Poll::Pending
        })
        .await;
        let Some((answerer, _)) = self.requests.remove(&id) else { return };
        let answer = match answer {
            Ok(answer) => answer,
            // Another answerer may be left. The next `start` selects one, or ends the question.
            Err(error) => {
                self.tried.entry(id).or_default().push((answerer, error.to_failure()));
                return;
            }
        };
        let (key, _) = id;
        let waker = {
            let mut state = self.run.state();
            state.machine().answer(&key, answer);
            state.take_waker(&key)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Logs that a provider is asked instead of the client, and sends a log message to the client if it
    /// requested this level.
    fn say(&self, model: &str, because: FallbackReason) {
        let run = self.run;
        tracing::info!(run = run.id(), model, %because, "a sampling request is sent to the server's model instead of the client");
        if run.client.wants(Level::Info) {
            let data = json!({"message": format!("asking `{model}` instead of the client's model"), "because": because.to_string()});
            run.note(Note::Log { level: Level::Info, logger: Some("antiphon".into()), data });
        }
    }
}
