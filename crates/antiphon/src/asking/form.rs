//! The form that shows questions, and the tools that the form calls. The form is a web page that hosts show as an MCP
//! App. The field `_meta.ui.visibility` hides the tools of the form from models.
//!
//! Hosts can ignore `_meta.ui.visibility`, so the tools of the form also require a view key. Only the HTML of the form
//! contains the view key.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Asking, Caller, NO_TASK, forms, shown_id, stored_id,
    ticket::{Holder, Rejected, Ticket},
    waiting::clean,
};
use crate::{
    base::{now_millis, sha256, timestamp},
    ctx::Ctx,
    error::{Error, Result},
    model::ToolAnnotations,
    protocol::{APP_MEDIA_TYPE, UI_META},
    registry::Registry,
    resource::Resource,
    run::{
        Channel,
        channels::{Link, link},
        client::Connection,
    },
    schema::Validator,
    task::{Delivered, OpenQuestions, TaskView},
    tool::{TaskPolicy, Tool, ToolOutput},
    url_elicitation::CONTEXT_META,
};

/// The HTML of the form, before the server inserts the view key.
const FORM: &str = include_str!("form.html");

/// The text in the HTML of the form that the server replaces with the view key.
const VIEW_KEY: &str = "__VIEW_KEY__";

/// The beginning of the form's URI. The complete URI also contains a digest of the HTML, because hosts cache web pages
/// by URI.
const URI: &str = "ui://antiphon/form";

/// How long `ask_answer` waits after an answer until the run ends or asks the next question.
const PATIENCE: Duration = Duration::from_secs(8);

/// The maximum duration of a call of `ask_open` or `ask_answer`.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum length of messages and problem descriptions in the form, in characters.
const TEXT_CHARS: usize = 300;

/// The HTML of the form that the server sends to hosts, and the URI of the form.
pub(super) struct Page {
    uri: String,
    html: String,
}

impl Page {
    pub(super) fn new(view_key: &str) -> Self {
        let html = FORM.replace(VIEW_KEY, view_key);
        // The digest also covers the view key. So when the view key changes, hosts do not show a cached form with the
        // old view key.
        let uri = format!("{URI}/{}", &sha256(html.as_bytes())[..16]);
        Self { uri, html }
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }
}

/// Returns the MCP resource that contains the form.
pub(super) fn resource(page: &Page) -> Resource {
    async fn read(ctx: &Ctx, _: ()) -> Result<String> {
        let page = ctx.state::<Arc<Asking>>()?.page.as_ref();
        page.map(|page| page.html.clone()).ok_or_else(|| {
            Error::misuse("the server does not offer forms; configure `ServerBuilder::with_asking`")
        })
    }
    Resource::new(page.uri(), "question form", read)
        .in_family(URI)
        // The models of clients without MCP Apps must not read the view key.
        .for_apps()
        .with_title("Question")
        .with_description("Shows a question of a tool to the user")
        .with_mime_type(APP_MEDIA_TYPE)
        .with_size(page.html.len() as u64)
        .with_meta(UI_META, json!({"prefersBorder": true}))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Open {
    /// The view key of the form.
    view: String,
    /// The task: its ID, like t_…. Without it, the question that waits for the caller.
    id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answered {
    /// The view key of the form.
    view: String,
    /// The task: its ID, like t_….
    id: String,
    /// The ticket that `ask_open` returned with the questions.
    ticket: String,
    /// The answers, by question.
    responses: BTreeMap<String, Response>,
}

/// The user's answer to a question.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Response {
    action: Action,
    /// The values of the form, if the action is `accept`.
    content: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

impl Response {
    /// Converts the answer into the format in which an MCP client sends an answer. The converted answer contains only
    /// `action` and `content`, even if the form sent further fields.
    pub(super) fn into_answer(self) -> Value {
        match self.action {
            Action::Accept => json!({"action": "accept", "content": self.content.unwrap_or_default()}),
            Action::Decline => json!({"action": "decline"}),
            Action::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// Returns the tools `ask_open` and `ask_answer`, which the form calls.
pub(super) fn tools() -> [Tool; 2] {
    let annotations = || ToolAnnotations::new().open_world(false);
    [
        Tool::new("ask_open", "Returns the open questions of a task. For the form.", ask_open)
            .with_annotations(annotations().read_only(true)),
        Tool::new("ask_answer", "Delivers the user's answers to a task. For the form.", ask_answer)
            .with_annotations(annotations().read_only(false).destructive(false).idempotent(true)),
    ]
    .map(|tool| {
        tool.with_meta(UI_META, json!({"visibility": ["app"]}))
            .with_timeout(TIMEOUT)
            .with_tasks(TaskPolicy::Never)
    })
}

async fn ask_open(ctx: &Ctx, Open { view, id }: Open) -> Result<ToolOutput> {
    let caller = Caller::of(ctx)?;
    if !caller.is_form(&view) {
        return Ok(wrong_view());
    }
    let id = match id {
        Some(id) => stored_id(&id).to_owned(),
        None if !caller.is_distinct() => {
            return Ok(refused("NOT_FOUND", "the form was opened without the ID of a task; pass its `id`"));
        }
        None => {
            let mut waiting = caller.tasks.waiting(&caller.owner).await?;
            waiting.retain(|view| forms(view).next().is_some() && caller.permit(&view.tool).is_ok());
            match waiting.as_slice() {
                [] => return Ok(state(json!({"status": "none"}))),
                [only] => only.id.clone(),
                several => return Ok(state(caller.choices(several))),
            }
        }
    };
    caller.show(&id).await
}

async fn ask_answer(ctx: &Ctx, answered: Answered) -> Result<ToolOutput> {
    let Answered { view, id, ticket: sealed, responses } = answered;
    let caller = Caller::of(ctx)?;
    if !caller.is_form(&view) {
        return Ok(wrong_view());
    }
    let id = stored_id(&id);
    let Some(open) = caller.open(id).await? else { return Ok(not_found()) };
    let ticket = match Ticket::open(&sealed, &ctx.run.runtime.seal, caller.holder(), now_millis()) {
        Ok(ticket) => ticket,
        Err(Rejected::Expired) => {
            return Ok(refused("EXPIRED", "the form has expired; open the question again"));
        }
        Err(Rejected::Invalid) => return Ok(wrong_ticket()),
    };
    let covered = responses.keys().all(|key| ticket.questions.contains(key));
    if ticket.task != id || responses.is_empty() || !covered {
        return Ok(wrong_ticket());
    }
    let answered: BTreeSet<String> = responses.keys().cloned().collect();
    let answers: BTreeMap<String, Value> =
        responses.into_iter().map(|(key, response)| (key, response.into_answer())).collect();
    let problems = misfits(&open.view, &answers);
    if !problems.is_empty() {
        return Ok(state(
            json!({"status": "invalid", "id": shown_id(id), "ticket": sealed, "problems": problems}),
        ));
    }
    // The store accepts only the first answer to a question. So if the form sends an answer twice, the second request
    // has no effect.
    match caller.deliver(id, answers, Channel::App).await? {
        None => Ok(not_found()),
        Some(Delivered::Used) => Ok(state(json!({"status": "used", "id": shown_id(id)}))),
        Some(Delivered::Taken(view) | Delivered::Repeated(view)) => {
            caller.settled(view, &answered, PATIENCE).await?;
            caller.show(id).await
        }
    }
}

impl Caller<'_> {
    /// Returns `true` if a request came from the form. Only requests from the form contain the view key.
    fn is_form(&self, view: &str) -> bool {
        let runtime = &self.ctx.run.runtime;
        runtime.seal.is_view_key(view, &runtime.audience)
    }

    /// Returns `true` if the server can distinguish this caller from all other callers. All unauthenticated callers
    /// have the same owner, so they would see each other's questions. Over stdio, a process serves only one client, so
    /// there is only one user. But if several processes share their tasks, there can be several unauthenticated users.
    fn is_distinct(&self) -> bool {
        let is_only = self.ctx.run.client.connection().is_some_and(Connection::is_only);
        (is_only && self.ctx.run.runtime.backend.is_none()) || self.ctx.principal().is_some()
    }

    fn holder(&self) -> Holder<'_> {
        Holder { audience: &self.ctx.run.runtime.audience, principal: self.ctx.principal() }
    }

    /// Returns a task of the caller, with the arguments of the tool call. Returns `None` if the caller has no task with
    /// the ID `id`, or is not allowed to call the tool of the task.
    async fn open(&self, id: &str) -> Result<Option<OpenQuestions>> {
        let found = self.tasks.questions(&self.owner, id).await?;
        Ok(found.filter(|open| self.permit(&open.view.tool).is_ok()))
    }

    /// Returns a task and its open questions, in the format that the form reads.
    async fn show(&self, id: &str) -> Result<ToolOutput> {
        let Some(OpenQuestions { view, arguments, principal }) = self.open(id).await? else {
            return Ok(not_found());
        };
        let questions: Map<String, Value> =
            forms(&view).map(|(key, request)| (key.clone(), question(request))).collect();
        let waits = !questions.is_empty();
        let mut shown = json!({
            // A task can also wait for an answer that a form cannot collect.
            "status": if waits || view.status.is_final() { view.status.name() } else { "working" },
            "id": shown_id(&view.id),
            "server": self.asking.server,
            "tool": self.title(&view.tool),
        });
        if waits {
            let keys = questions.keys().cloned().collect();
            let life = (now_millis(), self.asking.policy.expiry);
            let ticket = Ticket::new(&view.id, keys, life, view.questions_end);
            shown["ticket"] = ticket.seal(&self.ctx.run.runtime.seal, self.holder()).into();
            shown["expires_at"] = timestamp(ticket.expires).into();
            shown["arguments"] = arguments;
            shown["for"] = principal.into();
            shown["questions"] = Value::Object(questions);
        }
        Ok(state(shown))
    }

    /// Returns the tasks that have open questions, so that the user can choose a task in the form.
    fn choices(&self, views: &[TaskView]) -> Value {
        let choice = |view: &TaskView| {
            let question = forms(view).next().and_then(|(_, request)| request["params"]["message"].as_str());
            json!({
                "id": shown_id(&view.id),
                "tool": self.title(&view.tool),
                "message": clean(question.unwrap_or_default(), TEXT_CHARS),
                "updated_at": timestamp(view.updated),
            })
        };
        json!({"status": "choose", "choices": views.iter().map(choice).collect::<Vec<_>>()})
    }

    fn title(&self, tool: &str) -> String {
        title(&self.catalog.registry(), tool)
    }
}

/// Returns the title that users see for a tool. If the tool has no title, returns the description of the tool. If the
/// tool has no description either, returns the name of the tool.
pub(super) fn title(registry: &Registry, tool: &str) -> String {
    let Some(definition) = registry.tool(tool).map(|tool| tool.definition()) else {
        return tool.to_owned();
    };
    let annotated = definition.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
    let title = definition.title.as_deref().or(annotated).or(definition.description.as_deref());
    clean(title.unwrap_or(tool), TEXT_CHARS)
}

/// Returns a question in the format that the form reads.
fn question(request: &Value) -> Value {
    let params = &request["params"];
    if let Some(Ok(Link { url, host })) = link(request) {
        return json!({"message": params["message"], "url": url, "host": host});
    }
    json!({
        "message": params["message"],
        "schema": params["requestedSchema"],
        "context": params["_meta"][CONTEXT_META],
    })
}

/// Returns the problems of answers to open questions, for each question and field. If a question is already closed,
/// this function does not check the answer, because the answer is repeated or too late.
pub(super) fn misfits(view: &TaskView, answers: &BTreeMap<String, Value>) -> Map<String, Value> {
    let accepted = answers.iter().filter(|(_, answer)| answer["action"] == "accept");
    let open = accepted.filter_map(|(key, answer)| Some((key, view.asks.get(key)?, &answer["content"])));
    let checked = open
        .map(|(key, request, content)| (key, field_problems(&request["params"]["requestedSchema"], content)));
    checked
        .filter(|(_, problems)| !problems.is_empty())
        .map(|(key, problems)| (key.clone(), Value::Object(problems)))
        .collect()
}

/// Returns the problem of each field whose value is invalid. If a problem concerns the whole form, the field name is
/// empty.
fn field_problems(schema: &Value, content: &Value) -> Map<String, Value> {
    let mut problems = Map::new();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for field in required.filter(|field| content.get(field).is_none_or(Value::is_null)) {
        problems.insert(field.to_owned(), "is required".into());
    }
    let lines = match schema.as_object().map(Validator::new) {
        Some(Ok(validator)) => validator.problems(content),
        // If the validator cannot compile the schema here, only the tool checks the answer.
        Some(Err(_)) | None => Vec::new(),
    };
    // These lines concern the whole form. The loop over `required` has already reported the missing fields.
    let is_reported = |line: &str| line.starts_with('"') && line.ends_with("is a required property");
    for line in lines.iter().filter(|line| !is_reported(line)) {
        // A problem text begins with the path of the field, for example `tags.0: `.
        let named = line.split_once(": ").and_then(|(path, problem)| {
            let field = path.split('.').next()?;
            schema["properties"].get(field).is_some().then_some((field, problem))
        });
        let (field, problem) = named.unwrap_or(("", line.as_str()));
        problems.entry(field).or_insert_with(|| clean(problem, TEXT_CHARS).into());
    }
    problems
}

/// Returns a task, in the JSON format that the form reads, as a tool result. The result also contains the JSON as text,
/// because some hosts forward only the text.
fn state(state: Value) -> ToolOutput {
    ToolOutput::default().with_structured(state)
}

fn refused(code: &str, message: &str) -> ToolOutput {
    ToolOutput::error(message).with_structured(json!({"error": {"code": code, "message": message}}))
}

fn wrong_view() -> ToolOutput {
    refused("VIEW", "this tool is only for the form of the server; load the form again, and answer there")
}

fn wrong_ticket() -> ToolOutput {
    refused("TICKET", "the ticket does not belong to this answer; open the question again")
}

fn not_found() -> ToolOutput {
    refused("NOT_FOUND", NO_TASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_has_one_place_for_its_view_key_and_a_uri_that_changes_with_it() {
        assert_eq!(FORM.matches(VIEW_KEY).count(), 1);
        let (one, other) = (Page::new("1"), Page::new("2"));
        assert!(!one.html.contains(VIEW_KEY));
        assert_eq!(one.uri(), Page::new("1").uri());
        assert_ne!(one.uri(), other.uri());
        let hash = one.uri().strip_prefix(URI).unwrap();
        let hash = hash.strip_prefix('/').unwrap();
        assert!(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{hash}");
    }

    #[cfg(feature = "validate")]
    #[test]
    fn problems_are_named_by_field() {
        let schema = json!({
            "type": "object",
            "properties": {
                "desk": {"type": "string"},
                "floor": {"type": "integer", "maximum": 8},
                "days": {"type": "array", "items": {"enum": ["Mon", "Tue"]}},
            },
            "required": ["desk", "floor"],
        });
        let problems = |content: Value| Value::Object(field_problems(&schema, &content));
        assert_eq!(problems(json!({"desk": "4", "floor": 8})), json!({}));
        assert_eq!(problems(json!({"desk": null})), json!({"desk": "is required", "floor": "is required"}));
        let misfit = problems(json!({"desk": "4", "floor": 9, "days": ["Sun"]}));
        assert_eq!(misfit["floor"], "9 is greater than the maximum of 8");
        assert!(misfit["days"].as_str().is_some_and(|problem| problem.contains("Sun")), "{misfit}");
        assert_eq!(misfit.as_object().map(Map::len), Some(2));
    }
}
