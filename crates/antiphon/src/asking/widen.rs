//! Changes the output schemas of tools, so that the output schemas also accept waiting results.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Asking, waiting};

impl Asking {
    /// Changes `definition.output_schema` so that the schema also accepts a waiting result. If this function cannot
    /// change the schema, this function removes the schema from `definition`.
    ///
    /// Some clients validate structured content against the output schema, and reject results that do not match.
    pub(crate) fn widen_output_schema(definition: &mut rmcp::model::Tool) {
        let Some(schema) = definition.output_schema.take() else { return };
        definition.output_schema = widened(Map::clone(&schema)).map(Arc::new);
    }
}

/// Returns a schema that accepts all values that `schema` accepts, and also waiting results.
fn widened(mut schema: Map<String, Value>) -> Option<Map<String, Value>> {
    if !is_movable(&schema) {
        return None;
    }
    let mut wide = Map::new();
    // A reference to a definition is valid only if the definition stays at the top level of the new schema.
    for keyword in ["$schema", "$defs", "definitions"] {
        if let Some(value) = schema.remove(keyword) {
            wide.insert(keyword.to_owned(), value);
        }
    }
    // Before 2026-07-28, an output schema must describe an object. If the original schema does not describe an object,
    // the new schema has no `type`. The server then does not list the new schema to clients of older protocol
    // revisions.
    if schema.get("type").is_some_and(|kind| kind == "object") {
        wide.insert("type".to_owned(), "object".into());
    }
    wide.insert("anyOf".to_owned(), json!([schema, waiting::schema()]));
    Some(wide)
}

/// Returns `true` if a schema keeps its meaning when it becomes a part of another schema. A schema does not keep its
/// meaning if it contains identifiers, anchors, or references to places outside its definitions.
fn is_movable(schema: &Map<String, Value>) -> bool {
    schema.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
        ("$ref", Value::String(target)) => {
            target.starts_with("#/$defs/") || target.starts_with("#/definitions/")
        }
        ("$id" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef", Value::String(_))
        | ("$recursiveAnchor", Value::Bool(_)) => false,
        (_, Value::Object(schema)) => is_movable(schema),
        (_, Value::Array(schemas)) => schemas.iter().filter_map(Value::as_object).all(is_movable),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        asking::waiting::{output, tests::waits},
        model::ToolDescription,
        run::Channels,
        schema::Validator,
    };

    fn widen(schema: &Value) -> Option<Map<String, Value>> {
        let mut definition = ToolDescription::new("onboard", "Onboards", Map::new());
        definition.output_schema = schema.as_object().cloned().map(Arc::new);
        Asking::widen_output_schema(&mut definition);
        definition.output_schema.map(|schema| Map::clone(&schema))
    }

    fn waiting() -> Value {
        output(&waits("May they start?", Channels::default()), None, false).structured.unwrap()
    }

    #[cfg(feature = "validate")]
    #[test]
    fn widened_schema_accepts_results_and_waiting_results() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"desk": {"$ref": "#/$defs/Desk"}},
            "required": ["desk"],
            "additionalProperties": false,
            "$defs": {"Desk": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Desk"}}}},
        });
        let wide = widen(&schema).unwrap();
        assert_eq!(wide["type"], "object");
        assert_eq!(wide["$defs"], schema["$defs"]);
        assert_eq!(wide["anyOf"][0].get("$defs"), None);
        let validator = Validator::new(&wide).unwrap();
        let problems = |value: Value| validator.problems(&value);
        assert!(problems(json!({"desk": {"next": {}}})).is_empty());
        assert!(problems(waiting()).is_empty());
        assert!(!problems(json!({"desk": {"next": 4}})).is_empty());
        assert!(!problems(json!({})).is_empty());
    }

    #[test]
    fn schema_of_another_type_stays_without_a_type() {
        let wide = widen(&json!({"type": "array", "items": {"type": "integer"}})).unwrap();
        assert_eq!(wide.get("type"), None);
        let validator = Validator::new(&wide).unwrap();
        assert!(validator.problems(&json!([1, 2])).is_empty());
        assert!(validator.problems(&waiting()).is_empty());
    }

    #[test]
    fn schema_that_refers_to_itself_by_place_or_name_is_removed() {
        for schema in [
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            json!({"type": "object", "properties": {"next": {"$ref": "#/properties/last"}}}),
            json!({"type": "object", "allOf": [{"$ref": "https://example.com/schema"}]}),
            json!({"type": "object", "$id": "https://example.com/schema"}),
            json!({"type": "object", "$defs": {"Desk": {"$anchor": "desk"}}}),
        ] {
            assert_eq!(widen(&schema), None, "{schema}");
        }
        // A property of an object can have the same name as a JSON Schema keyword, for example `$id`.
        let named = json!({"type": "object", "properties": {"$id": {"type": "string"}, "$ref": {}}});
        assert!(widen(&named).is_some());
    }
}
