//! Offers tools to models and clients that do not support tools: the prompt describes the tools, and the calls are
//! parsed from the reply's text.
//!
//! A client that has not declared `sampling.tools` must not receive tools, and some models do not support tools.
//! [`without_tools`] describes the tools in the prompt, and [`with_calls`] converts the reply to `tool_use` blocks.
//! Tools in the prompt are less reliable than native tool support. Your code is the same with native tool support and
//! with tools in the prompt.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::{
    message::{Block, Content, Message, Role, ToolResultBlock, ToolUseBlock},
    reply::{Reply, stop},
    request::{Request, ToolChoice},
    structured::{SCHEMA_TOOL, json_in},
};

/// Converts a request with tools into a request without tools. The prompt of the new request describes the tools.
pub fn without_tools(request: &Request) -> Request {
    let mut plain = request.clone();
    plain.tools.clear();
    plain.tool_choice = None;
    plain.messages = request.messages.iter().map(spoken).collect();
    let Some(instruction) = instruction(request) else { return plain };
    // Put the instruction into the last message, because clients can drop or change the system prompt.
    match plain.messages.last_mut() {
        Some(Message { role: Role::User, content, .. }) => match content.as_mut_slice() {
            [Block::Text(only)] => only.text = format!("{}\n\n{instruction}", only.text),
            _ => content.push(Block::text(instruction)),
        },
        _ => plain.messages.push(Message::user(instruction)),
    }
    plain
}

/// Returns a text that describes the tools of `request`.
fn instruction(request: &Request) -> Option<String> {
    if let Some(schema) = request.schema() {
        let schema = Value::Object(schema.clone());
        return Some(format!(
            "Reply with one JSON object that matches this JSON Schema, and with nothing else:\n{schema}"
        ));
    }
    if request.tools.is_empty() || request.tool_choice == Some(ToolChoice::None) {
        return None;
    }
    let mut text = String::from("You have these tools:\n");
    for tool in &request.tools {
        let _ = write!(text, "- `{}`", tool.name);
        if let Some(description) = &tool.description {
            let _ = write!(text, ": {description}");
        }
        let _ = writeln!(text, " Arguments (JSON Schema): {}", Value::Object(tool.input_schema.clone()));
    }
    text.push_str(if request.must_call() {
        "Call one or more of them. Reply with JSON of this form, and with nothing else:\n"
    } else {
        "To call tools, reply with JSON of this form, and with nothing else; to call none, reply in plain text:\n"
    });
    text.push_str(r#"{"tool_calls": [{"name": "<tool>", "arguments": {}}]}"#);
    Some(text)
}

/// Converts the `tool_use` and `tool_result` blocks of a message to text.
fn spoken(message: &Message) -> Message {
    let content: Vec<Block> = message.content.iter().flat_map(speak).collect();
    // Join the text, because older clients support only one block per message.
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    let content = if texts.len() == content.len() { vec![Block::text(texts.join("\n"))] } else { content };
    Message { role: message.role, content, meta: message.meta.clone() }
}

fn speak(block: &Block) -> Vec<Block> {
    match block {
        Block::ToolUse(call) => {
            let input = Value::Object(call.input.clone());
            // Show a call in the same text format in which it was requested.
            vec![Block::text(if call.name == SCHEMA_TOOL {
                input.to_string()
            } else {
                json!({"tool_calls": [{"name": call.name, "arguments": input}]}).to_string()
            })]
        }
        Block::ToolResult(result) => speak_result(result),
        other => vec![other.clone()],
    }
}

fn speak_result(result: &ToolResultBlock) -> Vec<Block> {
    let mut text = String::from(if result.is_error { "Error: " } else { "Tool result: " });
    let mut media = Vec::new();
    for (i, content) in result.content.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        match content {
            Content::Text(block) => text.push_str(&block.text),
            Content::Image(block) => media.push(Block::Image(block.clone())),
            Content::Audio(block) => media.push(Block::Audio(block.clone())),
            other => text.push_str(&json!(other).to_string()),
        }
    }
    let mut blocks = vec![Block::text(text)];
    blocks.append(&mut media);
    blocks
}

/// Converts the tool calls in the text of a reply to `tool_use` blocks.
///
/// The function returns a reply unchanged if the reply already has `tool_use` blocks, or if its text contains no call
/// of a tool. The IDs of the tool calls start with `id`, so the same reply always gets the same IDs.
pub fn with_calls(request: &Request, reply: Reply, id: &str) -> Reply {
    let called = reply.content.iter().any(|block| block.as_tool_use().is_some());
    let none = request.tool_choice == Some(ToolChoice::None);
    if called || none || request.tools.is_empty() || reply.is_cut_off() {
        return reply;
    }
    let Ok(found) = json_in(&reply.text()) else { return reply };
    let calls = if request.schema().is_some() {
        let Value::Object(input) = found else { return reply };
        vec![(SCHEMA_TOOL.to_owned(), input)]
    } else {
        calls_in(request, found)
    };
    if calls.is_empty() {
        return reply;
    }
    let block = |(i, (name, input)): (usize, (String, Map<String, Value>))| {
        let id = if i == 0 { id.to_owned() } else { format!("{id}-{}", i + 1) };
        Block::ToolUse(ToolUseBlock { id, name, input, rest: Map::new() })
    };
    Reply {
        content: calls.into_iter().enumerate().map(block).collect(),
        stop_reason: Some(stop::TOOL_USE.into()),
        ..reply
    }
}

/// Returns the tool calls in JSON that a model wrote: in the requested format, as a single call, or as a list of
/// calls.
fn calls_in(request: &Request, mut found: Value) -> Vec<(String, Map<String, Value>)> {
    // If no call is required, JSON that looks like a call can be part of the answer.
    let sure = request.must_call() || found.get("tool_calls").is_some();
    let list = match found.get_mut("tool_calls").map(Value::take) {
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
        None => match found {
            Value::Array(list) => list,
            one => vec![one],
        },
    };
    let call = |mut call: Value| {
        let name = call.get("name")?.as_str()?.to_owned();
        let written = ["arguments", "parameters", "input"].into_iter().find(|key| call.get(key).is_some());
        match written.map(|key| call[key].take()) {
            Some(Value::Object(arguments)) => Some((name, arguments)),
            // Some models write the arguments as a string, as in OpenAI's API.
            Some(Value::String(text)) => Some((name, serde_json::from_str(&text).ok()?)),
            Some(_) => None,
            None => sure.then(|| (name, Map::new())),
        }
    };
    let calls: Vec<_> = list.into_iter().filter_map(call).collect();
    let known = calls.iter().any(|(name, _)| request.tools.iter().any(|tool| tool.name == *name));
    if known || request.must_call() { calls } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ToolDefinition;

    fn asking() -> Request {
        let mut request = Request::prompt("Left or right?");
        request.tools = vec![ToolDefinition::new("go", json!({"properties": {"way": {"type": "string"}}}))];
        request.tool_choice = Some(ToolChoice::Required);
        request
    }

    #[test]
    fn tools_are_put_into_the_last_message_as_one_text() {
        let plain = without_tools(&asking());
        assert!(plain.tools.is_empty() && plain.tool_choice.is_none());
        let written = json!(plain);
        let text = written["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.starts_with("Left or right?\n\nYou have these tools:\n- `go` Arguments"), "{text}");
    }

    #[test]
    fn a_history_with_tools_is_told_in_words() {
        let mut request = asking();
        request.messages = vec![
            Message::user("Left or right?"),
            Message::assistant(Block::tool_use("1", "go", json!({"way": "left"}))),
            Message::user(Block::tool_error("1", "there is a wall")),
        ];
        let plain = without_tools(&request);
        let call = json!({"tool_calls": [{"name": "go", "arguments": {"way": "left"}}]});
        assert_eq!(plain.messages[1].text(), call.to_string());
        assert!(plain.messages[2].text().starts_with("Error: there is a wall\n\nYou have these tools:"));
    }

    #[test]
    fn calls_are_read_from_text_in_the_forms_models_write_them() {
        for text in [
            r#"{"tool_calls": [{"name": "go", "arguments": {"way": "left"}}]}"#,
            r#"Sure: {"name": "go", "parameters": {"way": "left"}}"#,
            "```\n[{\"name\": \"go\", \"input\": {\"way\": \"left\"}}]\n```",
            r#"{"tool_calls": {"name": "go", "arguments": "{\"way\": \"left\"}"}}"#,
        ] {
            let reply = with_calls(&asking(), Reply::new("m", text), "c");
            let calls = reply.tool_calls();
            assert_eq!(calls.len(), 1, "{text}");
            assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), ("c", "go"));
            assert_eq!(json!(calls[0].arguments), json!({"way": "left"}));
            assert_eq!(reply.stop_reason.as_deref(), Some(stop::TOOL_USE));
        }
    }

    #[test]
    fn a_text_that_was_cut_off_holds_no_calls() {
        let reply = Reply::new("m", r#"{"name": "go"}"#).with_stop_reason(stop::MAX_TOKENS);
        assert!(with_calls(&asking(), reply, "c").tool_calls().is_empty());
    }
}
