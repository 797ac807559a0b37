//! Handles requests that start or resume a run. Each request runs one leg and returns its reply.

use std::{
    collections::BTreeSet,
    ops::Deref,
    sync::{Arc, LazyLock},
    time::{Duration, SystemTime},
};

use antiphon_replay::{Journal, Key, Machine, Suspension};
use rmcp::{
    ErrorData,
    model::{InputRequest, InputRequests, InputRequiredResult, InputResponses},
};
use serde_json::{Map, Value};

use super::{Client, Revision, admit::enter};
use crate::{
    base::digest,
    error::{Error, ErrorKind, Result},
    function::Erased,
    limits::{Admission, Quota},
    mcp::Service,
    output::Returned,
    protocol::reply::{put_trace, to_error_data},
    run::{
        self, AskOptions, Channel, Leg, Pace, Run,
        channels::{is_empty_answer, is_form},
        fits, fits_with_content, run_leg,
    },
    seal::{Binding, Opened, TooLarge},
    task::{NewTask, TaskView},
    telemetry::{How, LegSpan, Outcome},
};

/// A request that runs a function of the author: a tool, a prompt or a resource.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: &'static str,
    pub(super) name: &'a str,
    /// The arguments as the client sent them. The server compares these arguments if the client repeats the request.
    pub(super) arguments: &'a Value,
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<&'a str>,
    pub(super) timeout: Option<Duration>,
    /// The quota of the tool, if the tool has its own quota.
    pub(super) quota: Option<Quota>,
    pub(super) keep_alive: Option<Duration>,
    pub(super) declared: Option<Arc<BTreeSet<String>>>,
    pub(super) ask: AskOptions,
}

/// The reply that the client receives after a leg.
#[derive(Debug)]
pub(super) enum Reply<T> {
    Done(Result<T>, Revision, Option<Value>),
    InputRequired(InputRequiredResult),
    /// The run waits for an answer that does not come through the client, and continues as a task.
    Waits(Box<TaskView>),
}

/// Runs `function` until the function returns or asks a question. `check` validates the output of the function.
///
/// # Errors
///
/// Returns an error if the request itself is invalid. If `function` returns an error, `invoke` returns a reply that
/// contains this error.
pub(super) async fn invoke<T: Returned>(
    service: &Arc<Service>,
    call: Call<'_>,
    client: Client,
    function: &Erased<T>,
    arguments: Result<&Value>,
    check: impl Fn(&T) -> Result<()>,
) -> Result<Reply<T>, ErrorData> {
    let revision = client.revision();
    let (timeout, keep_alive) = (call.timeout, call.keep_alive);
    let (name, sent) = (call.name, call.arguments);
    let (arguments, invalid) = match arguments {
        Ok(arguments) => (arguments, None),
        Err(error) => (&Value::Null, Some(error)),
    };
    let admitted = admit(service, &call, &client).await?;
    let (run, binding) = match begin(service, call, client, admitted, invalid).await? {
        Ok(begun) => begun,
        Err(error) => return Ok(Reply::Done(Err(error), revision, None)),
    };
    let run = Arc::new(run);
    let pace = Pace {
        grace: service.runtime.limits.suspend_grace,
        limit: timeout.or(service.runtime.limits.tool_timeout),
        task_limit: None,
        keep_alive,
    };
    let ctx = function.ctx(&run);
    let mut future = function.call(&ctx, arguments);
    let result = match run_leg(&run, future.as_mut(), pace, run.client.cancelled().cancelled(), check).await {
        Leg::Done(result) => result,
        // Only a leg of a task can be stopped, and this leg does not belong to a task.
        Leg::Stopped(_) => Err(Error::new(ErrorKind::Cancelled)),
        Leg::Waits { suspension, due } if waits_elsewhere(&run, &suspension) => {
            match wait_elsewhere(service, &run, (name, sent, None), suspension, due).await {
                Ok(view) => {
                    run.leave();
                    return Ok(Reply::Waits(Box::new(view)));
                }
                Err(error) => Err(error),
            }
        }
        Leg::Waits { suspension, .. } => match input_required(&run, suspension, &binding).await {
            Ok(result) => {
                run.leave();
                return Ok(Reply::InputRequired(result));
            }
            Err(error) => Err(error),
        },
    };
    run.leave();
    run.ended(How::Over(Outcome::of(&result)));
    let trace = run.trace_of_end(result.is_ok());
    Ok(Reply::Done(result, revision, trace))
}

/// The caller of an admitted request, and the slot that the request occupies.
pub(super) struct Admitted {
    principal: Option<String>,
    place: Admission,
}

/// Admits a call of a function.
///
/// # Errors
///
/// Returns an error if the call would exceed a limit.
pub(super) async fn admit(
    service: &Service,
    call: &Call<'_>,
    client: &Client,
) -> Result<Admitted, ErrorData> {
    let principal = service.principal(client.extensions());
    let place = enter(service, call, principal.as_deref(), client).await?;
    Ok(Admitted { principal, place })
}

/// Starts or resumes the run of a request. Returns the run, and the binding with which the server encrypts the
/// `requestState` of the run. Most calls never use this binding, so the server computes the binding only on demand.
///
/// If the arguments are not valid, `invalid` contains the error. `begin` returns this error after `begin` has decrypted
/// the `requestState`, but before `begin` counts the run as started.
///
/// # Errors
///
/// Returns an error if the server cannot decrypt the `requestState` of the request.
pub(super) async fn begin<'a>(
    service: &'a Arc<Service>,
    call: Call<'a>,
    client: Client,
    Admitted { principal, place }: Admitted,
    invalid: Option<Error>,
) -> Result<Result<(Run, impl Deref<Target = Binding> + 'a)>, ErrorData> {
    let Call { method, name, arguments, mut responses, state, declared, ask, .. } = call;
    let caller = principal.clone().unwrap_or_default();
    let binding =
        LazyLock::new(move || Binding::new(&service.runtime.audience, &caller, method, name, arguments));
    let journal = match state {
        Some(state) if client.revision() == Revision::Rounds => Some(open(service, state, &binding).await?),
        _ => None,
    };
    if let Some(error) = invalid {
        return Ok(Err(error));
    }
    let of = (client.revision(), client.extensions());
    let span = LegSpan::of_request(&service.runtime.recorder, of, (method, name), journal.as_ref());
    let key = if ask.watches_client() { client_key(&client, principal.as_deref()) } else { None };
    let ignored = drop_quick(service, ask, journal.as_ref(), &mut responses);
    let mut run = Run::new(client, Arc::clone(&service.runtime), machine(journal, responses, ask));
    run.ask = ask;
    run.remember_client(key);
    if ignored {
        run.mark_unresponsive();
    }
    run.principal = principal;
    run.place = Some(place);
    run.declared = declared;
    run.span = span;
    Ok(Ok((run, binding)))
}

/// Returns the replay machine for the function. Returns `None` if the call contains no `requestState` and no answers.
fn machine(journal: Option<Journal>, responses: Option<InputResponses>, ask: AskOptions) -> Option<Machine> {
    let fits: fn(&Value, &Value) -> bool = if ask.watches_client() { fits_with_content } else { fits };
    (journal.is_some() || responses.is_some()).then(|| {
        let answers = responses.into_iter().flatten().map(|(key, mut answer)| {
            Channel::Client.mark(&mut answer);
            (Key::from(key), answer)
        });
        let journal = journal.unwrap_or_else(|| Journal::new(String::new()));
        Machine::new(journal).with_answers(answers).with_fits(fits)
    })
}

/// Returns the name under which the server records that a client does not show questions. Returns `None` for
/// unauthenticated callers over streamable HTTP. With a shared name, one of these callers could affect the questions to
/// the other callers.
fn client_key(client: &Client, principal: Option<&str>) -> Option<String> {
    let (kind, user) = client.user(principal)?;
    Some(digest(&[kind, user, &client.program().unwrap_or_default()]))
}

/// Removes empty answers that arrived faster than a user can answer. The client itself created such an answer, without
/// showing the question. Returns `true` if this function removed an answer.
fn drop_quick(
    service: &Service,
    ask: AskOptions,
    journal: Option<&Journal>,
    responses: &mut Option<InputResponses>,
) -> bool {
    let (Some(journal), Some(responses)) = (journal, responses) else { return false };
    // The clocks of replicas differ. So only the process that sent the question can determine how fast the answer
    // arrived.
    if !ask.watches_client() {
        return false;
    }
    let is_quick = |key: &str, kind| service.runtime.asked.has(&asked_key(journal, key, kind), ask.quick);
    let before = responses.len();
    responses.retain(|key, answer| {
        let refuses = matches!(answer["action"].as_str(), Some("decline" | "cancel"));
        let is_empty = is_empty_answer(&Value::Null, answer);
        !(is_empty && is_quick(key, FIELDS) || refuses && is_quick(key, NO_FIELDS))
    });
    responses.len() < before
}

/// The name for forms with fields. An empty answer to a form with fields has a different meaning than an empty answer
/// to a form without fields.
const FIELDS: &str = "fields";
const NO_FIELDS: &str = "none";

/// Returns the name under which the server records the time at which it sent a form.
fn asked_key(journal: &Journal, key: &str, kind: &str) -> String {
    format!("{}/{}/{kind}/{key}", journal.run, journal.round)
}

/// Records the time at which the server sent the forms of a round.
fn remember_forms(run: &Run, journal: &Journal, requests: &[(String, Value)]) {
    if !run.ask.watches_client() {
        return;
    }
    for (key, request) in requests.iter().filter(|(_, request)| is_form(request)) {
        let fields = request["params"]["requestedSchema"]["properties"].as_object();
        let kind = if fields.is_some_and(Map::is_empty) { NO_FIELDS } else { FIELDS };
        run.runtime.asked.put(asked_key(journal, key, kind), run.ask.quick);
    }
}

/// Returns `true` if the user must answer all open questions of the run through channels other than the client.
pub(super) fn waits_elsewhere(run: &Run, suspension: &Suspension) -> bool {
    !suspension.asks.is_empty() && suspension.asks.values().all(|request| run.is_asked_elsewhere(request))
}

/// Stores a run that waits for an answer that does not come through the client. The run continues as a task.
pub(super) async fn wait_elsewhere(
    service: &Service,
    run: &Run,
    (tool, arguments, call): (&str, &Value, Option<String>),
    suspension: Suspension,
    due: Option<u64>,
) -> Result<TaskView> {
    let Some(tasks) = &service.tasks else {
        return Err(Error::misuse(
            "the server cannot ask the user in the app form or on the answer page, because tasks are off; configure `ServerBuilder::with_tasks`",
        ));
    };
    let asks = suspension.asks.into_iter().map(|(key, request)| (key.to_string(), request)).collect();
    let mut new = NewTask::handed_over(tool, arguments.clone(), run);
    // The client does not show questions. So the task must not send its questions to the client.
    new.channels = new.channels.without_client();
    new.journal = Some(suspension.journal);
    new.asks = asks;
    new.due = due;
    new.call = call;
    tasks.check_waiting(&new).await?;
    let view = tasks.create(new).await?;
    run.ended(How::Waits);
    Ok(view)
}

/// The error message for every `requestState` that the server cannot decrypt. The message is always the same. So an
/// attacker who forges a `requestState` learns nothing from the message.
const REFUSED: &str = "Invalid or expired requestState";

/// Returns the error for a rejected `requestState`. Only the log contains the reason. The log does not contain the
/// call, because the URI of a resource can be private.
pub(super) fn refuse(service: &Service, reason: &'static str) -> ErrorData {
    service.runtime.recorder.seal_refused(reason);
    tracing::info!(reason, "a requestState was refused");
    ErrorData::invalid_params(REFUSED, None)
}

async fn open(service: &Service, state: &str, binding: &Binding) -> Result<Journal, ErrorData> {
    let opened = service.runtime.seal.open(state, binding, SystemTime::now());
    match opened.map_err(|reason| refuse(service, reason.name()))? {
        Opened::Journal(journal) => Ok(journal),
        Opened::Handle(handle) => match run::load(&service.runtime, &handle, binding).await {
            Ok(loaded) => loaded.map_err(|reason| refuse(service, reason.name())),
            Err(error) => Err(to_error_data(&error)),
        },
    }
}

pub(super) async fn input_required(
    run: &Run,
    suspension: Suspension,
    binding: &Binding,
) -> Result<InputRequiredResult> {
    let trace = run.trace_of(&suspension);
    let Suspension { journal, asks } = suspension;
    // The server does not yet send questions that use another channel than the client. These questions wait until the
    // client has answered its own questions.
    let asks = asks.into_iter().filter(|(_, request)| !run.is_asked_elsewhere(request));
    let runtime = &run.runtime;
    let limit = runtime.limits.max_rounds;
    if journal.round > limit {
        return Err(Error::new(ErrorKind::Limit(format!(
            "the run has taken {limit} rounds, its limit; ask several questions at once (`tokio::join!`), add a model for sampling requests (`ServerBuilder::with_model`), or raise `Limits::with_max_rounds` if your clients allow more"
        ))));
    }
    let sent: Vec<(String, Value)> =
        asks.map(|(key, request)| (key.to_string(), run.client.adapt(&request).into_owned())).collect();
    let requests: InputRequests = sent
        .iter()
        .map(|(key, request)| {
            let mut request = request.clone();
            run.span.put_place(&mut request);
            Ok((key.clone(), serde_json::from_value::<InputRequest>(request)?))
        })
        .collect::<Result<_>>()?;
    let sealed = run::seal(runtime, &journal, binding).await?;
    let state = sealed.map_err(|too_large| too_long(&journal, &too_large, runtime.backend.is_some()))?;
    runtime.recorder.seal_sent(state.len());
    remember_forms(run, &journal, &sent);
    run.ended(How::Round);
    let mut result = InputRequiredResult::new(Some(requests), Some(state));
    put_trace(&mut result.meta, trace);
    Ok(result)
}

fn too_long(journal: &Journal, too_large: &TooLarge, kept: bool) -> Error {
    let mut sizes: Vec<_> = journal
        .entries
        .iter()
        .map(|entry| (serde_json::to_vec(entry).map_or(0, |json| json.len()), &entry.key))
        .collect();
    sizes.sort_by(|a, b| b.cmp(a));
    let largest: Vec<_> = sizes.iter().take(3).map(|(size, key)| format!("`{key}` ({size} bytes)")).collect();
    let (place, remedy) = if kept {
        ("the store", "raise `SealConfig::with_max_kept_bytes`")
    } else {
        (
            "a `requestState`",
            "add a backend that stores the journal (`ServerBuilder::with_backend`), or raise `SealConfig::with_max_bytes`",
        )
    };
    Error::new(ErrorKind::Limit(format!(
        "the encrypted journal of the run has {} bytes, more than the limit of {} for {place}; its largest entries are {}; return less from these steps, or {remedy}",
        too_large.bytes,
        too_large.max_bytes,
        largest.join(", ")
    )))
}
