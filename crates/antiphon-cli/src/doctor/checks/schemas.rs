//! Checks the schemas of tools.

use serde_json::Value;

use super::{Finding, Level, some, tools::tools};
use crate::doctor::report::Report;

/// Reports invalid input schemas.
pub(super) fn inputs(report: &Report) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, tool) in tools(report) {
        let schema = &tool["inputSchema"];
        let finding = |what: String| {
            Finding::new(Level::Problem, format!("the input schema of `{name}` is not valid: {what}"))
                .hint("fix the schema; many hosts ignore a tool with an invalid one")
        };
        if let Some(what) = wrong(schema) {
            found.push(finding(what));
        } else if schema["type"] != "object" {
            found.push(finding("the root is not an object; MCP requires `\"type\": \"object\"`".into()));
        }
    }
    found
}

/// Reports invalid output schemas.
pub(super) fn outputs(report: &Report) -> Vec<Finding> {
    let described = tools(report).filter(|(_, tool)| !tool["outputSchema"].is_null());
    described
        .filter_map(|(name, tool)| {
            let what = wrong(&tool["outputSchema"])?;
            let message = format!("the output schema of `{name}` is not valid: {what}");
            Some(Finding::new(Level::Warning, message).hint("hosts that validate results reject them"))
        })
        .collect()
}

/// Reports arguments that a form cannot show.
pub(super) fn forms(report: &Report) -> Vec<Finding> {
    let mut deep = Vec::new();
    for (name, tool) in tools(report) {
        for (field, schema) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            if !is_field(schema) {
                deep.push(format!("{name}.{field}"));
            }
        }
    }
    if deep.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Note, format!("has arguments that a form does not support: {}", some(&deep)))
            .hint("pass them as JSON, with `--arguments`"),
    ]
}

/// Returns the reason why a schema is invalid, or `None` if the schema is valid.
fn wrong(schema: &Value) -> Option<String> {
    jsonschema::meta::validate(schema).err().map(|error| match error.instance_path().as_str() {
        "" => error.to_string(),
        path => format!("{error} at `{path}`"),
    })
}

/// Returns whether one field of a form can show the value. A form field can show a text, a number, a choice, or a list
/// of these values.
fn is_field(schema: &Value) -> bool {
    let simple = |schema: &Value| {
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind.as_str()],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let known = ["string", "number", "integer", "boolean", "null"];
        !schema["enum"].is_null()
            || !schema["const"].is_null()
            || (!kinds.is_empty() && kinds.iter().all(|kind| known.contains(kind)))
    };
    let any = |schema: &Value| {
        let options = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        options.is_some_and(|options| options.iter().all(simple))
    };
    simple(schema) || any(schema) || (schema["type"] == "array" && simple(&schema["items"]))
}
