//! A JSON Schema as each provider takes it.
//!
//! Every dialect has its own list of what it refuses. What is taken out of a schema is said in its
//! descriptions, and what comes back is checked against the schema that was asked for, by the caller.

pub(super) mod anthropic;
pub(super) mod gemini;
pub(super) mod local;
pub(super) mod openai;

use serde_json::{Map, Value, json};

/// Keywords whose value is a schema.
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

/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value is an object of schemas.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Calls `f` on every schema directly inside of `schema`, with the keyword it is under.
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

/// Calls `f` on every object schema in `schema`, the innermost first.
fn everywhere(schema: &mut Map<String, Value>, f: &mut impl FnMut(&mut Map<String, Value>)) {
    each_inside(schema, &mut |_, inside| {
        if let Value::Object(inside) = inside {
            everywhere(inside, f);
        }
    });
    f(schema);
}

/// Takes `keys` out of `schema`.
fn forget(schema: &mut Map<String, Value>, keys: &[&str]) {
    schema.retain(|key, _| !keys.contains(&key.as_str()));
}

/// Takes `keys` out of `schema` and says in its description what they said.
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

/// `oneOf` as `anyOf`: which one matches is the caller's to check.
fn one_of_as_any_of(schema: &mut Map<String, Value>) {
    if !schema.contains_key("anyOf")
        && let Some(list) = schema.remove("oneOf")
    {
        schema.insert("anyOf".into(), list);
    }
}

/// A lone `allOf` as part of the schema it stands in. `false` if there are several.
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

/// Whether `kind` is, or is among, the types of `schema`.
fn has_type(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Whether anything at all would match.
fn is_anything(schema: &Map<String, Value>) -> bool {
    !["$ref", "anyOf", "const", "enum", "oneOf", "allOf", "type"].iter().any(|key| schema.contains_key(*key))
}

/// What a tool takes, with the `properties` some providers insist on.
pub(super) fn with_properties(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    if has_type(&schema, "object") {
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    Value::Object(schema)
}
