//! The tools with which models handle runs that continue on the server. A model can read the result of a run, show the
//! questions of a run to the user, or cancel a run.

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

/// The name of the tool with which models read the result of a run.
pub(super) const TASK_RESULT: &str = "task_result";

const RESULT: &str = "Returns the result of a tool call that has not finished, or says what to do next. Call it with the task ID from a NOT FINISHED or STILL WORKING answer.";

const CANCEL: &str =
    "Cancels a tool call that has not finished. Call it only if the user no longer wants the result.";

const QUESTION: &str = "Shows the user the form with the question of a tool call. Call it if a NOT FINISHED answer says so. Then end your turn.";

/// The `_meta` key under which a tool names its MCP App. Hosts that implement a draft of the MCP Apps specification
/// read this key.
const LEGACY_META: &str = "ui/resourceUri";

/// How long `task_result` waits by default for the end of the run, in seconds.
const WAIT: u64 = 10;
const MAX_WAIT: u64 = 20;

/// How long one call of these tools can take. The time in which the tool waits for users does not count.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The maximum number of questions that one call of `task_result` asks. Clients limit the number of rounds of a call,
/// so one call can ask only a few questions.
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

/// Returns the tools `task_result` and `task_cancel`, for clients that can receive waiting results.
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

/// Returns the tool `task_question`, which shows the form with the URI `uri`.
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

/// A question that `task_result` asks the user for a task.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    /// The wire key that identifies the question in the task.
    wire: String,
    /// The question key that the tool's author chose. A client can show a custom form for this question key.
    key: String,
    message: String,
    schema: Value,
    context: Option<Value>,
}

/// Returns the result of a task, or a text that describes the next step. If only the client that called `task_result`
/// can show the open questions, the function asks the user these questions.
///
/// On 2026-07-28, this function runs again from the top after each question. So the function reads the open questions
/// in a step. On replay, the step returns the same questions, even if the task has changed since the step. The function
/// also delivers each answer in a step. The function also reads the task outside of steps. These reads do not affect
/// which questions the function asks, so their results can change on replay.
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
                    // The client did not show the question to the user, so the user must answer through another
                    // channel.
                    ctx.step("leave", || caller.leave_client(id)).await?;
                }
                break 'task;
            };
            let answers = BTreeMap::from([(question.wire, answer)]);
            // If the user has already answered through another channel, the server ignores this second answer.
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
    /// Returns `true` if the client that called this tool can show forms.
    fn shows_forms(&self) -> bool {
        self.ctx.run.client.supports(Capability::Elicitation)
    }

    /// Waits until the task has ended or has a new question. Returns the questions that the client of this call must
    /// show to the user.
    async fn questions(&self, id: &str, wait: Duration) -> Result<Vec<Question>> {
        let Some(view) = self.tasks.get(&self.owner, id).await? else { return Ok(Vec::new()) };
        let asks = |view: &TaskView| {
            let shows = view.channels.client && self.shows_forms();
            shows && forms(view).any(|(_, request)| is_form(request))
        };
        // If the user must answer a question through another channel, this method does not count the question as new.
        // The method then waits until the user has answered.
        let known: BTreeSet<String> =
            if asks(&view) { BTreeSet::new() } else { view.asks.keys().cloned().collect() };
        let view = self.settled(view, &known, wait).await?.filter(asks);
        let asked = view.iter().flat_map(forms).filter(|(_, request)| is_form(request));
        Ok(asked.map(|(wire, request)| Question::new(wire, request)).collect())
    }

    /// Removes the channels that the client of this call does not support. The client of this call can be a different
    /// client than the client that started the run.
    pub(super) fn narrow(&self, view: &mut TaskView) {
        let reached = &self.ctx.run.client;
        let Channels { app, page, client } = view.channels;
        view.channels.app = app && reached.shows_apps();
        view.channels.page = page && self.asking.has_page_for(reached);
        view.channels.client = client && self.shows_forms();
    }

    /// Returns the result of a task that has ended. If the task has not ended, returns a text that tells the model of
    /// this call what to do next.
    pub(super) fn next_step(&self, mut view: TaskView) -> ToolOutput {
        if view.status.is_final() {
            return ended(&view);
        }
        self.narrow(&mut view);
        self.asking.output(&view)
    }

    /// Stops sending the questions of the task to the client, if the user can answer through another channel.
    async fn leave_client(&self, id: &str) -> Result<()> {
        self.tasks.leave_client(&self.owner, id).await
    }

    /// Stores the answers that the client of this call has returned. Returns `false` if the task does not exist.
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

/// Sends a question to the client of this call. Returns `None` if the client returns no valid answer. The question then
/// stays open.
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

/// Returns the output of a task that has ended, exactly as the tool of the task returned this output.
pub(super) fn ended(view: &TaskView) -> ToolOutput {
    match &view.ended {
        Some(Ended::Output(output)) => output.clone().into(),
        Some(Ended::Error { message, .. }) => ToolOutput::error(message.clone()),
        Some(Ended::Cancelled) | None => {
            ToolOutput::text(format!("The run of `{}` was cancelled. It has no result.", view.tool))
        }
    }
}
