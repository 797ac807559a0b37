//! `antiphon tools`: lists a server's tools, or shows one tool.

use antiphon_host::model::Tool;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::{
    call::{self, flags::Flag, follow},
    exit::Outcome,
    global::App,
    person::{self, field::Kind},
    print::{clean, first_line, print, table, trimmed},
    target::Target,
};

/// List a server's tools, or show one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  antiphon tools weather\n  antiphon tools weather forecast\n  antiphon tools --json http://127.0.0.1:8000/mcp"
)]
pub(crate) struct Tools {
    #[command(flatten)]
    target: Target,
    /// The tool to show, with its description and arguments.
    tool: Option<String>,
}

impl Tools {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        // Declare the capabilities that `antiphon call` declares. Some servers list a tool that asks questions only
        // if the host declares these capabilities.
        let connection = app.connect(&self.target, person::declaring(app)).await?;
        if let Some(name) = &self.tool {
            let Some(tool) = call::find(&connection, name, &self.target.server).await? else {
                return Ok(Outcome::Nothing);
            };
            print(app.json, &json!(tool), || one(&tool, &self.target.server));
            return Ok(Outcome::Done);
        }
        let tools = connection.tools().await?;
        if tools.is_empty() && !app.json {
            eprintln!("the server has no tools");
            return Ok(Outcome::Nothing);
        }
        print(app.json, &json!(tools), || all(&tools));
        Ok(Outcome::Done)
    }
}

fn all(tools: &[Tool]) -> String {
    let mut table = table(["TOOL", "WHAT IT DOES", "HINTS"]);
    for tool in tools {
        let about = clipped(tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default());
        table.add_row([clean(&tool.name), about, hints(tool).join(", ")]);
    }
    trimmed(&table)
}

/// Returns the first line of a description, shortened to `LONGEST` characters.
fn clipped(text: &str) -> String {
    let line = first_line(text);
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line,
    }
}

const LONGEST: usize = 90;

/// Returns the hints that the server declares about a tool. The CLI does not verify the declared hints.
fn hints(tool: &Tool) -> Vec<&'static str> {
    let tasks = follow::task_support(tool);
    let tool = json!(tool);
    let annotations = &tool["annotations"];
    let meta = tool["_meta"].as_object();
    let asks = meta.is_some_and(|meta| meta.keys().any(|key| key.contains("elicit")));
    let hints = [
        (asks, "asks"),
        (tasks == Some("required"), "always a task"),
        (tasks == Some("optional"), "can be a task"),
        (annotations["readOnlyHint"] == true, "read-only"),
        (annotations["readOnlyHint"] != true && annotations["destructiveHint"] == true, "destructive"),
        (annotations["idempotentHint"] == true, "idempotent"),
    ];
    hints.into_iter().filter(|(is, _)| *is).map(|(_, hint)| hint).collect()
}

fn one(tool: &Tool, server: &str) -> String {
    let mut parts = vec![clean(&tool.name)];
    if let Some(description) = tool.description.as_deref().filter(|text| !text.trim().is_empty()) {
        parts.push(clean(description.trim()));
    }
    let hints = hints(tool);
    if !hints.is_empty() {
        parts.push(format!("It says it is: {}", hints.join(", ")));
    }
    let flags = Flag::all(tool);
    if flags.is_empty() {
        parts.push("It takes no arguments.".to_owned());
    } else {
        parts.push(arguments(&flags));
    }
    parts.push(format!("Call it:\n  {}", example(tool, &flags, server)));
    parts.join("\n\n")
}

fn arguments(flags: &[Flag]) -> String {
    let mut table = table(["ARGUMENT", "FLAG", "WHAT", "REQUIRED", "DEFAULT", "ABOUT"]);
    for Flag { field, name } in flags {
        table.add_row([
            clean(&field.name()),
            name.as_ref().map_or_else(|| "--arguments".to_owned(), |name| format!("--{name}")),
            clean(&field.kind.describe()),
            if field.is_required() { "yes" } else { "" }.to_owned(),
            field.default.as_ref().map(|default| clean(&default.to_string())).unwrap_or_default(),
            clean(field.description.as_deref().unwrap_or_default()).replace('\n', " "),
        ]);
    }
    trimmed(&table)
}

/// Returns an example call.
fn example(tool: &Tool, flags: &[Flag], server: &str) -> String {
    let mut words = vec![server.to_owned(), tool.name.to_string()];
    for Flag { field, name } in flags.iter().filter(|flag| flag.field.is_required()) {
        let Some(name) = name else { continue };
        let mut value = field.default.clone().unwrap_or_else(|| field.kind.example());
        if let (Kind::List { .. }, Value::Array(items)) = (&field.kind, &value) {
            let Some(item) = items.first() else { continue };
            value = item.clone();
        }
        let text = match (&field.kind, value) {
            (Kind::Json, value) => value.to_string(),
            (_, Value::String(text)) => text,
            (_, value) => value.to_string(),
        };
        match &field.kind {
            Kind::Boolean if text == "true" => words.push(format!("--{name}")),
            // A value that starts with `-` would be parsed as a flag.
            kind if *kind == Kind::Boolean || text.starts_with('-') => words.push(format!("--{name}={text}")),
            _ => words.extend([format!("--{name}"), text]),
        }
    }
    clean(&format!("antiphon call {}", shell_words::join(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_can_be_called_as_it_is_printed() {
        let tool: Tool = serde_json::from_value(json!({"name": "t", "inputSchema": {
            "type": "object", "required": ["flag", "neg", "on", "text", "list", "any"],
            "properties": {
                "flag": {"type": "boolean", "default": false}, "neg": {"type": "integer", "minimum": -3},
                "on": {"type": "boolean"}, "text": {"type": "string", "default": "--help"},
                "list": {"type": "array", "items": {"type": "number"}, "default": [-1.5, 2]},
                "any": {"default": ["a"]},
            },
        }}))
        .unwrap();
        let flags = Flag::all(&tool);
        let said = example(&tool, &flags, "s");
        for part in ["--flag=false", "--neg=-3", " --on", "--text=--help", "--list=-1.5", "--any '[\"a\"]'"] {
            assert!(said.contains(part), "no {part} in {said}");
        }
    }
}
