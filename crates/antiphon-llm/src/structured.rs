//! Data instead of prose: the tool `__schema__`, which every road understands.
//!
//! MCP has no field for the schema of a reply. So a request offers one tool, takes its name from a
//! reserved one and its input from the schema, and says that it must be called. A client or provider
//! that knows the name uses its best way to structured output; one that does not has its model call
//! an ordinary tool. Either way the data come back as the `input` of a `tool_use`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    message::Block,
    reply::Reply,
    request::{Request, ToolChoice, ToolDefinition},
};

/// The tool that stands for structured output. No other tool may have this name.
pub const SCHEMA_TOOL: &str = "__schema__";

/// What the tool says of itself.
pub const SCHEMA_TOOL_DESCRIPTION: &str = "Respond with structured data matching this schema.";

/// Where data go that are no object: a tool's input is always one.
const WRAPPER: &str = "value";

/// What a reply's data must look like.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    input: Map<String, Value>,
    wrapped: bool,
}

impl OutputSchema {
    /// The schema of a `T`.
    pub fn of<T: JsonSchema>() -> Self {
        Self::new(schema_of::<T>())
    }

    /// Takes a JSON Schema. One that does not describe an object is wrapped into one with a single
    /// field; [`unwrap`](Self::unwrap) takes the data out again.
    pub fn new(mut schema: Map<String, Value>) -> Self {
        if schema.get("type").is_some_and(|kind| kind == "object") {
            return Self { input: schema, wrapped: false };
        }
        let mut input = Map::new();
        // References point to the root; what they point at has to stay there.
        for shared in ["$schema", "$defs", "definitions"] {
            if let Some(kept) = schema.remove(shared) {
                input.insert(shared.into(), kept);
            }
        }
        input.insert("type".into(), "object".into());
        input.insert("properties".into(), json!({WRAPPER: schema}));
        input.insert("required".into(), json!([WRAPPER]));
        Self { input, wrapped: true }
    }

    /// The JSON Schema of the object that comes back.
    pub fn input(&self) -> &Map<String, Value> {
        &self.input
    }

    /// The tool that asks for it.
    pub fn tool(&self) -> ToolDefinition {
        ToolDefinition {
            name: SCHEMA_TOOL.into(),
            description: Some(SCHEMA_TOOL_DESCRIPTION.into()),
            input_schema: self.input.clone(),
            rest: Map::new(),
        }
    }

    /// Makes `request` ask for it.
    pub fn ask(&self, request: &mut Request) {
        request.tools = vec![self.tool()];
        request.tool_choice = Some(ToolChoice::Required);
    }

    /// What was asked for, out of the object that came back.
    pub fn unwrap(&self, mut input: Value) -> Value {
        match input.get_mut(WRAPPER) {
            Some(value) if self.wrapped => value.take(),
            _ => input,
        }
    }

    /// The data in `reply`, before anybody has checked them: the input of its `__schema__` calls, or
    /// the JSON in its text.
    ///
    /// # Errors
    ///
    /// A sentence that says why there are none.
    pub fn find(&self, reply: &Reply) -> Result<Vec<Value>, String> {
        let calls = reply.content.iter().filter_map(Block::as_tool_use);
        let called: Vec<Value> = calls
            .filter(|call| call.name == SCHEMA_TOOL)
            .map(|call| Value::Object(call.input.clone()))
            .collect();
        if !called.is_empty() {
            return Ok(called);
        }
        if let Some(other) = reply.content.iter().find_map(Block::as_tool_use) {
            return Err(format!("the tool `{}` was called, which does not exist", other.name));
        }
        let text = reply.text();
        let found = json_in(&text)?;
        // A model that was asked for a list may well write the list.
        let bare = self.wrapped && found.as_object().is_none_or(|object| !object.contains_key(WRAPPER));
        Ok(vec![if bare { json!({WRAPPER: found}) } else { found }])
    }
}

/// The JSON Schema 2020-12 of `T`, without the name of the Rust type.
pub fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let Value::Object(mut schema) = schema.to_value() else { return Map::new() };
    schema.remove("title");
    if schema.get("type").is_some_and(|kind| kind == "object") {
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// The JSON in a text that may have a fence, or prose, around it.
///
/// Nothing is repaired: text that was cut off, or has a comma too many, has no JSON in it.
///
/// # Errors
///
/// What is wrong with the text, as the parser says it.
pub fn json_in(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    // The first object or list that can be read whole. A `{` in prose is skipped, and so is what is
    // inside of a value that cannot be read: its parts are not the answer.
    let mut rest = text;
    let mut first_failure = None;
    while let Some(start) = rest.find(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value @ (Value::Object(_) | Value::Array(_)))) if !is_trivial(&value) => {
                return Ok(value);
            }
            Some(Err(error)) if error.is_eof() => return Err(error.to_string()),
            Some(Err(error)) => {
                first_failure.get_or_insert_with(|| error.to_string());
            }
            _ => {}
        }
        rest = &rest[start + 1..];
    }
    Err(match first_failure {
        Some(failure) => failure,
        None if text.is_empty() => "the reply is empty".into(),
        None => format!("the reply is not JSON: {whole}"),
    })
}

/// `{}` and `[]` stand in prose more often than they are an answer; the whole text was tried before.
fn is_trivial(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_bare_fenced_and_in_prose() {
        let found = json!({"cell": 4});
        for text in [
            r#"{"cell": 4}"#,
            "```json\n{\"cell\": 4}\n```",
            "Here is my move {as asked}: {\"cell\": 4}. Good luck!",
            "{} is not it, but [] neither: {\"cell\": 4}",
        ] {
            assert_eq!(json_in(text).as_ref(), Ok(&found), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_an_error_and_never_repaired() {
        assert_eq!(json_in(""), Err("the reply is empty".into()));
        for text in ["I take the centre.", "Here's my move: {invalid json", r#"{"cell": 4"#, "{\"cell\": 4,}"]
        {
            assert!(json_in(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_is_wrapped_and_taken_out_again() {
        let schema = OutputSchema::of::<Vec<u8>>();
        assert_eq!(schema.input()["properties"]["value"]["type"], "array");
        assert_eq!(schema.unwrap(json!({"value": [1, 2]})), json!([1, 2]));
        let bare = Reply::new("m", "[1, 2]");
        assert_eq!(schema.find(&bare), Ok(vec![json!({"value": [1, 2]})]));
    }
}
