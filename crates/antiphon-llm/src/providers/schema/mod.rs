//! Converts JSON Schemas for each provider.
//!
//! Each provider rejects different keywords of JSON Schema. If this module removes a constraint from a schema, it adds
//! the constraint to the descriptions of the schema. The caller validates the reply against the original schema.

pub(super) mod anthropic;
pub(super) mod gemini;
pub(super) mod local;
pub(super) mod openai;

use serde_json::{Map, Value, json};

/// Keywords of JSON Schema whose value is a schema.
const ONE: [&str; 10] = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords of JSON Schema whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords of JSON Schema whose value is an object that contains schemas.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Calls `f` for every schema directly inside `schema`, with the keyword that contains this inner schema.
fn each_inside(schema: &mut Map<String, Value>, f: &mut impl FnMut(&str, &mut Value)) {
    for (key, value) in schema.iter_mut() {
        let key = key.as_str();
        match value {
            Value::Array(list) if LIST.contains(&key) => list.iter_mut().for_each(|inside| f(key, inside)),
            Value::Object(named) if NAMED.contains(&key) => {
                named.values_mut().for_each(|inside| f(key, inside));
            }
            Value::Object(_) | Value::Bool(_) if ONE.contains(&key) => f(key, value),
            _ => {}
        }
    }
}

/// Calls `f` for `schema` and for every object schema inside `schema`, innermost schemas first.
fn everywhere(schema: &mut Map<String, Value>, f: &mut impl FnMut(&mut Map<String, Value>)) {
    each_inside(schema, &mut |_, inside| {
        if let Value::Object(inside) = inside {
            everywhere(inside, f);
        }
    });
    f(schema);
}

/// Removes `keys` from `schema`.
fn forget(schema: &mut Map<String, Value>, keys: &[&str]) {
    schema.retain(|key, _| !keys.contains(&key.as_str()));
}

/// Removes `keys` from `schema`, and adds the removed keywords and values to the description of `schema`.
fn into_description(schema: &mut Map<String, Value>, keys: &[&str]) {
    let mut said: Vec<String> = Vec::new();
    for key in keys {
        if let Some(value) = schema.remove(*key) {
            said.push(format!("{key}: {value}"));
        }
    }
    if !said.is_empty() {
        let said = format!("{{{}}}", said.join(", "));
        let text = match schema.get("description").and_then(Value::as_str) {
            Some(description) => format!("{description} {said}"),
            None => said,
        };
        schema.insert("description".into(), text.into());
    }
}

/// Replaces `oneOf` by `anyOf` in `schema`. The caller checks that the data matches only one of the schemas in
/// `anyOf`.
fn one_of_as_any_of(schema: &mut Map<String, Value>) {
    if !schema.contains_key("anyOf")
        && let Some(list) = schema.remove("oneOf")
    {
        schema.insert("anyOf".into(), list);
    }
}

/// Merges the entry of `allOf` into `schema`, if `allOf` has a single entry. Returns `false` if `allOf` has several
/// entries.
fn merge_lone_all_of(schema: &mut Map<String, Value>) -> bool {
    match schema.get_mut("allOf").map(Value::take) {
        None => true,
        Some(Value::Array(list)) if list.len() == 1 => {
            schema.remove("allOf");
            if let Some(Value::Object(inner)) = list.into_iter().next() {
                for (key, value) in inner {
                    schema.entry(key).or_insert(value);
                }
            }
            true
        }
        Some(several) => {
            schema.insert("allOf".into(), several);
            false
        }
    }
}

/// Returns whether `kind` is one of the types of `schema`.
fn has_type(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Returns whether all JSON values match `schema`.
fn is_anything(schema: &Map<String, Value>) -> bool {
    !["$ref", "anyOf", "const", "enum", "oneOf", "allOf", "type"].iter().any(|key| schema.contains_key(*key))
}

/// Returns the input schema of a tool, and adds `properties` if it is missing. Some providers require `properties`.
pub(super) fn with_properties(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    if has_type(&schema, "object") {
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    Value::Object(schema)
}
