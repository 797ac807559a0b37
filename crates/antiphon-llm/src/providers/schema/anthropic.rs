//! Schemas for Anthropic's structured output.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{
    each_inside, forget, has_type, into_description, is_anything, merge_lone_all_of, one_of_as_any_of,
};

const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
/// The keywords that Anthropic's structured output supports. All other keywords become a part of the schema's
/// description.
const KNOWN: [&str; 15] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "description",
    "enum",
    "format",
    "items",
    "minItems",
    "properties",
    "required",
    "title",
    "type",
];
const MUTE: [&str; 5] = ["$id", "$schema", "default", "discriminator", "examples"];
/// Keywords whose removal would change the meaning of a schema.
const IMPOSSIBLE: [&str; 8] =
    ["dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "prefixItems", "then"];
const MAX_OPTIONAL: usize = 24;
const MAX_UNIONS: usize = 16;

/// Converts `schema` for `output_config.format`. Returns `None` if this format cannot express the schema.
pub(in crate::providers) fn native(schema: &Map<String, Value>) -> Option<Value> {
    let mut schema = schema.clone();
    if schema.get("type") != Some(&json!("object")) || is_recursive(&schema) {
        return None;
    }
    let mut native = Native::default();
    native.make(&mut schema)?;
    (native.optional <= MAX_OPTIONAL && native.unions <= MAX_UNIONS).then_some(Value::Object(schema))
}

#[derive(Default)]
struct Native {
    optional: usize,
    unions: usize,
}

impl Native {
    fn make(&mut self, schema: &mut Map<String, Value>) -> Option<()> {
        forget(schema, &MUTE);
        if !merge_lone_all_of(schema) {
            return None;
        }
        one_of_as_any_of(schema);
        if is_anything(schema) || IMPOSSIBLE.iter().any(|key| schema.contains_key(*key)) {
            return None;
        }
        if let Some(Value::String(target)) = schema.get("$ref")
            && !target.starts_with("#/$defs/")
        {
            return None;
        }
        if schema.contains_key("anyOf") || schema.get("type").is_some_and(Value::is_array) {
            self.unions += 1;
        }
        self.object(schema)?;
        limits(schema)?;
        let mut possible = Some(());
        each_inside(schema, &mut |key, inside| {
            if key != "additionalProperties" && possible.is_some() {
                possible = inside.as_object_mut().and_then(|inside| self.make(inside));
            }
        });
        possible
    }

    /// Closes an object schema, so that it allows no further fields. Optional fields of the schema stay optional. The
    /// schema of a map cannot be closed, because the field names of the map are unknown.
    fn object(&mut self, schema: &mut Map<String, Value>) -> Option<()> {
        let named = schema.get("properties").and_then(Value::as_object).map(Map::len);
        if named.is_none() && !has_type(schema, "object") {
            return Some(());
        }
        let closed = schema.get("additionalProperties");
        if !matches!(closed, None | Some(Value::Bool(false))) || (named.is_none() && closed.is_none()) {
            return None;
        }
        let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        self.optional += named.unwrap_or_default().saturating_sub(required);
        schema.insert("additionalProperties".into(), false.into());
        Some(())
    }
}

fn limits(schema: &mut Map<String, Value>) -> Option<()> {
    let format = schema.get("format").and_then(Value::as_str);
    let number = has_type(schema, "integer") || has_type(schema, "number");
    match format {
        Some(_) if number => drop(schema.remove("format")),
        Some(format) if !FORMATS.contains(&format) => into_description(schema, &["format"]),
        _ => {}
    }
    if schema.get("minItems").and_then(Value::as_u64).is_some_and(|least| least > 1) {
        into_description(schema, &["minItems"]);
    }
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    if values.chain(schema.get("const")).any(|value| value.is_object() || value.is_array()) {
        return None;
    }
    let mut unknown: Vec<String> =
        schema.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned().collect();
    unknown.sort();
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    into_description(schema, &unknown);
    Some(())
}

/// Returns whether a schema refers to itself, directly or through other definitions.
fn is_recursive(schema: &Map<String, Value>) -> bool {
    fn targets(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(target)) = object.get("$ref") {
                    found.push(target.clone());
                }
                object
                    .iter()
                    .filter(|(key, _)| *key != "$defs")
                    .for_each(|(_, inside)| targets(inside, found));
            }
            Value::Array(list) => list.iter().for_each(|inside| targets(inside, found)),
            _ => {}
        }
    }
    /// Returns whether a cycle of references is reachable from `name`. The function skips definitions in `done`.
    /// Without `done`, a few definitions could lead to an exponential number of paths.
    fn meets<'a>(
        name: &'a str,
        refs: &'a HashMap<String, Vec<String>>,
        path: &mut Vec<&'a str>,
        done: &mut HashSet<&'a str>,
    ) -> bool {
        if name == "#" || path.contains(&name) {
            return true;
        }
        if !done.insert(name) {
            return false;
        }
        path.push(name);
        let met = refs.get(name).into_iter().flatten().any(|next| meets(next, refs, path, done));
        path.pop();
        met
    }
    let found = |value: &Value| {
        let mut found = Vec::new();
        targets(value, &mut found);
        found
    };
    let defs = schema.get("$defs").and_then(Value::as_object).into_iter().flatten();
    let mut refs: HashMap<_, _> =
        defs.map(|(name, inner)| (format!("#/$defs/{name}"), found(inner))).collect();
    refs.insert(String::new(), found(&Value::Object(schema.clone())));
    let (mut path, mut done) = (Vec::new(), HashSet::new());
    refs.keys().any(|name| meets(name, &refs, &mut path, &mut done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native_of(schema: &Value) -> Option<Value> {
        native(schema.as_object().unwrap())
    }

    #[test]
    fn objects_are_closed_and_what_is_optional_stays_so() {
        let made = native_of(&json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "age": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
                "kind": {"oneOf": [{"const": "a"}, {"const": "b"}], "description": "Which."},
            },
            "required": ["age"],
        }));
        assert_eq!(
            made.unwrap(),
            json!({
                "type": "object",
                "properties": {
                    "age": {"type": "integer", "description": "{maximum: 255, minimum: 0}"},
                    "tags": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "{minItems: 2} {maxItems: 3}",
                    },
                    "kind": {"anyOf": [{"const": "a"}, {"const": "b"}], "description": "Which."},
                },
                "required": ["age"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn what_it_cannot_say_is_left_to_another_road() {
        for field in [
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            json!(true),
            json!({"enum": [{"a": 1}]}),
        ] {
            assert_eq!(
                native_of(&json!({"type": "object", "properties": {"field": field}})),
                None,
                "{field}"
            );
        }
    }

    #[test]
    fn recursion_is_found_through_several_definitions() {
        let schema = |inner: Value| {
            json!({
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {
                    "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
                    "B": inner,
                },
            })
        };
        assert!(native_of(&schema(json!({"type": "string"}))).is_some());
        assert_eq!(native_of(&schema(json!({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}))), None);
    }

    #[test]
    fn definitions_that_meet_again_and_again_take_no_time() {
        let pair = |next: usize| {
            json!({"type": "array", "items": {"anyOf": [
                {"$ref": format!("#/$defs/D{next}")}, {"$ref": format!("#/$defs/D{next}")},
            ]}})
        };
        let mut defs: Map<String, Value> = (0..60).map(|i| (format!("D{i}"), pair(i + 1))).collect();
        defs.insert("D60".into(), json!({"type": "string"}));
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": defs});
        assert!(!is_recursive(schema.as_object().unwrap()));
    }

    #[test]
    fn too_many_optional_fields_are_too_many() {
        let fields = |count: usize| {
            let fields: Map<String, Value> =
                (0..count).map(|i| (format!("f{i}"), json!({"type": "string"}))).collect();
            json!({"type": "object", "properties": fields})
        };
        assert!(native_of(&fields(MAX_OPTIONAL)).is_some());
        assert_eq!(native_of(&fields(MAX_OPTIONAL + 1)), None);
    }
}
