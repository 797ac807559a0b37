//! Structured data instead of text in a reply, with the reserved tool `__schema__`.
//!
//! MCP has no field for the schema of a reply. So a request for structured data offers one tool with a reserved name,
//! and requires that the model calls this tool. The input schema of the tool is the schema of the data. A client or
//! provider that recognizes the reserved name uses its best method for structured output. With any other client or
//! provider, the model calls the tool like an ordinary tool. With every client and provider, the structured data is
//! the `input` of a `tool_use`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    message::Block,
    reply::Reply,
    request::{Request, ToolChoice, ToolDefinition},
};

/// The name of the tool for structured data. No other tool can have the name `__schema__`.
pub const SCHEMA_TOOL: &str = "__schema__";

/// The description of the tool for structured data, which the model reads.
pub const SCHEMA_TOOL_DESCRIPTION: &str = "Respond with structured data matching this schema.";

/// The name of the field that contains structured data other than an object. The input of a tool is always an object.
const WRAPPER: &str = "value";

/// The name of the definition that contains a wrapped schema, if this schema refers to itself.
const ROOT: &str = "root__";

/// Changes references to the root of `schema` into references to [`ROOT`]. Returns whether `schema` had references to
/// its root.
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

/// The schema of the structured data that a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    input: Map<String, Value>,
    wrapped: bool,
}

impl OutputSchema {
    /// Creates the schema of the Rust type `T`.
    pub fn of<T: JsonSchema>() -> Self {
        Self::new(schema_of::<T>())
    }

    /// Creates an output schema from a JSON Schema. The input of a tool is always an object. So if `schema` does not
    /// describe an object, `new` wraps `schema`: the new schema describes an object with one field.
    /// [`unwrap`](Self::unwrap) returns the data in the field of the wrapping object.
    pub fn new(mut schema: Map<String, Value>) -> Self {
        if schema.get("type").is_some_and(|kind| kind == "object") {
            return Self { input: schema, wrapped: false };
        }
        let mut input = Map::new();
        // References are relative to the root, so shared definitions must stay there.
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
        // References to the root must now point to the moved schema.
        if moved && let Value::Object(defs) = input.entry("$defs").or_insert_with(|| json!({})) {
            let root = std::mem::replace(&mut value, json!({"$ref": format!("#/$defs/{ROOT}")}));
            defs.insert(ROOT.into(), root);
        }
        input.insert("type".into(), "object".into());
        input.insert("properties".into(), json!({WRAPPER: value}));
        input.insert("required".into(), json!([WRAPPER]));
        Self { input, wrapped: true }
    }

    /// Returns the JSON Schema of the object that the model must return.
    pub fn input(&self) -> &Map<String, Value> {
        &self.input
    }

    /// Returns the tool with which a request asks for the structured data.
    pub fn tool(&self) -> ToolDefinition {
        ToolDefinition {
            name: SCHEMA_TOOL.into(),
            description: Some(SCHEMA_TOOL_DESCRIPTION.into()),
            input_schema: self.input.clone(),
            rest: Map::new(),
        }
    }

    /// Makes the tool for structured data the only tool of `request`, and requires that the model calls it.
    pub fn ask(&self, request: &mut Request) {
        request.tools = vec![self.tool()];
        request.tool_choice = Some(ToolChoice::Required);
    }

    /// Returns the structured data without the object that [`new`](Self::new) possibly wrapped around this data.
    pub fn unwrap(&self, mut input: Value) -> Value {
        match input.get_mut(WRAPPER) {
            Some(value) if self.wrapped => value.take(),
            _ => input,
        }
    }

    /// Returns the structured data in a reply: the inputs of its `__schema__` calls, or the JSON in its text. `find`
    /// does not validate the data.
    ///
    /// # Errors
    ///
    /// Returns the reason as text if the reply contains no structured data.
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
            // A model can write a list without the wrapper object. The data can also have a field with the name of the
            // wrapper's field.
            if self.wrapped && found.as_object().is_some_and(|object| object.contains_key(WRAPPER)) {
                candidates.push(found.clone());
            }
            candidates.push(if self.wrapped { json!({WRAPPER: found}) } else { found });
        }
        Ok(candidates)
    }
}

/// Returns the JSON Schema (draft 2020-12) of the Rust type `T`, without the name of the type.
pub fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let Value::Object(mut schema) = schema.to_value() else { return Map::new() };
    schema.remove("title");
    if schema.get("type").is_some_and(|kind| kind == "object") {
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Returns the first JSON value in a text. The JSON value can be inside a code fence or inside prose.
///
/// `json_in` does not repair invalid JSON, for example truncated JSON or JSON with a surplus comma.
///
/// # Errors
///
/// Returns the message of the parser if the text contains no JSON.
pub fn json_in(text: &str) -> Result<Value, String> {
    all_json_in(text).map(|mut found| found.swap_remove(0))
}

/// The maximum number of JSON values that [`all_json_in`] returns.
const CANDIDATES: usize = 8;

/// Returns the JSON value of the whole text, or all JSON objects and lists inside the text. The returned list is never
/// empty.
fn all_json_in(text: &str) -> Result<Vec<Value>, String> {
    let text = text.trim();
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(vec![value]),
        Err(error) => error,
    };
    let (mut found, mut trivial) = (Vec::new(), Vec::new());
    // Skip a `{` in prose. After an invalid value, skip the part that was parsed, because its inner values are not the
    // answer. So each byte is parsed only once, even in a text with many brackets.
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

/// Returns the position in `text` at which parsing failed.
fn place_of(error: &serde_json::Error, text: &str) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}

/// Returns whether a value is `{}` or `[]`. In prose, `{}` or `[]` is rarely the answer. [`all_json_in`] handles a
/// text that consists only of `{}` or `[]` before it calls this function.
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
