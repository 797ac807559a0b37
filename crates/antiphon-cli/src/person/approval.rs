//! Asks the user to approve sampling requests.

use std::sync::atomic::{AtomicBool, Ordering};

use antiphon_host::{Approval, BoxFuture, Refused};
use antiphon_llm::{Reply, Request};
use serde_json::{Value, json};

use super::{Person, Samples, prompt::pick, terminal::Asked};
use crate::print::clean;

/// Shows sampling requests to the user for approval.
pub(super) struct Approving {
    person: Person,
    /// The model that replies.
    model: String,
    /// Whether the user approved all further requests.
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
                Samples::Refuse => {}
                Samples::Ask if !person.is_present() => {
                    let (server, model) = (person.server(), clean(&self.model));
                    person.miss(format!(
                        "not answered, so rejected: {server} asks the model `{model}`; no user is present to approve it\nhint: allow sampling requests with `--samples allow`"
                    ));
                    return Err(Refused);
                }
                Samples::Ask => {
                    let shown = show(&request, person.server(), &self.model);
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

/// Rejects every sampling request.
pub(super) struct Nobody;

impl Approval for Nobody {
    fn request(&self, _: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        Box::pin(std::future::ready(Err(Refused)))
    }

    fn reply<'a>(&'a self, _: &'a Request, _: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        Box::pin(std::future::ready(Err(Refused)))
    }
}

/// The maximum number of characters of a text that are shown for approval.
const LONGEST: usize = 600;
/// The maximum number of messages that are shown for approval.
const LAST: usize = 3;

fn show(request: &Request, server: &str, model: &str) -> String {
    let mut lines =
        vec![format!("{server} asks the model `{model}`, for {} tokens at most:", request.max_tokens)];
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
