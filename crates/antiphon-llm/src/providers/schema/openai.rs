//! Schemas for OpenAI's strict mode, which enforces a schema if it has a supported form.

use serde_json::{Map, Value, json};

use super::{
    each_inside, forget, has_type, into_description, is_anything, merge_lone_all_of, one_of_as_any_of,
};

const FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
/// Keywords that do not restrict the values of a schema.
const MUTE: [&str; 6] = ["$id", "$schema", "default", "discriminator", "examples", "title"];
/// Keywords that restrict the values of a schema, but are not supported in strict mode.
const SAID: [&str; 14] = [
    "contains",
    "contentEncoding",
    "contentMediaType",
    "maxContains",
    "maxLength",
    "maxProperties",
    "minContains",
    "minLength",
    "minProperties",
    "patternProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];
/// Keywords whose removal would change the meaning of a schema.
const IMPOSSIBLE: [&str; 8] =
    ["dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "prefixItems", "then"];
const MAX_DEPTH: usize = 10;
const MAX_PROPERTIES: usize = 5000;
const MAX_ENUM: usize = 1000;

/// Converts `schema` for strict mode. Returns `None` if strict mode cannot express the schema.
pub(in crate::providers) fn strict(schema: &Map<String, Value>) -> Option<Value> {
    let mut schema = schema.clone();
    // The root must be an object.
    if schema.get("type") != Some(&json!("object")) || schema.contains_key("anyOf") {
        return None;
    }
    let mut strict = Strict { properties: 0 };
    strict.make(&mut schema, 1)?;
    (strict.properties <= MAX_PROPERTIES).then_some(Value::Object(schema))
}

/// Converts `schema` for the relaxed mode, which does not enforce the schema.
pub(in crate::providers) fn relaxed(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.remove("$schema");
    Value::Object(schema)
}

struct Strict {
    properties: usize,
}

impl Strict {
    fn make(&mut self, schema: &mut Map<String, Value>, depth: usize) -> Option<()> {
        forget(schema, &MUTE);
        if !merge_lone_all_of(schema) {
            return None;
        }
        one_of_as_any_of(schema);
        if is_anything(schema) || IMPOSSIBLE.iter().any(|key| schema.contains_key(*key)) {
            return None;
        }
        reference(schema)?;
        self.object(schema, depth)?;
        if has_type(schema, "array") && !schema.get("items").is_some_and(Value::is_object) {
            return None;
        }
        if schema.get("enum").and_then(Value::as_array).is_some_and(|values| values.len() > MAX_ENUM) {
            return None;
        }
        limits(schema);
        let mut possible = Some(());
        let inner = if schema.contains_key("properties") { depth + 1 } else { depth };
        each_inside(schema, &mut |key, inside| {
            // The value of `additionalProperties` is the `false` that `object` inserted.
            if key == "additionalProperties" || possible.is_none() {
                return;
            }
            let depth = if key == "$defs" { 1 } else { inner };
            possible = inside.as_object_mut().and_then(|inside| self.make(inside, depth));
        });
        possible
    }

    /// Closes an object schema, so that it allows no further fields, and makes all its fields required.
    fn object(&mut self, schema: &mut Map<String, Value>, depth: usize) -> Option<()> {
        let named = schema.contains_key("properties");
        if !named && !has_type(schema, "object") {
            return Some(());
        }
        let closed = schema.get("additionalProperties");
        if depth > MAX_DEPTH || !matches!(closed, None | Some(Value::Bool(false))) {
            return None;
        }
        if !named && closed.is_none() {
            return None;
        }
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        let names: Vec<Value> = properties.as_object()?.keys().map(|name| name.clone().into()).collect();
        self.properties += names.len();
        schema.insert("required".into(), Value::Array(names));
        schema.insert("additionalProperties".into(), false.into());
        Some(())
    }
}

/// Checks that the reference in `schema` points into the same document, and separates the reference from other
/// keywords.
fn reference(schema: &mut Map<String, Value>) -> Option<()> {
    let Some(Value::String(target)) = schema.get("$ref") else { return Some(()) };
    if target != "#" && !target.starts_with("#/$defs/") {
        return None;
    }
    if schema.len() > 1 {
        let target = schema.remove("$ref")?;
        let description = schema.remove("description");
        if !schema.is_empty() {
            return None;
        }
        schema.insert("anyOf".into(), json!([{"$ref": target}]));
        schema.extend(description.map(|text| ("description".to_owned(), text)));
    }
    Some(())
}

fn limits(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str);
    let format = format.is_some_and(|format| !FORMATS.contains(&format));
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    let around = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| pattern.contains(look));
    // The number formats of `schemars`, such as `uint32`, are only relevant for Rust.
    let number = has_type(schema, "integer") || has_type(schema, "number");
    if format && number {
        schema.remove("format");
    } else if format {
        into_description(schema, &["format"]);
    }
    if around {
        into_description(schema, &["pattern"]);
    }
    into_description(schema, &SAID);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structured::schema_of;

    fn strict_of(schema: &Value) -> Option<Value> {
        strict(schema.as_object().unwrap())
    }

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Move {
        /// Which cell.
        #[schemars(range(min = 0, max = 8))]
        cell: u8,
        #[schemars(length(min = 1))]
        why: Option<String>,
        /// How it ends.
        end: End,
    }

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum End {
        Open,
        Won { by: String },
    }

    #[test]
    fn a_struct_is_closed_and_all_its_fields_are_required() {
        let made = strict(&schema_of::<Move>()).unwrap();
        assert_eq!(
            made,
            json!({
                "type": "object",
                "properties": {
                    "cell": {"description": "Which cell.", "type": "integer", "minimum": 0, "maximum": 8},
                    "why": {"type": ["string", "null"], "description": "{minLength: 1}"},
                    "end": {"description": "How it ends.", "anyOf": [{"$ref": "#/$defs/End"}]},
                },
                "required": ["cell", "why", "end"],
                "additionalProperties": false,
                "$defs": {"End": {"anyOf": [
                    {"type": "string", "enum": ["Open"]},
                    {
                        "type": "object",
                        "properties": {"Won": {
                            "type": "object",
                            "properties": {"by": {"type": "string"}},
                            "required": ["by"],
                            "additionalProperties": false,
                        }},
                        "required": ["Won"],
                        "additionalProperties": false,
                    },
                ]}},
            })
        );
    }

    #[test]
    fn formats_nobody_enforces_are_said_in_words() {
        let made = strict_of(&json!({"type": "object", "properties": {
            "at": {"type": "string", "format": "date-time"},
            "link": {"type": "string", "format": "uri", "description": "Where."},
        }}));
        let made = made.unwrap();
        assert_eq!(made["properties"]["at"], json!({"type": "string", "format": "date-time"}));
        let link = json!({"type": "string", "description": "Where. {format: \"uri\"}"});
        assert_eq!(made["properties"]["link"], link);
    }

    #[test]
    fn what_cannot_be_strict_is_not() {
        for field in [
            json!(true),
            json!({}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": false}),
            json!({"allOf": [{"type": "string"}, {"minLength": 1}]}),
            json!({"type": "string", "not": {"const": "x"}}),
            json!({"$ref": "https://example.com/schema.json"}),
        ] {
            assert_eq!(
                strict_of(&json!({"type": "object", "properties": {"field": field}})),
                None,
                "{field}"
            );
        }
        assert_eq!(strict_of(&json!({"anyOf": [{"type": "object", "properties": {}}]})), None);
    }

    #[test]
    fn recursion_is_allowed_and_depth_is_not() {
        let tree =
            json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
        assert!(strict_of(&tree).is_some());
        let mut deep = json!({"type": "string"});
        for _ in 0..=MAX_DEPTH {
            deep = json!({"type": "object", "properties": {"in": deep}});
        }
        assert_eq!(strict_of(&deep), None);
    }
}
