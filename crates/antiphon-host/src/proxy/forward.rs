//! Forwards one request to the other server, and the questions of the other server to the caller.
//!
//! On both revisions, the request runs in rounds. A round ends with the result or with questions. On MCP 2026-07-28 the
//! other server keeps its state in `requestState`, or in a task. On MCP 2025-11-25 the call stays open in this process.
//! On MCP 2025-11-25, the journal contains the ID of the call instead of a state. Each round is a step of the caller's
//! run. So the run can be suspended at the questions of a round, and replayed.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc, time::Duration};

use antiphon::{Ctx, ErrorKind, Result, elicitation::UrlElicitation};
use futures_util::future::join_all;
use rmcp::{ErrorData, model::ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{
    conversation::{Cancelled, Conversation, KEPT, Next, name_of_level},
    pool::{Lease, OpenCall, Owner, Remote},
};
use crate::{
    answering::name_of,
    connection::Options,
    error::Error,
    form::BoxFuture,
    task::{Stage, TaskInfo},
};

/// A request to the other server.
#[derive(Clone, Debug)]
pub(super) struct Request {
    method: &'static str,
    params: Value,
    /// Whether a 2025-11-25 server can run the call only as a task.
    is_task: bool,
}

impl Request {
    pub(super) fn tool(name: &str, arguments: Value, is_task: bool) -> Self {
        Self { is_task, ..Self::named("tools/call", name, arguments) }
    }

    pub(super) fn prompt(name: &str, arguments: Value) -> Self {
        Self::named("prompts/get", name, arguments)
    }

    fn named(method: &'static str, name: &str, arguments: Value) -> Self {
        let mut params = json!({"name": name});
        params["arguments"] = arguments;
        Self { method, params, is_task: false }
    }

    pub(super) fn resource(uri: &str) -> Self {
        Self { method: "resources/read", params: json!({"uri": uri}), is_task: false }
    }
}

/// A map from the question keys of one round to the answers.
pub(super) type Answers = BTreeMap<String, Result<Value, ErrorData>>;

/// The data with which a round starts. The journal stores this data.
#[derive(Default, Serialize, Deserialize)]
struct Turn {
    number: u32,
    place: Place,
    asks: Map<String, Value>,
}

/// The position from which the other server continues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    /// The request was not sent yet.
    #[default]
    Start,
    /// The server continues with the given `requestState`.
    State(Option<String>),
    /// The server runs the call as a 2026-07-28 task. The server already has the answers to the questions in `given`.
    Task { id: String, given: Vec<String> },
    /// The call to a 2025-11-25 server is open in this process.
    Open(String),
}

/// The result or the questions with which a round ends.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Round {
    Done(Value),
    Goes(Place, Map<String, Value>),
}

/// The delay before a request is repeated if the server requested input but asked no question.
const RETRY: Duration = Duration::from_millis(200);

impl Remote {
    /// Sends the request, and asks the questions of the other server through `ctx`, until the other server returns the
    /// result.
    pub(super) fn forward<'a>(
        self: &Arc<Self>,
        ctx: &'a Ctx,
        request: Request,
    ) -> BoxFuture<'a, Result<Value>> {
        let (remote, request) = (Arc::clone(self), Arc::new(request));
        let body = body(move |ctx, turn| {
            let (remote, request) = (Arc::clone(&remote), Arc::clone(&request));
            Box::pin(async move { remote.turn(ctx, &request, turn).await })
        });
        Box::pin(async move { ctx.loop_with_state("proxy", Turn::default(), body).await })
    }

    /// Asks the caller the questions of the last round, and then runs the next round.
    fn turn<'a>(
        self: &'a Arc<Self>,
        ctx: &'a Ctx,
        request: &'a Request,
        turn: Turn,
    ) -> BoxFuture<'a, Result<ControlFlow<Value, Turn>>> {
        Box::pin(async move {
            let Turn { number, place, asks } = turn;
            let _cancels = Cancels { remote: self, ctx, place: &place };
            if number > self.config.max_rounds {
                self.abandon(&place);
                let (name, limit) = (self.label(), self.config.max_rounds);
                return Err(refusal(format!(
                    "the proxied server `{name}` still asks after {limit} rounds; raise `ProxyConfig::with_max_rounds` if this is expected"
                )));
            }
            let answers = match ask_all(ctx, &place, asks).await {
                Ok(answers) => answers,
                Err(error) => {
                    self.abandon(&place);
                    return Err(error);
                }
            };
            let round = ctx.step("round", || self.round(ctx, request, &place, answers)).await?;
            Ok(match round {
                Round::Done(value) => ControlFlow::Break(value),
                Round::Goes(place, asks) => ControlFlow::Continue(Turn { number: number + 1, place, asks }),
            })
        })
    }

    /// Runs one round. After a terminal error, the run is not retried, so the round also cancels the work of the other
    /// server.
    fn round<'a>(
        self: &'a Arc<Self>,
        ctx: &'a Ctx,
        request: &'a Request,
        place: &'a Place,
        answers: Answers,
    ) -> BoxFuture<'a, Result<Round>> {
        let exchange = self.exchange(ctx, request, place, answers);
        Box::pin(async move {
            let round = exchange.await;
            if round.as_ref().is_err_and(antiphon::Error::is_terminal) {
                self.abandon(place);
            }
            round
        })
    }

    /// Sends the request or the answers, and waits for the end of the round.
    fn exchange<'a>(
        self: &'a Arc<Self>,
        ctx: &'a Ctx,
        request: &'a Request,
        place: &'a Place,
        answers: Answers,
    ) -> BoxFuture<'a, Result<Round>> {
        Box::pin(async move {
            if let Place::Open(id) = place {
                let conversation = self.calls().get(id).map(|call| Arc::clone(&call.conversation));
                let Some(conversation) = conversation else { return Err(self.not_here()) };
                conversation.answer(answers);
                return self.attend(ctx, id, &conversation, request).await;
            }
            let failed = |error: Error| self.failed(&error);
            if self.speaks_modern().await.map_err(|error| self.failed(&error))? {
                let conversation = Arc::<Conversation>::default();
                let working = if matches!(place, Place::Task { .. }) {
                    // This round only polls a task, so the round starts no call. `modern` registers the task.
                    None
                } else {
                    let permit = self.permit().await.map_err(failed)?;
                    Some((permit, self.current.enter(&conversation, Some(self.config.timeout))))
                };
                let work = self.modern(ctx, &conversation, request, place, answers);
                let round = conversation.telling(ctx, work).await;
                let is_answered = matches!(round, Ok(_) | Err(Error::Server { .. }));
                if let Some((_permit, entered)) = working
                    && is_answered
                {
                    entered.answered();
                }
                return self.checked(round.map_err(failed)?);
            }
            if !matches!(place, Place::Start) {
                return Err(self.not_here());
            }
            let lease = self.lease(Owner::of(ctx), ctx.log_level()).await.map_err(failed)?;
            let (id, conversation) = self.open_call(lease, request, ctx.principal()).map_err(failed)?;
            self.attend(ctx, &id, &conversation, request).await
        })
    }

    /// Runs one round with a 2026-07-28 server.
    async fn modern(
        &self,
        ctx: &Ctx,
        conversation: &Arc<Conversation>,
        request: &Request,
        place: &Place,
        answers: Answers,
    ) -> Result<Round, Error> {
        let mut given = Map::new();
        for (key, answer) in answers {
            // In a 2026-07-28 round, `ask_all` has already returned errors to the caller.
            given.extend(answer.ok().map(|answer| (key, answer)));
        }
        if let Place::Task { id, given: before } = place {
            let keys: Vec<String> = before.iter().chain(given.keys()).cloned().collect();
            let limit = self.config.task_timeout;
            self.current.task_runs(id, limit);
            let tell = |info: &TaskInfo| conversation.task(info);
            let stage = timeout(limit, self.shared.stage(id, given, &keys, tell)).await;
            let stage = stage.map_err(|_| late(request, limit))?;
            match &stage {
                Ok(Stage::Done(_)) | Err(Error::TaskCancelled { .. } | Error::TaskUnknown { .. }) => {
                    self.current.task_ended(id);
                }
                Ok(Stage::Asks(_)) => self.current.task_runs(id, self.config.timeout),
                Err(_) => {}
            }
            return Ok(match stage? {
                Stage::Asks(asks) => Round::Goes(Place::Task { id: id.clone(), given: keys }, asks),
                Stage::Done(value) => Round::Done(value),
            });
        }
        let mut params = request.params.clone();
        if let Place::State(Some(state)) = place {
            params["requestState"] = json!(state);
        }
        if !given.is_empty() {
            params["inputResponses"] = Value::Object(given);
        }
        let heard = Arc::clone(conversation);
        let options = Options {
            timeout: Some(self.config.timeout),
            progress: Some(Arc::new(move |progress| heard.progress(progress))),
            log_level: ctx.log_level().map(|level| name_of_level(level).to_owned()),
            capabilities: Some(Owner::of(ctx).capabilities),
            ..Options::default()
        };
        let sent = self.shared.send_with_headers(request.method, params, &options);
        // The request has a time limit. This limit also ends a reconnect before the request.
        let answer = timeout(self.config.timeout.saturating_add(RETRY), sent).await;
        let mut value = answer.map_err(|_| late(request, self.config.timeout))??.value;
        match value["resultType"].as_str() {
            Some("input_required") => {
                let asks = match value["inputRequests"].take() {
                    Value::Object(asks) => asks,
                    _ => Map::new(),
                };
                let state = value["requestState"].as_str().map(str::to_owned);
                if asks.is_empty() && state.is_none() {
                    let problem =
                        "the result is `input_required`, but has neither `inputRequests` nor `requestState`";
                    return Err(Error::Malformed { method: request.method.into(), problem: problem.into() });
                }
                if asks.is_empty() {
                    tokio::time::sleep(RETRY).await;
                }
                Ok(Round::Goes(Place::State(state), asks))
            }
            // The ID of the task is recorded before the task is polled, so that another replica can also poll the
            // task.
            Some("task") => match TaskInfo::read(&value) {
                Some(info) => {
                    conversation.task(&info);
                    self.current.task_runs(&info.id, self.config.task_timeout);
                    Ok(Round::Goes(Place::Task { id: info.id, given: Vec::new() }, Map::new()))
                }
                None => Err(Error::Malformed {
                    method: request.method.into(),
                    problem: "the task has no ID or no status".into(),
                }),
            },
            _ => Ok(Round::Done(value)),
        }
    }

    /// Starts a call to a 2025-11-25 server. The call stays open in this process until the call ends, or until its
    /// questions are not answered in time.
    fn open_call(
        self: &Arc<Self>,
        lease: Lease,
        request: &Request,
        principal: Option<&str>,
    ) -> Result<(String, Arc<Conversation>), Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::Misuse(format!("no random bytes are available: {error}")))?;
        let id = format!("{:032x}", u128::from_ne_bytes(bytes));
        let conversation = Arc::<Conversation>::default();
        let entered = lease.begin(&conversation);
        let open =
            OpenCall { principal: principal.map(str::to_owned), conversation: Arc::clone(&conversation) };
        self.calls().insert(id.clone(), open);
        let (remote, request) = (Arc::clone(self), request.clone());
        let (name, call) = (id.clone(), Arc::clone(&conversation));
        tokio::spawn(async move {
            let result = tokio::select! {
                biased;
                result = session_call(&lease, &call, &request) => Ok(result),
                cancelled = call.cancelled(remote.config.answer_timeout) => Err(cancelled),
            };
            drop((entered, request));
            let kept = match result {
                Ok(result) => {
                    if matches!(result, Err(Error::Lost { .. })) {
                        drop(lease);
                    } else {
                        lease.end();
                    }
                    call.end(result);
                    KEPT
                }
                Err(Cancelled { reason, kept }) => {
                    call.end(Err(Error::Misuse(reason)));
                    // Keep the connection open for this time, so that the cancellation is sent before the connection
                    // closes.
                    tokio::time::sleep(RETRY).await;
                    drop(lease);
                    kept
                }
            };
            call.forgotten(kept, remote.config.answer_timeout).await;
            remote.calls().remove(&name);
        });
        Ok((id, conversation))
    }

    /// Waits for the next questions or the result of an open call.
    async fn attend(
        &self,
        ctx: &Ctx,
        id: &str,
        conversation: &Arc<Conversation>,
        request: &Request,
    ) -> Result<Round> {
        let attached = conversation.attach();
        let limit = if request.is_task { self.config.task_timeout } else { self.config.timeout };
        let next = conversation.telling(ctx, timeout(limit, conversation.next())).await;
        // If no event arrives in time or the questions are too large, `attached` is dropped, which cancels the call.
        let Ok(next) = next else { return Err(self.failed(&late(request, limit))) };
        match next {
            Next::Asks(asks) => {
                let round = self.checked(Round::Goes(Place::Open(id.to_owned()), asks))?;
                attached.leave();
                self.limit_waiting(ctx.principal());
                Ok(round)
            }
            Next::Ended(Ok(value)) => self.checked(Round::Done(value)),
            Next::Ended(Err(error)) => Err(self.failed(&error)),
        }
    }

    /// Returns an error if the result or the questions of a round exceed the size limit.
    fn checked(&self, round: Round) -> Result<Round> {
        let (bytes, most) = (serde_json::to_vec(&round)?.len(), self.config.max_bytes);
        if bytes <= most {
            return Ok(round);
        }
        let name = self.label();
        Err(refusal(format!(
            "the answer of the proxied server `{name}` has {bytes} bytes, more than the limit of {most}; raise `ProxyConfig::with_max_bytes`"
        )))
    }

    /// Returns the error for an open call that does not exist in this process.
    fn not_here(&self) -> antiphon::Error {
        let (name, limit) = (self.label(), self.config.answer_timeout);
        refusal(format!(
            "the call of the proxied server `{name}` cannot be continued: it uses MCP 2025-11-25, whose open calls are in the memory of one process; this process has restarted, another replica has the call, too many calls waited for answers, or the answer took longer than {limit:?}; call the tool again"
        ))
    }

    /// Converts an error of the other server. The details of a failed connection are only logged, because these details
    /// can contain addresses and output of the server.
    fn failed(&self, error: &Error) -> antiphon::Error {
        let (label, name) = (self.label(), self.name());
        match error {
            Error::Server { code, message, data } => {
                let converted = antiphon::Error::protocol(*code, message);
                match data {
                    Some(data) => converted.with_data(data.clone()),
                    None => converted,
                }
                .terminal()
            }
            Error::PagesRequired(pages) => {
                antiphon::Error::url_elicitation_required(pages.iter().map(|page| {
                    let id = page.elicitation_id.clone().unwrap_or_default();
                    UrlElicitation::new(id, page.url.clone(), page.message.clone())
                }))
                .terminal()
            }
            Error::Connect { .. } | Error::Unauthorized { .. } | Error::Authorization { .. } => {
                tracing::warn!(server = name, error = %chain(error), "a proxied server is not available");
                antiphon::Error::tool(format!("the proxied server `{label}` is not available"))
            }
            error => {
                tracing::warn!(server = name, error = %chain(error), "a call to a proxied server failed");
                refusal(format!("the proxied server `{label}`: {error}"))
            }
        }
    }

    /// Cancels the work of the other server.
    fn abandon(&self, place: &Place) {
        match place {
            Place::Start | Place::State(_) => {}
            Place::Open(id) => {
                if let Some(call) = self.calls().get(id) {
                    call.conversation.abandon();
                }
            }
            Place::Task { id, .. } => {
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                let (task, current, id) = (self.shared.task(id), Arc::clone(&self.current), id.clone());
                runtime.spawn(async move {
                    let has_ended = match task.cancel().await {
                        Ok(info) => info.status.is_finished(),
                        Err(error) => matches!(error, Error::TaskUnknown { .. }),
                    };
                    if has_ended {
                        current.task_ended(&id);
                    }
                });
            }
        }
    }
}

/// Returns a closure with the type that `Ctx::loop_with_state` requires. The compiler cannot infer that the future of
/// the closure is `Send` for every lifetime of the context.
fn body<F>(body: F) -> F
where
    F: for<'a> Fn(&'a Ctx, Turn) -> BoxFuture<'a, Result<ControlFlow<Value, Turn>>>,
{
    body
}

/// Calls a 2025-11-25 server. The connection forwards the questions of the server to the conversation.
async fn session_call(lease: &Lease, call: &Arc<Conversation>, request: &Request) -> Result<Value, Error> {
    let connection = lease.connection();
    if request.method == "tools/call" {
        let heard = Arc::clone(call);
        let tool = request.params["name"].as_str().unwrap_or_default();
        let calling = connection.call(tool, &request.params["arguments"]);
        let result = calling.progress(move |progress| heard.progress(progress)).await?;
        return serde_json::to_value(result)
            .map_err(|error| Error::Malformed { method: request.method.into(), problem: error.to_string() });
    }
    let answer = connection.conclude(request.method, request.params.clone(), &Options::default()).await?;
    Ok(answer.value)
}

/// Asks the questions of a round. In a session, errors of the caller's client are sent to the other server as answers.
fn ask_all<'a>(ctx: &'a Ctx, place: &Place, asks: Map<String, Value>) -> BoxFuture<'a, Result<Answers>> {
    let in_session = matches!(place, Place::Open(_));
    let asking = asks.into_iter().map(move |(key, request)| async move {
        let method = request["method"].as_str().unwrap_or_default();
        let params = cleaned(&request["params"]);
        let named = params["_meta"]["antiphon/key"].as_str().unwrap_or_else(|| name_of(&key)).to_owned();
        let answer = match ctx.forward(&named, method, params).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(as_answer(&error).filter(|_| in_session).ok_or(error)?),
        };
        Ok::<_, antiphon::Error>((key, answer))
    });
    let asking = join_all(asking);
    Box::pin(async move { asking.await.into_iter().collect() })
}

/// Converts an error of the caller's client into an answer. Errors that do not come from the caller's client end the
/// run.
fn as_answer(error: &antiphon::Error) -> Option<ErrorData> {
    match error.kind() {
        ErrorKind::Client { code, message } => Some(ErrorData::new(ErrorCode(*code), message.clone(), None)),
        ErrorKind::Unsupported(_) => Some(ErrorData::invalid_params(error.to_string(), None)),
        ErrorKind::Model(_) | ErrorKind::Unanswered => {
            Some(ErrorData::internal_error(error.to_string(), None))
        }
        _ => None,
    }
}

/// Returns the parameters of a question, without the parts that belong to the connection to the other server. The
/// returned parameters also lack the mark that allows the model to relay the answer, because only tools of this server
/// can give this permission.
fn cleaned(params: &Value) -> Value {
    let mut params = params.clone();
    if let Some(params) = params.as_object_mut() {
        params.remove("task");
        if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.retain(|key, _| {
                key != "progressToken" && key != "antiphon/relay" && !key.starts_with(RESERVED_META)
            });
        }
    }
    params
}

/// The prefix of the `_meta` keys that MCP defines. Values under keys with this prefix belong to one connection.
pub(super) const RESERVED_META: &str = "io.modelcontextprotocol/";

fn late(request: &Request, limit: Duration) -> Error {
    Error::Timeout { method: request.method.into(), after: limit, stray: None }
}

/// Returns an error that is not retried, because the other server may have executed the call.
fn refusal(message: String) -> antiphon::Error {
    antiphon::Error::tool(message).terminal()
}

/// Returns the text of an error with its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A guard that cancels the work of the other server when the run of the caller is cancelled.
struct Cancels<'a> {
    remote: &'a Remote,
    ctx: &'a Ctx,
    place: &'a Place,
}

impl Drop for Cancels<'_> {
    fn drop(&mut self) {
        if self.ctx.is_cancelled() {
            self.remote.abandon(self.place);
        }
    }
}
