//! Schemas for servers that convert a schema to a grammar: llama.cpp, Ollama, vLLM.

use serde_json::{Map, Value, json};

use super::each_inside;
use crate::request::ToolDefinition;

/// Converts `schema` for servers that use grammars: removes `$schema`, and writes boolean schemas as objects.
pub(in crate::providers) fn native(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.remove("$schema");
    spell_out(&mut schema);
    Value::Object(schema)
}

fn spell_out(schema: &mut Map<String, Value>) {
    each_inside(schema, &mut |key, inside| match inside {
        Value::Object(inside) => spell_out(inside),
        // All servers support a boolean `additionalProperties`.
        Value::Bool(anything) if key != "additionalProperties" && key != "items" => {
            *inside = if *anything { json!({}) } else { json!({"not": {}}) };
        }
        Value::Bool(true) if key == "items" => *inside = json!({}),
        _ => {}
    });
}

/// Returns the schema of the calls that [`plain`](crate::plain) asks for: a list of calls of the tools in `tools`.
pub(in crate::providers) fn calls(tools: &[ToolDefinition]) -> Value {
    let mut shared = Map::new();
    let calls: Vec<Value> = tools
        .iter()
        .enumerate()
        .map(|(place, tool)| {
            let arguments = hoist(native(&tool.input_schema), place, &mut shared);
            json!({
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": false,
            })
        })
        .collect();
    let call = match <[Value; 1]>::try_from(calls) {
        Ok([only]) => only,
        Err(several) => json!({"anyOf": several}),
    };
    let mut schema = json!({
        "type": "object",
        "properties": {"tool_calls": {"type": "array", "items": call, "minItems": 1}},
        "required": ["tool_calls"],
        "additionalProperties": false,
    });
    if !shared.is_empty() {
        schema["$defs"] = Value::Object(shared);
    }
    schema
}

/// Embeds `schema` in another schema. The function moves the definitions of `schema` to `shared` under unique names.
fn hoist(mut schema: Value, place: usize, shared: &mut Map<String, Value>) -> Value {
    let mut whole = false;
    rename(&mut schema, place, &mut whole);
    for key in ["$defs", "definitions"] {
        if let Some(Value::Object(definitions)) = schema.as_object_mut().and_then(|root| root.remove(key)) {
            let named = definitions.into_iter().map(|(name, schema)| (format!("{place}_{name}"), schema));
            shared.extend(named);
        }
    }
    if whole {
        shared.insert(format!("{place}_"), schema);
        return json!({"$ref": format!("#/$defs/{place}_")});
    }
    schema
}

fn rename(value: &mut Value, place: usize, whole: &mut bool) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get_mut("$ref") {
                let name = ["#/$defs/", "#/definitions/"].iter().find_map(|start| target.strip_prefix(start));
                if target == "#" {
                    *whole = true;
                    *target = format!("#/$defs/{place}_");
                } else if let Some(name) = name {
                    *target = format!("#/$defs/{place}_{name}");
                }
            }
            object.values_mut().for_each(|inside| rename(inside, place, whole));
        }
        Value::Array(list) => list.iter_mut().for_each(|inside| rename(inside, place, whole)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches_anything_is_written_out() {
        let schema = json!({
            "$schema": "x",
            "type": "object",
            "properties": {"any": true, "map": {"type": "object", "additionalProperties": true}},
            "additionalProperties": false,
        });
        assert_eq!(
            native(schema.as_object().unwrap()),
            json!({
                "type": "object",
                "properties": {"any": {}, "map": {"type": "object", "additionalProperties": true}},
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn definitions_of_several_tools_do_not_meet() {
        let tool = |name: &str, kind: &str| {
            ToolDefinition::new(
                name,
                json!({"properties": {"it": {"$ref": "#/$defs/It"}}, "$defs": {"It": {"type": kind}}}),
            )
        };
        let schema = calls(&[tool("a", "string"), tool("b", "integer")]);
        let items = &schema["properties"]["tool_calls"]["items"]["anyOf"];
        assert_eq!(items[1]["properties"]["arguments"]["properties"]["it"]["$ref"], "#/$defs/1_It");
        assert_eq!(schema["$defs"], json!({"0_It": {"type": "string"}, "1_It": {"type": "integer"}}));
    }

    #[test]
    fn a_tool_that_takes_a_tree_still_does() {
        let tree = json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
        let schema = calls(&[ToolDefinition::new("plant", tree)]);
        let call = &schema["properties"]["tool_calls"]["items"];
        assert_eq!(call["properties"]["arguments"], json!({"$ref": "#/$defs/0_"}));
        assert_eq!(schema["$defs"]["0_"]["properties"]["next"]["anyOf"][0]["$ref"], "#/$defs/0_");
    }
}
