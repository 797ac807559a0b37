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

/// Where a schema goes that refers to itself and has to be wrapped.
const ROOT: &str = "root__";

/// Points references to the root at where it has gone; says whether there were any.
fn redirect(schema: &mut Value) -> bool {
    match schema {
        Value::Array(list) => list.iter_mut().fold(false, |any, item| redirect(item) | any),
        Value::Object(object) => object.iter_mut().fold(false, |any, (key, value)| {
            let Value::String(target) = value else { return redirect(value) | any };
            let Some(rest) = target.strip_prefix('#').filter(|_| key == "$ref") else { return any };
            if rest.starts_with("/$defs/")
                || rest.starts_with("/definitions/")
                || !(rest.is_empty() || rest.starts_with('/'))
            {
                return any;
            }
            *target = format!("#/$defs/{ROOT}{rest}");
            true
        }),
        _ => false,
    }
}

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
        for shared in ["$schema", "$id", "$defs", "definitions"] {
            if let Some(kept) = schema.remove(shared) {
                input.insert(shared.into(), kept);
            }
        }
        let mut value = Value::Object(schema);
        let mut moved = redirect(&mut value);
        for shared in ["$defs", "definitions"] {
            moved |= input.get_mut(shared).is_some_and(redirect);
        }
        // What refers to the root as a whole refers to what was the root.
        if moved && let Value::Object(defs) = input.entry("$defs").or_insert_with(|| json!({})) {
            let root = std::mem::replace(&mut value, json!({"$ref": format!("#/$defs/{ROOT}")}));
            defs.insert(ROOT.into(), root);
        }
        input.insert("type".into(), "object".into());
        input.insert("properties".into(), json!({WRAPPER: value}));
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
        let mut candidates = Vec::new();
        for found in all_json_in(&text)? {
            // A model that was asked for a list may well write the list; and what it writes may have
            // a field of the wrapper's name.
            if self.wrapped && found.as_object().is_some_and(|object| object.contains_key(WRAPPER)) {
                candidates.push(found.clone());
            }
            candidates.push(if self.wrapped { json!({WRAPPER: found}) } else { found });
        }
        Ok(candidates)
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
    all_json_in(text).map(|mut found| found.swap_remove(0))
}

/// No more values than these are looked at.
const CANDIDATES: usize = 8;

/// All objects and lists in a text, or the text itself where it is JSON. At least one.
fn all_json_in(text: &str) -> Result<Vec<Value>, String> {
    let text = text.trim();
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(vec![value]),
        Err(error) => error,
    };
    let (mut found, mut trivial) = (Vec::new(), Vec::new());
    // A `{` in prose is skipped, and so is what was read of a value that cannot be read whole: its
    // parts are not the answer. So no byte is read twice, however often a text opens a bracket.
    let mut rest = text;
    let mut first_failure = None;
    while let Some(start) = rest.find(['{', '[']) {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let read = match values.next() {
            Some(Ok(value)) => {
                if is_trivial(&value) { &mut trivial } else { &mut found }.push(value);
                values.byte_offset()
            }
            Some(Err(error)) => {
                first_failure.get_or_insert_with(|| error.to_string());
                if error.is_eof() {
                    break;
                }
                place_of(&error, rest)
            }
            None => 1,
        };
        if found.len() == CANDIDATES {
            break;
        }
        let next = (read.max(1)..rest.len()).find(|at| rest.is_char_boundary(*at));
        rest = &rest[next.unwrap_or(rest.len())..];
    }
    if found.is_empty() {
        trivial.truncate(1);
        found = trivial;
    }
    if !found.is_empty() {
        return Ok(found);
    }
    Err(match first_failure {
        Some(failure) => failure,
        None if text.is_empty() => "the reply is empty".into(),
        None => format!("the reply is not JSON: {whole}"),
    })
}

/// Where in `text` it could not be read on.
fn place_of(error: &serde_json::Error, text: &str) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
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
