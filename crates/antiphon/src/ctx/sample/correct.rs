//! The message that a model receives after an invalid reply.
//!
//! The message contains the model's last reply and the problems of this reply, but no earlier replies. So the size of a
//! request does not grow with the number of retries.

use antiphon_llm::{Block, Message, Request, Role};

use super::is_empty;
use crate::error::SampleMethod;

/// The maximum number of problems that the message lists.
const LINES: usize = 10;
/// The maximum length of one problem in the message, in characters.
const LINE_CHARS: usize = 300;
/// The maximum size of an invalid reply that the message quotes completely, in bytes. The message quotes only the
/// beginning of a larger reply.
const REPLY_BYTES: usize = 8 * 1024;
const BEGINNING_CHARS: usize = 500;

/// Returns the messages to add to `request` for a retry: the model's invalid reply, and a description of its problems.
pub(super) fn correction(
    method: SampleMethod,
    request: &Request,
    reply: &Message,
    problems: &[String],
) -> Vec<Message> {
    let said = say(method, request, problems);
    if is_empty(reply) {
        return vec![Message::user(format!("Your reply was empty. {said}"))];
    }
    let size = serde_json::to_vec(reply).map_or(0, |json| json.len());
    if size > REPLY_BYTES {
        let beginning: String = shown(reply).chars().take(BEGINNING_CHARS).collect();
        return vec![Message::user(format!("Your reply began with:\n{beginning}\n\n{said}"))];
    }
    // Each tool call in the conversation needs a result. Providers reject a conversation that contains a tool call
    // without a result.
    let answers: Vec<Block> = reply.tool_calls().map(|call| Block::tool_error(call.id, &said)).collect();
    let answer = if answers.is_empty() { Message::user(said) } else { Message::user(answers) };
    vec![Message::assistant(reply.content.clone()), answer]
}

fn say(method: SampleMethod, request: &Request, problems: &[String]) -> String {
    let count = problems.len();
    let mut text = match count {
        1 => String::from("This is an automatic check, not the user. One problem with your reply:"),
        _ => format!("This is an automatic check, not the user. {count} problems with your reply:"),
    };
    for problem in problems.iter().take(LINES) {
        let line: String = problem.chars().take(LINE_CHARS).collect();
        text.push_str("\n- ");
        text.push_str(&line);
    }
    if count > LINES {
        text.push_str("\n- and more");
    }
    match method {
        // The text does not contain the tool name `__schema__`. If the client does not support tools, the model did not
        // receive a tool with this name.
        SampleMethod::SampleSchema => {
            text.push_str("\nAnswer again as the schema says: every required field, with values that fit.");
        }
        SampleMethod::SampleTools => {
            let names: Vec<String> = request.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            text.push_str("\nYou must call one of the available tools: ");
            text.push_str(&names.join(", "));
        }
    }
    text
}

fn shown(reply: &Message) -> String {
    let text = reply.text();
    if text.is_empty() { serde_json::to_string(&reply.content).unwrap_or_default() } else { text }
}

/// Adds the model's invalid reply and the description of its problems to a conversation.
pub(super) fn append(messages: &mut Vec<Message>, correction: &[Message]) {
    // This function appends the description to the last text message of the user, because some models require
    // alternating roles.
    if let ([Message { role: Role::User, content: added, .. }], Some(last)) =
        (correction, messages.last_mut())
        && last.role == Role::User
        && let ([Block::Text(text)], [Block::Text(more)]) = (last.content.as_mut_slice(), added.as_slice())
    {
        text.text = format!("{}\n\n{}", text.text, more.text);
        return;
    }
    messages.extend_from_slice(correction);
}
