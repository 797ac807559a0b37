//! Schemas for Gemini's `responseJsonSchema` and `parametersJsonSchema`.

use serde_json::{Map, Value, json};

use super::{everywhere, forget, has_type, into_description, local, merge_lone_all_of, one_of_as_any_of};

const MUTE: [&str; 5] = ["$id", "$schema", "discriminator", "examples", "title"];

/// Converts `schema` for Gemini. Gemini accepts all converted schemas, but some constraints become a part of the
/// description.
pub(in crate::providers) fn native(schema: &Map<String, Value>) -> Value {
    let Value::Object(mut schema) = local::native(schema) else { return json!({}) };
    everywhere(&mut schema, &mut |schema| {
        forget(schema, &MUTE);
        merge_lone_all_of(schema);
        one_of_as_any_of(schema);
        if let Some(value) = schema.remove("const") {
            schema.insert("enum".into(), json!([value]));
        }
        into_description(schema, &["exclusiveMinimum", "exclusiveMaximum"]);
        if has_type(schema, "string") {
            into_description(schema, &["format"]);
        } else {
            schema.remove("format");
        }
    });
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_lists_of_one_and_formats_are_words() {
        let made = native(
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Mail",
                "type": "object",
                "properties": {
                    "kind": {"const": "mail"},
                    "to": {"type": "string", "format": "email"},
                    "size": {"type": "integer", "format": "uint32", "exclusiveMinimum": 0},
                    "extra": true,
                    "title": {"oneOf": [{"type": "string"}, {"type": "null"}]},
                },
            })
            .as_object()
            .unwrap(),
        );
        assert_eq!(
            made,
            json!({
                "type": "object",
                "properties": {
                    "kind": {"enum": ["mail"]},
                    "to": {"type": "string", "description": "{format: \"email\"}"},
                    "size": {"type": "integer", "description": "{exclusiveMinimum: 0}"},
                    "extra": {},
                    "title": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
            })
        );
    }
}
