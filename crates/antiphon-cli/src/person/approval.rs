//! Asks the user to approve sampling requests, or to reply in place of a model.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use antiphon_host::{Approval, BoxFuture, Refused, Shown};
use antiphon_llm::{Error, Model, Reply, Request, SCHEMA_TOOL, ToolChoice, ToolDefinition};
use serde_json::{Value, json};

use super::{
    Person, Samples,
    field::Field,
    forms::fill_in,
    hand,
    prompt::{choose, pick},
    terminal::Asked,
};
use crate::print::{clean, first_line};

/// Shows sampling requests to the user for approval.
pub(super) struct Approving {
    person: Person,
    /// The name of the model that replies.
    model: String,
    /// Whether the user has approved all further requests.
    always: AtomicBool,
}

const ONCE: &str = "send it";
const ALWAYS: &str = "send it, and all that follow in this call";
const REFUSE: &str = "refuse";

impl Approving {
    pub(super) fn new(person: Person, model: &str) -> Self {
        Self { person, model: model.to_owned(), always: AtomicBool::new(false) }
    }

    async fn agreed(&self, shown: String, question: &'static str, answers: Vec<&'static str>) -> bool {
        let answer = self.person.terminal().ask(move || {
            eprintln!("\n{shown}");
            pick(question, answers)
        });
        match answer.await {
            Asked::Answered(ALWAYS) => {
                self.always.store(true, Ordering::Relaxed);
                true
            }
            Asked::Answered(answer) => answer != REFUSE,
            Asked::Closed | Asked::Interrupted => false,
        }
    }
}

impl Approval for Approving {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        Box::pin(async move {
            let person = &self.person;
            match person.0.samples {
                Samples::Allow => return Ok(request),
                Samples::Ask if self.always.load(Ordering::Relaxed) => return Ok(request),
                Samples::Refuse | Samples::Hand => {}
                Samples::Ask if !person.is_present() => {
                    let (server, model) = (person.server(), clean(&self.model));
                    person.miss(format!(
                        "not answered, so rejected: {server} asks the model `{model}`; no user is present to approve it\nhint: allow sampling requests with `--samples allow`"
                    ));
                    return Err(Refused);
                }
                Samples::Ask => {
                    let head = format!(
                        "{} asks the model `{}`, for {} tokens at most:",
                        person.server(),
                        self.model,
                        request.max_tokens
                    );
                    let shown = show(&request, head);
                    if self.agreed(shown, "Send it to the model?", vec![ONCE, ALWAYS, REFUSE]).await {
                        return Ok(request);
                    }
                }
            }
            person.decline();
            Err(Refused)
        })
    }

    fn reply<'a>(&'a self, _: &'a Request, reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        Box::pin(async move {
            let person = &self.person;
            let looks = person.0.samples == Samples::Ask
                && person.0.verbose
                && person.is_present()
                && !self.always.load(Ordering::Relaxed);
            if !looks {
                return Ok(reply);
            }
            let shown = format!("The model replies:\n{}", content(&json!(reply.content)));
            if self.agreed(shown, "Send it to the server?", vec![ONCE, ALWAYS, REFUSE]).await {
                return Ok(reply);
            }
            person.decline();
            Err(Refused)
        })
    }
}

/// A handler that rejects every sampling request.
pub(super) struct Nobody;

impl Approval for Nobody {
    fn request(&self, _: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        Box::pin(std::future::ready(Err(Refused)))
    }

    fn reply<'a>(&'a self, _: &'a Request, _: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        Box::pin(std::future::ready(Err(Refused)))
    }
}

/// A model whose replies the user writes. A host must use the same `ByHand` for its model and for its approval,
/// because a model cannot reject a request.
#[derive(Clone, Debug)]
pub(super) struct ByHand {
    person: Person,
    /// Replies that the host has not taken yet.
    replies: Arc<Mutex<Vec<(Request, Reply)>>>,
}

impl ByHand {
    pub(super) fn new(person: Person) -> Self {
        Self { person, replies: Arc::default() }
    }

    /// Shows a request to the user, and returns the user's reply. Returns `None` if the user rejects the request.
    async fn ask(&self, request: &Request) -> Option<Reply> {
        let head =
            format!("{} asks a model, for {} tokens at most:", self.person.server(), request.max_tokens);
        let (shown, request) = (show(request, head), request.clone());
        let answered = self.person.terminal().ask(move || {
            eprintln!("\n{shown}");
            answer(&request)
        });
        match answered.await {
            Asked::Answered(reply) => reply,
            Asked::Closed | Asked::Interrupted => None,
        }
    }
}

impl Approval for ByHand {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        Box::pin(async move {
            let Some(reply) = self.ask(&request).await else {
                self.person.decline();
                return Err(Refused);
            };
            let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
            replies.push((request.clone(), reply));
            drop(replies);
            Ok(request)
        })
    }

    fn reply<'a>(&'a self, _: &'a Request, reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        Box::pin(std::future::ready(Ok(reply)))
    }
}

impl Model for ByHand {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, antiphon_llm::Result<Reply>> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let at = replies.iter().position(|(of, _)| of == request);
        let reply = at.map(|at| replies.remove(at).1);
        drop(replies);
        Box::pin(std::future::ready(
            reply.ok_or_else(|| Error::Unavailable("the user did not answer".into())),
        ))
    }

    fn name(&self) -> &str {
        hand::NAME
    }
}

/// Asks the user for the reply: the fields of a schema, a tool call, or text. Returns `None` if the user rejects the
/// request.
fn answer(request: &Request) -> Asked<Option<Reply>> {
    if let Some(schema) = request.schema() {
        let fields = Field::all(&Value::Object(schema.clone()));
        return fill_in("The reply has these fields:", &fields)
            .map(|shown| accepted(shown).map(|data| hand::called(SCHEMA_TOOL, data)));
    }
    let tools: &[ToolDefinition] =
        if request.tool_choice == Some(ToolChoice::None) { &[] } else { &request.tools };
    if !tools.is_empty() {
        let mut choices: Vec<String> =
            tools.iter().map(|tool| format!("call {}", first_line(&tool.name))).collect();
        if request.tool_choice != Some(ToolChoice::Required) {
            choices.push("reply with text".into());
        }
        match choose("What does the model do?", &choices).map(|chosen| tools.get(chosen)) {
            Asked::Answered(Some(tool)) => return call(tool),
            Asked::Answered(None) => {}
            Asked::Closed => return Asked::Closed,
            Asked::Interrupted => return Asked::Interrupted,
        }
    }
    let field = json!({"properties": {"reply": {"type": "string"}}, "required": ["reply"]});
    fill_in("Reply in place of the model:", &Field::all(&field)).map(|shown| {
        let data = accepted(shown)?;
        Some(hand::said(data["reply"].as_str().unwrap_or_default()))
    })
}

/// Asks the user for the arguments of a tool call.
fn call(tool: &ToolDefinition) -> Asked<Option<Reply>> {
    let fields = Field::all(&Value::Object(tool.input_schema.clone()));
    if fields.is_empty() {
        return Asked::Answered(Some(hand::called(&tool.name, json!({}))));
    }
    fill_in(&format!("The arguments of {}:", first_line(&tool.name)), &fields)
        .map(|shown| accepted(shown).map(|data| hand::called(&tool.name, data)))
}

fn accepted(shown: Shown) -> Option<Value> {
    match shown {
        Shown::Accept(data) => Some(data),
        _ => None,
    }
}

/// The maximum number of characters of a text that are shown for approval.
const LONGEST: usize = 600;
/// The maximum number of messages that are shown for approval.
const LAST: usize = 3;

/// Formats a sampling request for the user, with `head` as the first line.
fn show(request: &Request, head: String) -> String {
    let mut lines = vec![head];
    if let Some(prompt) = &request.system_prompt {
        lines.push(format!("system: {}", clipped(prompt)));
    }
    let before = request.messages.len().saturating_sub(LAST);
    if before > 0 {
        lines.push(format!("({before} messages before these)"));
    }
    for message in &request.messages[before..] {
        let message = json!(message);
        lines.push(format!("{}: {}", message["role"].as_str().unwrap_or("?"), content(&message["content"])));
    }
    if !request.tools.is_empty() {
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        lines.push(format!("tools: {}", names.join(", ")));
    }
    clean(&lines.join("\n"))
}

fn content(content: &Value) -> String {
    let blocks = match content {
        Value::Array(blocks) => blocks.as_slice(),
        one => std::slice::from_ref(one),
    };
    let text = |block: &Value| match block["type"].as_str() {
        Some("text") => clipped(block["text"].as_str().unwrap_or_default()),
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind}, {}]", block["mimeType"].as_str().unwrap_or("?"))
        }
        _ => clipped(&block.to_string()),
    };
    clean(&blocks.iter().map(text).collect::<Vec<_>>().join("\n"))
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}… ({} characters in all)", &text[..at], text.chars().count()),
        None => text.to_owned(),
    }
}
