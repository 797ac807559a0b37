//! Pending questions: sends them to a client in a session, or to a provider.
//!
//! A sampling request goes to the client's model or to a provider's. The policy decides which one is asked
//! first. A provider is asked if the client has no model, refuses or fails. It is also asked when the
//! remaining rounds are reserved for questions that only a user can answer. The journal contains the reply,
//! so replay never chooses again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use antiphon_llm::{Model, Request};
use antiphon_replay::{Failure, Key, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Channel, Channels, Persistence, Run, State,
    channels::{allows_relay, is_empty_answer, is_form, lacks_content},
    client::Client,
};
use crate::{
    error::{Capability, Error, ErrorKind, Result},
    protocol::{Level, Note, Revision},
};

/// Which model answers a sampling request: the client's model or the server's model (a provider), and in which order
/// they are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingPolicy {
    /// Asks the client's model first. Asks the provider if the client has no model, refuses or fails, or if the run has
    /// few rounds left. If the provider is asked, it receives the prompts, and the operator pays for them.
    #[default]
    ClientFirst,
    /// Asks the provider first. Asks the client's model if the provider fails.
    ProviderFirst,
    /// Asks only the client's model. No prompt is sent to a provider.
    ClientOnly,
    /// Asks only the provider. The client never receives a sampling request.
    ProviderOnly,
}

/// The `_meta` key under which a provider's reply contains a [`Via`]. Replies of the client's model do not have this
/// key.
pub const VIA_META: &str = "antiphon/via";

/// Which provider replied to a sampling request, and why the provider was asked. Stored under [`VIA_META`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Via {
    /// The name of the provider's model, as the operator configured it.
    pub provider: String,
    /// The reason why the provider was asked.
    pub because: String,
}

/// A server's model and its sampling policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    pub(crate) policy: SamplingPolicy,
    pub(crate) model: Option<Arc<dyn Model>>,
}

/// The side that answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answerer {
    Client,
    Provider,
}

/// The reason why a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FallbackReason {
    /// The operator's policy requires it.
    Policy,
    /// The client has not declared the required capability.
    Capability(Capability),
    /// The client refused or failed.
    Failed,
    /// The client did not answer the question. In a round, a client cannot refuse in another way.
    Unanswered,
    /// The client has few rounds left.
    Rounds,
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy => f.write_str("the policy says so"),
            Self::Capability(Capability::Session) => {
                f.write_str("the client cannot be asked outside a session")
            }
            Self::Capability(missing) => write!(f, "the client has not declared `{}`", missing.name()),
            Self::Failed => f.write_str("the client refused or failed"),
            Self::Unanswered => f.write_str("the client left it unanswered"),
            Self::Rounds => f.write_str("the client's rounds are running out"),
        }
    }
}

/// The decision about a request.
#[derive(Debug)]
enum Route {
    Client,
    Provider(Arc<dyn Model>, FallbackReason),
    /// Neither the client nor a provider can be asked.
    Nobody(Capability),
    /// The client cannot be asked, but its user can answer through another channel.
    Elsewhere,
    /// Every possible answerer was asked, and failed.
    Failed(Failure),
}

/// The facts that the decision depends on.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Situation<'a> {
    client: &'a Client,
    /// How many rounds are left, and whether other questions need this round in any case.
    rounds_left: u32,
    round_is_made: bool,
    /// Whether the client received the question in the previous round and did not answer it.
    unanswered: bool,
    /// The answerers that were tried, and their failures.
    tried: &'a [(Answerer, Failure)],
    /// The channels besides the client.
    channels: Channels,
    /// Whether the model can relay answers to questions that allow it.
    relays: bool,
    /// Whether the client's request was answered, so that the client cannot be asked.
    gone: bool,
    /// Whether the client answers without asking its user.
    unresponsive: bool,
    /// Whether a form fails if the client answers it without asking its user.
    checks_client: bool,
    /// Whether the question has waited too long for an answer.
    expired: bool,
}

/// The number of rounds that are reserved for users, if a provider can be asked instead.
const KEPT_FOR_PEOPLE: u32 = 3;

impl Models {
    /// Returns whether a provider can answer sampling requests.
    pub(crate) fn has_provider(&self) -> bool {
        self.model.is_some() && self.policy != SamplingPolicy::ClientOnly
    }

    /// Decides who answers `request`.
    fn route(&self, request: &Value, situation: &Situation<'_>) -> Route {
        let Situation { client, tried, channels, relays, gone, unresponsive, checks_client, expired, .. } =
            *situation;
        let missing = client.lacks(request).or_else(|| gone.then_some(Capability::Session));
        if !is_sampling(request) {
            // A model must not answer a question that the client has refused.
            if (channels.carry(request) && (missing.is_some() || unresponsive))
                || (relays && missing.is_some() && allows_relay(request))
            {
                if expired {
                    return Route::Failed(Error::new(ErrorKind::Unanswered).to_failure());
                }
                return Route::Elsewhere;
            }
            if let Some(problem) = channels.link_problem(request).filter(|_| missing.is_some()) {
                let error = Error::misuse(format!(
                    "the link of a question cannot be shown to the user: {problem}; use a link like `https://example.com/pay`"
                ));
                return Route::Failed(error.to_failure());
            }
            if checks_client && unresponsive && is_form(request) {
                // The tool names another channel.
                return Route::Failed(Error::new(ErrorKind::Unanswered).to_failure());
            }
            return match (tried, missing) {
                ([(_, failure), ..], _) => Route::Failed(failure.clone()),
                ([], Some(missing)) => Route::Nobody(missing),
                ([], None) => Route::Client,
            };
        }
        let was_tried = |answerer: Answerer| tried.iter().any(|(tried, _)| *tried == answerer);
        let asks_client = !matches!(self.policy, SamplingPolicy::ProviderOnly)
            && missing.is_none()
            && !was_tried(Answerer::Client);
        let model = match self.policy {
            SamplingPolicy::ClientOnly => None,
            _ => self.model.as_ref().filter(|_| !was_tried(Answerer::Provider)),
        };
        let spent = client.revision() == Revision::Rounds
            && !situation.round_is_made
            && situation.rounds_left <= KEPT_FOR_PEOPLE;
        match (asks_client, model) {
            (true, Some(model)) if self.policy == SamplingPolicy::ProviderFirst => {
                Route::Provider(Arc::clone(model), FallbackReason::Policy)
            }
            (true, Some(model)) if situation.unanswered => {
                Route::Provider(Arc::clone(model), FallbackReason::Unanswered)
            }
            (true, Some(model)) if spent => Route::Provider(Arc::clone(model), FallbackReason::Rounds),
            (true, _) => Route::Client,
            (false, Some(model)) => Route::Provider(
                Arc::clone(model),
                match (self.policy, missing) {
                    (SamplingPolicy::ClientFirst, Some(missing)) => FallbackReason::Capability(missing),
                    (SamplingPolicy::ClientFirst, None) => FallbackReason::Failed,
                    _ => FallbackReason::Policy,
                },
            ),
            (false, None) => match (tried, missing) {
                ([], Some(missing)) => Route::Nobody(missing),
                (tried, missing) => Route::Failed(nobody_left(tried, missing)),
            },
        }
    }
}

/// Returns the error for a question without an answer. If only the client was asked, it is the client's
/// error.
fn nobody_left(tried: &[(Answerer, Failure)], missing: Option<Capability>) -> Failure {
    if let [(Answerer::Client, failure)] = tried {
        return failure.clone();
    }
    let mut said: Vec<String> = tried
        .iter()
        .map(|(answerer, failure)| match answerer {
            Answerer::Client => format!("the client answered: {}", failure.message),
            Answerer::Provider => failure.message.clone(),
        })
        .collect();
    if let Some(missing) = missing {
        said.push(format!("the client has not declared `{}`", missing.name()));
    }
    if said.is_empty() {
        said.push("the sampling policy allows neither the client nor the server's model".into());
    }
    Error::new(ErrorKind::Model(said.join("; "))).to_failure()
}

fn is_sampling(request: &Value) -> bool {
    request["method"] == "sampling/createMessage"
}

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
    requests: BTreeMap<(Key, u64), Sent<'a>>,
    /// The answerers that failed, by question.
    tried: BTreeMap<(Key, u64), Vec<(Answerer, Failure)>>,
    /// The number of pending questions that wait for another channel.
    elsewhere: usize,
    /// Whether the session has recorded that a form of this call is at the client.
    watched: bool,
}

/// A request in flight.
struct Sent<'a> {
    answerer: Answerer,
    answer: Answer<'a>,
    /// Whether the client was asked to show a form.
    is_form: bool,
    /// The form that the client was asked to show, and when. Only if the user could answer it elsewhere.
    form: Option<(Value, Instant)>,
}

/// The decision about one question, made while the state is locked.
enum Decided {
    Ask(Answerer, Value, Option<(Arc<dyn Model>, FallbackReason)>),
    End(Outcome),
}

impl<'a> Asking<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run, requests: BTreeMap::new(), tried: BTreeMap::new(), elsewhere: 0, watched: false }
    }

    /// Returns whether the client was asked to show a form.
    pub(super) fn has_form_out(&self) -> bool {
        self.requests.values().any(|sent| sent.is_form)
    }

    /// Returns whether all of `asks` pending questions wait for another channel than the client.
    pub(super) fn only_elsewhere(&self, asks: usize) -> bool {
        asks > 0 && self.elsewhere == asks
    }

    /// Returns the number of requests to providers that are in flight.
    pub(super) fn of_providers(&self) -> usize {
        self.requests.values().filter(|sent| sent.answerer == Answerer::Provider).count()
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
                    let is_form = answerer == Answerer::Client && is_form(&request);
                    let watched =
                        is_form && (self.run.ask.checks_client || self.run.channels().carry(&request));
                    let form = watched.then(|| (request.clone(), Instant::now()));
                    let answer: Answer<'a> = match provider {
                        Some((model, why)) => {
                            if why != FallbackReason::Policy {
                                because.get_or_insert_with(|| (model.name().to_owned(), why));
                            }
                            Box::pin(ask_provider(self.run, model, request, why))
                        }
                        None => Box::pin(told.within(in_time(
                            self.run.client.ask(&request),
                            self.run.runtime.limits.answer_timeout,
                        ))),
                    };
                    self.requests.insert((key, since), Sent { answerer, answer, is_form, form });
                }
            }
        }
        // A run announces this once. The machine keeps the announcement in the journal, even in a loop that
        // discards its earlier turns.
        let news = because.filter(|_| state.machine().say_once(PROVIDER));
        drop(state);
        let out = self.requests.values().any(|sent| sent.form.is_some());
        if out != self.watched {
            self.watched = out;
            self.run.watch_form(out);
        }
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
        let is_question = |request: &Value| request["method"] == "elicitation/create";
        let mut form_open = pending.iter().any(|(key, since, request)| {
            is_question(request) && self.requests.contains_key(&((*key).clone(), *since))
        });
        let round_is_made = pending.iter().any(|(_, _, request)| !is_sampling(request));
        let (channels, relays, gone) = (run.channels(), run.relays(), run.is_handed_over());
        let mut decided = Vec::new();
        self.elsewhere = 0;
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
            let was_sent = !run.client.is_of_task() && run.client.lacks(request).is_none();
            let checks_client = run.ask.checks_client;
            let is_watched = is_form(request) && (checks_client || channels.carry(request));
            if unanswered && was_sent && is_watched && !run.is_unresponsive() {
                // The client returned without an answer to this form, or without its content.
                run.mark_unresponsive();
            }
            let unresponsive = run.is_unresponsive();
            // A loop asks its next question under the same key.
            let expired = unanswered && run.expired.contains(key.as_str());
            let client = &run.client;
            let situation = Situation {
                client,
                rounds_left,
                round_is_made,
                unanswered,
                tried,
                channels,
                relays,
                gone,
                unresponsive,
                checks_client,
                expired,
            };
            let decision = match run.runtime.models.route(request, &situation) {
                Route::Elsewhere => {
                    self.elsewhere += 1;
                    continue;
                }
                Route::Client if !live || (form_open && is_question(request)) => continue,
                Route::Client => {
                    form_open |= is_question(request);
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
            for (id, Sent { answer: request, .. }) in &mut self.requests {
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
        let Some(Sent { answerer, form, .. }) = self.requests.remove(&id) else { return };
        let mut answer = match answer {
            Ok(answer) => answer,
            // Another answerer may be left. The next `start` selects one, or ends the question.
            Err(error) => {
                match error.kind() {
                    // The client does not show forms, although it has declared them.
                    ErrorKind::Client { .. } if form.is_some() => self.run.mark_unresponsive(),
                    // The user may have been away. Only this run asks elsewhere.
                    ErrorKind::Unanswered if form.is_some() => self.run.stop_asking_client(),
                    _ => {}
                }
                self.tried.entry(id).or_default().push((answerer, error.to_failure()));
                return;
            }
        };
        if let Some((request, sent)) = form
            && (lacks_content(&request, &answer)
                || (sent.elapsed() < self.run.ask.quick && is_empty_answer(&request, &answer)))
        {
            // No user was that fast, or no user saw the form. The question stays open, and the next `start` selects another channel.
            self.run.mark_unresponsive();
            return;
        }
        Channel::Client.mark(&mut answer);
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

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // If the client has cancelled the call, the handler of the cancellation reads and removes the record. The end
        // of a connection says nothing about the client. The token of a call is also cancelled after its response.
        let is_answered = self.run.persistence().is_some();
        if self.watched && (is_answered || !self.run.client.cancelled().is_cancelled()) {
            self.run.watch_form(false);
        }
    }
}

/// Sends a sampling request to a provider, within the caller's spending limit.
async fn ask_provider(
    run: &Run,
    model: Arc<dyn Model>,
    request: Value,
    because: FallbackReason,
) -> Result<Value> {
    let request: Request = serde_json::from_value(request["params"].clone())?;
    let asking = model.reply(&request);
    let mut reply = run.runtime.spend.within(run.principal.as_deref(), &request, asking).await?;
    let via = Via { provider: model.name().to_owned(), because: because.to_string() };
    reply.meta.insert(VIA_META.into(), json!(via));
    Ok(serde_json::to_value(reply)?)
}
