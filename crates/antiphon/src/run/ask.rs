//! Sends pending questions to a client in a session, or to a provider.
//!
//! The server sends a sampling request to the client's model, or to the model of a provider. The sampling policy
//! decides which model the server asks first. By default, the server asks the provider if the client has no model,
//! refuses the request or fails. The last rounds of a run are reserved for questions to users. So the server also asks
//! the provider if the run has few rounds left. The journal contains the model's reply, so a replay uses this reply and
//! asks no model.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::time::Instant;

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

/// The policy that decides whether the client's model or the server's model (the provider) answers a sampling request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingPolicy {
    /// Asks the client's model first. Asks the provider if the client has no model, refuses the request or fails. Also
    /// asks the provider if the run has few rounds left. The provider then receives the prompts, and the operator pays
    /// for the request.
    #[default]
    ClientFirst,
    /// Asks the provider first. If the provider fails, asks the client's model.
    ProviderFirst,
    /// Asks only the client's model. No prompt is sent to a provider.
    ClientOnly,
    /// Asks only the provider. The client never receives a sampling request.
    ProviderOnly,
}

/// The `_meta` key under which a provider's reply contains a [`Via`]. Replies of the client's model do not have the key
/// `antiphon/via`.
pub const VIA_META: &str = "antiphon/via";

/// The provider that replied to a sampling request, and the reason why the server asked this provider. The provider's
/// reply contains this information under [`VIA_META`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Via {
    /// The name of the provider's model, as the operator configured it.
    pub provider: String,
    /// The reason why the server asked the provider.
    pub because: String,
}

/// The server's model, and the policy that decides when the server uses this model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    pub(crate) policy: SamplingPolicy,
    pub(crate) model: Option<Arc<dyn Model>>,
}

/// The party that answers a question: the client or the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answerer {
    Client,
    Provider,
}

/// The reason why the server asks a provider instead of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FallbackReason {
    /// The operator set a sampling policy that selects the provider.
    Policy,
    /// The client has not declared the required capability.
    Capability(Capability),
    /// The client refused the request, or failed to answer the request.
    Failed,
    /// The client did not answer the question. On MCP 2026-07-28, a client can refuse a question only by not answering
    /// the question.
    Unanswered,
    /// The run has few rounds left with this client.
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

/// The decision which party the server asks, or how the question ends.
#[derive(Debug)]
enum Route {
    Client,
    Provider(Arc<dyn Model>, FallbackReason),
    /// Neither the client nor a provider can answer the question. The value is the capability that the client lacks.
    Nobody(Capability),
    /// The client cannot show the question, but the user can answer the question through another channel.
    Elsewhere,
    /// The server asked all parties that could answer, and all these parties failed.
    Failed(Failure),
}

/// The information that determines which party answers a question.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Situation<'a> {
    client: &'a Client,
    /// The number of rounds that the run has left. The field `round_is_made` is true if other questions need the next
    /// round anyway.
    rounds_left: u32,
    round_is_made: bool,
    /// Whether the client received the question in the previous round and did not answer the question.
    unanswered: bool,
    /// The parties that failed to answer the question, each with the failure.
    tried: &'a [(Answerer, Failure)],
    /// The channels, other than the client, through which the user can answer the question.
    channels: Channels,
    /// Whether the server allows the model to relay a user's answer. The question must also allow relayed answers.
    relays: bool,
    /// Whether the server has already answered the client's request. If `true`, the server can no longer send questions
    /// to the client.
    gone: bool,
    /// Whether the client answers questions without showing the questions to the user.
    unresponsive: bool,
    /// Whether a form fails if the client answers the form without showing the form to the user.
    checks_client: bool,
    /// Whether the question has reached its deadline without an answer.
    expired: bool,
}

/// The number of rounds that are reserved for questions to users. Rounds are reserved only if a provider can answer
/// sampling requests.
const KEPT_FOR_PEOPLE: u32 = 3;

impl Models {
    /// Returns whether a provider can answer sampling requests.
    pub(crate) fn has_provider(&self) -> bool {
        self.model.is_some() && self.policy != SamplingPolicy::ClientOnly
    }

    /// Decides which party answers `request`.
    fn route(&self, request: &Value, situation: &Situation<'_>) -> Route {
        let Situation { client, tried, channels, relays, gone, unresponsive, checks_client, expired, .. } =
            *situation;
        let missing = client.lacks(request).or_else(|| gone.then_some(Capability::Session));
        if !is_sampling(request) {
            // If the client has refused the question, a model must not answer this question.
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
                // After this error, the tool describes another channel to the model.
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

/// Returns the error for a question that no party has answered. If the server asked only the client, the function
/// returns the client's error.
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

/// The name of the log message which reports that the server asks a provider instead of the client. Each run sends this
/// log message at most once.
const PROVIDER: &str = "provider";

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// Waits for `answer`, but at most for `limit`. If no answer arrives within `limit`, returns `ErrorKind::Unanswered`.
///
/// When `limit` has passed, `in_time` drops the future `answer`. Dropping the future withdraws the question.
async fn in_time(answer: impl Future<Output = Result<Value>>, limit: Option<Duration>) -> Result<Value> {
    let Some(limit) = limit else { return answer.await };
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unanswered)))
}

pub(super) struct Asking<'a> {
    run: &'a Run,
    /// The requests in flight. A question key and a question number identify each request, because several questions in
    /// a loop have the same key.
    requests: BTreeMap<(Key, u64), Sent<'a>>,
    /// For each question, the parties that failed to answer, each with the failure.
    tried: BTreeMap<(Key, u64), Vec<(Answerer, Failure)>>,
    /// The number of pending questions that the user must answer through another channel.
    elsewhere: usize,
    /// Whether the session contains a record that this call has sent a form to the client.
    watched: bool,
}

/// A request in flight.
struct Sent<'a> {
    answerer: Answerer,
    answer: Answer<'a>,
    /// Whether the request asks the client to show a form.
    is_form: bool,
    /// The form that the server sent to the client, and the time at which the server sent the form. The value is `None`
    /// if the client is the user's only channel.
    form: Option<(Value, Instant)>,
}

/// The decision about one question. The server decides while the lock of the state is held, and sends or ends the
/// question after the lock is released.
enum Decided {
    Ask(Answerer, Value, Option<(Arc<dyn Model>, FallbackReason)>),
    End(Outcome),
}

impl<'a> Asking<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run, requests: BTreeMap::new(), tried: BTreeMap::new(), elsewhere: 0, watched: false }
    }

    /// Returns whether the client has received a form and has not answered this form yet.
    pub(super) fn has_form_out(&self) -> bool {
        self.requests.values().any(|sent| sent.is_form)
    }

    /// Returns `true` if the user must answer all pending questions through channels other than the client. `asks` is
    /// the number of pending questions.
    pub(super) fn only_elsewhere(&self, asks: usize) -> bool {
        asks > 0 && self.elsewhere == asks
    }

    /// Returns the number of requests to providers that are in flight.
    pub(super) fn of_providers(&self) -> usize {
        self.requests.values().filter(|sent| sent.answerer == Answerer::Provider).count()
    }

    /// Sends the pending questions that the server has not sent yet. Ends the questions that no party can answer.
    ///
    /// Returns `true` if this method ended a question. In a session, the server sends only one form at a time, because
    /// the user has only one screen. On MCP 2026-07-28, this method does not send questions to the client. Instead, the
    /// response of the round contains the pending questions.
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
        // Each run sends this log message only once. The journal records that the run has sent the message, even in a
        // loop that discards earlier entries.
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
        // A task can have any number of rounds.
        let rounds_left = match run.persistence() {
            Some(_) => u32::MAX,
            None => run.runtime.limits.max_rounds.saturating_sub(state.machine().round()),
        };
        let cancelled = run.persistence().is_some_and(Persistence::is_cancelled);
        let machine = &*state.machine();
        let pending = machine.pending_since();
        let unanswered: BTreeSet<&Key> =
            pending.iter().map(|(key, ..)| *key).filter(|key| machine.is_unanswered(key)).collect();
        // Dropping a request cancels this request. So this code withdraws the questions that the tool no longer awaits.
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
                // The client did not answer this form, or the client's answer has no content.
                run.mark_unresponsive();
            }
            let unresponsive = run.is_unresponsive();
            // In a loop, the next question has the same key as an expired question. So the code also checks that this
            // question is unanswered.
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

    /// Waits for the next answer, and passes the answer to the tool. If no request is in flight, this method never
    /// completes.
    pub(super) async fn answered(&mut self) {
        let (id, answer) = std::future::poll_fn(|cx| {
            for (id, Sent { answer: request, .. }) in &mut self.requests {
                // A provider can be third-party code, which can panic. This code converts a panic into an error, so
                // that the client gets a response.
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
            // If another party can answer the question, the next call of `start` asks this party. Otherwise, `start`
            // ends the question.
            Err(error) => {
                match error.kind() {
                    // The client has declared that it shows forms, but the client does not show forms.
                    ErrorKind::Client { .. } if form.is_some() => self.run.mark_unresponsive(),
                    // The user may have been absent. So only this run stops sending questions to the client.
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
            // The answer has no content, or arrived faster than a user can answer. So the answer does not come from a
            // user. The question stays open, and the next call of `start` chooses another channel.
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

    /// Logs that the server asks a provider instead of the client. If the client requested log messages of this level,
    /// this method also sends a log message to the client.
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
        // After the response, the server also cancels the cancellation token of the call. If the client has cancelled
        // the call, the cancellation handler reads and removes this record. If the connection has ended without a
        // cancellation, the reason is unknown.
        let is_answered = self.run.persistence().is_some();
        if self.watched && (is_answered || !self.run.client.cancelled().is_cancelled()) {
            self.run.watch_form(false);
        }
    }
}

/// Sends a sampling request to a provider. Returns an error if the caller has spent the budget for the server's model.
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
