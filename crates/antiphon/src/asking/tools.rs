//! Tools for models, for runs that continue on the server. With these tools, a model reads the result of a run, shows
//! its questions, or cancels it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Caller, forms, no_task, shown_id, stored_id, waiting::about_task};
use crate::{
    ctx::{Ctx, Elicited},
    error::{Capability, ErrorKind, Result},
    model::ToolAnnotations,
    protocol::UI_META,
    run::{Channel, Channels, channels::is_form},
    task::{Cancelled, Ended, TaskView},
    tool::{TaskPolicy, Tool, ToolOutput, Visibility},
    url_elicitation::{CONTEXT_META, KEY_META},
};

/// The name of the tool with which models read the results of runs.
pub(super) const TASK_RESULT: &str = "task_result";

const RESULT: &str = "Returns the result of a tool call that has not finished, or says what to do next. Call it with the task ID from a NOT FINISHED or STILL WORKING answer.";

const CANCEL: &str =
    "Cancels a tool call that has not finished. Call it only if the user no longer wants the result.";

const QUESTION: &str = "Shows the user the form with the question of a tool call. Call it if a NOT FINISHED answer says so. Then end your turn.";

/// The `_meta` key for the MCP App of a tool, for hosts that implement the specification before its final version.
const LEGACY_META: &str = "ui/resourceUri";

/// How long `task_result` waits for the run by default, in seconds.
const WAIT: u64 = 10;
const MAX_WAIT: u64 = 20;

/// The maximum duration of a call of these tools. The time in which they wait for users does not count.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The maximum number of questions that `task_result` asks in one call. The number is limited, because clients limit
/// the number of rounds of a call.
const MAX_QUESTIONS: usize = 8;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// The task: its ID from an earlier answer, like t_….
    id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shown {
    /// The task: its ID from an earlier answer, like t_….
    id: String,
    /// Whether to return a link to a web page with the question. Only if the user does not see the form.
    #[serde(default)]
    link: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The task: its ID from an earlier answer, like t_….
    id: String,
    /// How long to wait for the result, in seconds: at most 20. Default: 10.
    #[schemars(range(max = 20))]
    wait: Option<u64>,
}

/// Returns the tools for clients that can receive waiting results.
pub(super) fn tools(visibility: Visibility) -> Vec<Tool> {
    let annotations = |title: &str| ToolAnnotations::with_title(title).open_world(false);
    let tools = [
        Tool::new(TASK_RESULT, RESULT, task_result)
            .with_annotations(annotations("Read the result of a task").read_only(true)),
        Tool::new("task_cancel", CANCEL, task_cancel)
            .with_annotations(annotations("Cancel a task").destructive(true).idempotent(true)),
    ];
    tools.map(|tool| tool.with_timeout(TIMEOUT).with_tasks(TaskPolicy::Never).visible_to(visibility)).into()
}

/// Returns the tool that shows the form at `uri`.
pub(super) fn question(uri: &str) -> Tool {
    let annotations = ToolAnnotations::with_title("Show a question").read_only(true).open_world(false);
    Tool::new("task_question", QUESTION, task_question)
        .with_annotations(annotations)
        .with_meta(UI_META, json!({"resourceUri": uri}))
        .with_meta(LEGACY_META, uri)
        .with_timeout(TIMEOUT)
        .with_tasks(TaskPolicy::Never)
        .visible_to(Visibility::WithApps)
}

/// A question of a task, in the form in which this call asks it.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    /// The wire key of the question in the task.
    wire: String,
    /// The question key that the tool's author chose. Clients can have a custom form for this key.
    key: String,
    message: String,
    schema: Value,
    context: Option<Value>,
}

/// Returns the result of a task, or the next step. If only the client of this call can show the open questions, the
/// function asks the user these questions.
///
/// On 2026-07-28, this function runs again from the top after each question. The open questions are therefore read in
/// a step. On replay, this step returns the same questions, even if the task has changed since then. An answer is also
/// delivered in a step. No other read of the task affects which questions are asked. So the results of these reads can
/// change on replay.
async fn task_result(ctx: &Ctx, Wanted { id, wait }: Wanted) -> Result<ToolOutput> {
    let caller = Caller::of(ctx)?;
    let id = stored_id(&id);
    caller.task(id).await?;
    let wait = Duration::from_secs(wait.unwrap_or(WAIT).min(MAX_WAIT));
    let mut asked = 0;
    'task: while asked < MAX_QUESTIONS {
        let questions = ctx.step("questions", || caller.questions(id, wait)).await?;
        if questions.is_empty() {
            break;
        }
        for question in questions {
            asked += 1;
            let Some(answer) = ask(ctx, &question).await? else {
                if ctx.run.is_unresponsive() {
                    // The client has not shown the question, so the user must answer through another channel.
                    ctx.step("leave", || caller.leave_client(id)).await?;
                }
                break 'task;
            };
            let answers = BTreeMap::from([(question.wire, answer)]);
            // If the user has already answered through another channel, only the first answer counts.
            let delivered = ctx.step("deliver", || caller.deliver_of_client(id, answers)).await?;
            if !delivered {
                return Err(no_task());
            }
        }
    }
    let view = caller.task(id).await?;
    Ok(caller.next_step(view))
}

async fn task_cancel(ctx: &Ctx, Which { id }: Which) -> Result<ToolOutput> {
    let caller = Caller::of(ctx)?;
    let id = stored_id(&id);
    caller.task(id).await?;
    let shown = shown_id(id);
    let text = match caller.tasks.cancel(&caller.owner, id).await?.ok_or_else(no_task)? {
        Cancelled::Now(view) => format!("The run of `{}` is cancelled (task {shown}).", view.tool),
        Cancelled::Before(view) => {
            format!("The task {shown} has already ended: its status is `{}`.", view.status.name())
        }
    };
    Ok(ToolOutput::text(text))
}

async fn task_question(ctx: &Ctx, Shown { id, link }: Shown) -> Result<ToolOutput> {
    let caller = Caller::of(ctx)?;
    let mut view = caller.task(stored_id(&id)).await?;
    if forms(&view).next().is_none() {
        return Ok(caller.asking.output(&view));
    }
    let id = shown_id(&view.id);
    let call = format!("{{\"id\":\"{id}\"}}");
    view.channels.page &= caller.asking.has_page_for(&ctx.run.client);
    let page = if link { caller.asking.page_step(&view, true) } else { None };
    let about = match page {
        Some(page) => format!(
            "{page}\nOnly the user can answer. End your turn now. When the user says that the question is answered, call `task_result` with {call}."
        ),
        None if link => format!(
            "The server has no web page for this question (task {id}). Tell the user to answer it in the form, and end your turn. When the user says that the form is answered, call `task_result` with {call}."
        ),
        None => format!(
            "The form is shown to the user (task {id}). Only the user can answer it. End your turn now. When the user says that the form is answered, call `task_result` with {call}."
        ),
    };
    Ok(about_task(&view, &about))
}

impl Caller<'_> {
    /// Returns whether the client of this call can show forms.
    fn shows_forms(&self) -> bool {
        self.ctx.run.client.supports(Capability::Elicitation)
    }

    /// Waits until the task has ended or has a new question. Returns the questions that the client of this call must
    /// show.
    async fn questions(&self, id: &str, wait: Duration) -> Result<Vec<Question>> {
        let Some(view) = self.tasks.get(&self.owner, id).await? else { return Ok(Vec::new()) };
        let asks = |view: &TaskView| {
            let shows = view.channels.client && self.shows_forms();
            shows && forms(view).any(|(_, request)| is_form(request))
        };
        // If the user must answer a question through another channel, this question is not new. The method then waits
        // for the answer.
        let known: BTreeSet<String> =
            if asks(&view) { BTreeSet::new() } else { view.asks.keys().cloned().collect() };
        let view = self.settled(view, &known, wait).await?.filter(asks);
        let asked = view.iter().flat_map(forms).filter(|(_, request)| is_form(request));
        Ok(asked.map(|(wire, request)| Question::new(wire, request)).collect())
    }

    /// Removes the channels that the client of this call does not have. The client that started the run can be a
    /// different client.
    pub(super) fn narrow(&self, view: &mut TaskView) {
        let reached = &self.ctx.run.client;
        let Channels { app, page, client } = view.channels;
        view.channels.app = app && reached.shows_apps();
        view.channels.page = page && self.asking.has_page_for(reached);
        view.channels.client = client && self.shows_forms();
    }

    /// If a task has ended, returns its result. Otherwise, returns the next step for the model of this call.
    pub(super) fn next_step(&self, mut view: TaskView) -> ToolOutput {
        if view.status.is_final() {
            return ended(&view);
        }
        self.narrow(&mut view);
        self.asking.output(&view)
    }

    /// Stops asking the questions of the task through the client, if there is another channel.
    async fn leave_client(&self, id: &str) -> Result<()> {
        self.tasks.leave_client(&self.owner, id).await
    }

    /// Stores the answers that the client of this call has returned. Returns whether the task exists.
    async fn deliver_of_client(&self, id: &str, answers: BTreeMap<String, Value>) -> Result<bool> {
        Ok(self.deliver(id, answers, Channel::Client).await?.is_some())
    }
}

impl Question {
    fn new(wire: &str, request: &Value) -> Self {
        let params = &request["params"];
        let meta = &params["_meta"];
        Self {
            wire: wire.to_owned(),
            key: meta[KEY_META].as_str().unwrap_or("answer").to_owned(),
            message: params["message"].as_str().unwrap_or_default().to_owned(),
            schema: params["requestedSchema"].clone(),
            context: meta.get(CONTEXT_META).cloned(),
        }
    }
}

/// Asks the user through the client of this call. If the client returns no valid answer, returns `None`, and the
/// question stays open.
async fn ask(ctx: &Ctx, question: &Question) -> Result<Option<Value>> {
    let form = ctx.elicit_value(&question.key, question.message.as_str(), question.schema.clone());
    let form = match &question.context {
        Some(context) => form.context(context),
        None => form,
    };
    match form.await {
        Ok(Elicited::Accept(answer)) => Ok(Some(json!({"action": "accept", "content": answer.value}))),
        Ok(Elicited::Decline(_)) => Ok(Some(json!({"action": "decline"}))),
        Ok(Elicited::Cancel(_)) => Ok(Some(json!({"action": "cancel"}))),
        Err(error) => match error.kind() {
            ErrorKind::InvalidAnswer { .. }
            | ErrorKind::Unanswered
            | ErrorKind::Client { .. }
            | ErrorKind::Unsupported(_) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns the output of a task that has ended, in the form in which its tool returned it.
pub(super) fn ended(view: &TaskView) -> ToolOutput {
    match &view.ended {
        Some(Ended::Output(output)) => output.clone().into(),
        Some(Ended::Error { message, .. }) => ToolOutput::error(message.clone()),
        Some(Ended::Cancelled) | None => {
            ToolOutput::text(format!("The run of `{}` was cancelled. It has no result.", view.tool))
        }
    }
}
