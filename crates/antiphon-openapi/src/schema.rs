//! Converts the schemas of an OpenAPI document into JSON Schema 2020-12.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::document::Document;

/// The keywords next to a `$ref` that this crate uses in OpenAPI 3.0 documents. According to the specification,
/// keywords next to a `$ref` are ignored, but many documents use such keywords.
const BESIDE_REFERENCE: [&str; 4] = ["description", "default", "deprecated", "nullable"];

/// A converter for the schemas of requests. The converter also collects the schemas to which the converted schemas
/// refer.
#[derive(Debug)]
pub(crate) struct Converter<'a> {
    document: &'a Document,
    /// The maximum length of a description, in characters.
    max_description: usize,
    /// The name in `$defs` for each reference of the document.
    names: BTreeMap<String, String>,
    /// References to schemas that the converter has not converted yet.
    waiting: Vec<String>,
    /// The warnings of the conversion, with one line for each kind of lost information.
    pub(crate) warnings: BTreeSet<String>,
    /// Whether the converted schemas accept the same values as the schemas of the document.
    is_exact: bool,
    /// Whether the conversion is a trial. In a trial, only the field `is_exact` of the converter is used.
    is_trial: bool,
}

impl<'a> Converter<'a> {
    pub(crate) fn new(document: &'a Document, max_description: usize) -> Self {
        Self {
            document,
            max_description,
            names: BTreeMap::new(),
            waiting: Vec::new(),
            warnings: BTreeSet::new(),
            is_exact: true,
            is_trial: false,
        }
    }

    /// Converts a schema. References in the converted schema point to `#/$defs/…`.
    pub(crate) fn convert(&mut self, schema: &Value) -> Value {
        self.schema(schema, &BTreeSet::new())
    }

    /// Converts the schemas to which the converted schemas refer, and returns the value of `$defs`.
    pub(crate) fn definitions(&mut self) -> Map<String, Value> {
        let mut definitions = BTreeMap::new();
        while let Some(reference) = self.waiting.pop() {
            let document = self.document;
            let converted = document.pointer(&reference).map(|target| self.convert(target));
            if let (Some(converted), Some(name)) = (converted, self.names.get(&reference)) {
                definitions.insert(name.clone(), converted);
            }
        }
        definitions.into_iter().collect()
    }

    /// Returns the description `text`, shortened to the maximum length.
    pub(crate) fn description(&mut self, text: &str) -> String {
        let short = cut(text, self.max_description);
        if short != text.trim() {
            self.warn(format!(
                "descriptions of arguments are cut to {} characters; raise `OpenApi::with_max_argument_description`",
                self.max_description
            ));
        }
        short
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.is_exact = false;
        self.warnings.insert(warning.into());
    }

    /// Returns whether a converted schema, and the schemas to which it refers, accept the same values as the original
    /// schemas.
    fn converts_exactly(&self, schema: &Value) -> bool {
        let mut trial = Self::new(self.document, usize::MAX);
        trial.is_trial = true;
        trial.convert(schema);
        trial.definitions();
        trial.is_exact
    }

    /// Converts a schema. If the schema is a part of an `allOf`, `read_only` contains the properties that other parts
    /// make read-only.
    fn schema(&mut self, schema: &Value, read_only: &BTreeSet<String>) -> Value {
        match schema {
            Value::Bool(_) => schema.clone(),
            Value::Object(schema) => self.object(schema, read_only),
            _ => {
                self.warn("a schema is not an object, so any value is accepted");
                json!({})
            }
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, read_only: &BTreeSet<String>) -> Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let mut converted = Map::new();
        let mut read_only = read_only.clone();
        self.read_only_properties(schema, 0, &mut read_only);
        self.is_exact &= read_only.is_empty();
        if let Some(local) = reference.and_then(|reference| self.reference(reference)) {
            converted.insert("$ref".into(), local.into());
        }
        for (keyword, value) in schema {
            let is_ignored =
                reference.is_some() && self.document.is_3_0 && !BESIDE_REFERENCE.contains(&keyword.as_str());
            if !is_ignored {
                self.keyword(keyword, value, schema, &read_only, &mut converted);
            }
        }
        if let Some(branches) = converted.shift_remove("oneOf") {
            self.is_exact = false;
            any_of(&mut converted, branches);
        }
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            nullable(converted)
        } else {
            Value::Object(converted)
        }
    }

    /// Returns a reference to `$defs`, and stores the target of the reference for conversion.
    fn reference(&mut self, reference: &str) -> Option<String> {
        if !self.names.contains_key(reference) {
            if self.document.pointer(reference).is_none() {
                let place =
                    if reference.starts_with('#') { "in the document" } else { "because it is external" };
                self.warn(format!(
                    "the reference `{reference}` has no target {place}, so any value is accepted"
                ));
                return None;
            }
            let name = self.definition_name(reference);
            self.names.insert(reference.to_owned(), name);
            self.waiting.push(reference.to_owned());
        }
        Some(format!("#/$defs/{}", self.names.get(reference)?))
    }

    fn definition_name(&self, reference: &str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
        let base: String =
            last.chars().map(|character| if is_allowed(character) { character } else { '_' }).collect();
        let taken = |name: &str| self.names.values().any(|found| found == name);
        if !base.is_empty() && !taken(&base) {
            return base;
        }
        let mut numbered = (2_u32..).map(|number| format!("{base}_{number}"));
        numbered.find(|name| !taken(name)).unwrap_or(base)
    }

    /// Converts one keyword of a schema. A keyword with a value of the wrong kind is omitted, so that the converted
    /// schema is valid.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        schema: &Map<String, Value>,
        read_only: &BTreeSet<String>,
        converted: &mut Map<String, Value>,
    ) {
        let kept = match keyword {
            "type" => types(value),
            "description" => value.as_str().map(|text| self.description(text).into()),
            "title" | "contentEncoding" | "contentMediaType" => value.is_string().then(|| value.clone()),
            "format" => {
                // In JSON Schema 2020-12, a format does not restrict values.
                self.is_exact = false;
                value.is_string().then(|| value.clone())
            }
            "default" | "const" => Some(value.clone()),
            "enum" => value.is_array().then(|| value.clone()),
            "example" if !schema.get("examples").is_some_and(Value::is_array) => {
                converted.insert("examples".into(), json!([value]));
                return;
            }
            "examples" => value.is_array().then(|| value.clone()),
            "minimum" | "maximum" => {
                let exclusive = if keyword == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                if schema.get(exclusive) == Some(&Value::Bool(true)) && value.is_number() {
                    converted.insert(exclusive.into(), value.clone());
                    return;
                }
                value.is_number().then(|| value.clone())
            }
            // In OpenAPI 3.0, these keywords are booleans. The conversions of `minimum` and `maximum` use these
            // keywords.
            "exclusiveMinimum" | "exclusiveMaximum" => {
                if value.is_boolean() {
                    return;
                }
                value.is_number().then(|| value.clone())
            }
            "multipleOf" => value.as_f64().filter(|number| *number > 0.0).map(|_| value.clone()),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
            | "minContains" | "maxContains" => count(value),
            "uniqueItems" | "deprecated" | "writeOnly" => value.is_boolean().then(|| value.clone()),
            "pattern" => value.as_str().filter(|pattern| is_pattern(pattern)).map(Into::into),
            "required" => required(value, read_only),
            "dependentRequired" => value.is_object().then(|| value.clone()),
            "properties" => {
                let properties = value.as_object().map(|properties| self.properties(properties, read_only));
                properties.map(Value::Object)
            }
            "patternProperties" | "dependentSchemas" => value.as_object().map(|schemas| {
                let schemas = schemas.iter().filter_map(|(name, schema)| {
                    if keyword == "patternProperties" && !is_pattern(name) {
                        self.warn("a pattern of `patternProperties` is dropped: the pattern is not valid");
                        return None;
                    }
                    Some((name.clone(), self.convert(schema)))
                });
                Value::Object(schemas.collect())
            }),
            "items" if value.is_array() => {
                if let Some(tuple) = self.list(value, &BTreeSet::new()) {
                    converted.insert("prefixItems".into(), tuple);
                }
                return;
            }
            // If the schema in `not` or `if` loses a constraint, the schema matches more values. The server would then
            // reject valid values.
            "not" | "if" if !self.is_trial && !self.converts_exactly(value) => {
                self.warn(format!("`{keyword}` is dropped: the server cannot check all of its schema"));
                return;
            }
            "items"
            | "additionalProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => (value.is_object() || value.is_boolean()).then(|| self.convert(value)),
            "prefixItems" => self.list(value, &BTreeSet::new()),
            "allOf" | "anyOf" | "oneOf" => self.list(value, read_only),
            "discriminator" => {
                self.warn("`discriminator` is dropped: JSON Schema 2020-12 does not have it");
                return;
            }
            "$dynamicRef" | "$recursiveRef" => {
                self.warn(format!("`{keyword}` is dropped, so any value is accepted there"));
                return;
            }
            // The keywords in this arm have no meaning in the input schema of a tool, or are converted elsewhere.
            "$ref" | "nullable" | "readOnly" | "example" | "xml" | "externalDocs" | "$schema" | "$id"
            | "id" | "$anchor" | "$dynamicAnchor" | "$comment" | "$defs" | "definitions" | "$vocabulary" => {
                return;
            }
            _ if keyword.starts_with("x-") => return,
            _ => {
                self.warn(format!("the unknown keyword `{}` is dropped", cut(keyword, 40)));
                return;
            }
        };
        match kept {
            Some(kept) => {
                converted.insert(keyword.to_owned(), kept);
            }
            None => self.warn(format!("`{keyword}` is dropped: its value is not valid")),
        }
    }

    /// Converts the properties of a schema, except properties that occur only in responses.
    fn properties(
        &mut self,
        properties: &Map<String, Value>,
        read_only: &BTreeSet<String>,
    ) -> Map<String, Value> {
        let properties = properties.iter().filter(|(name, _)| !read_only.contains(*name));
        properties.map(|(name, schema)| (name.clone(), self.convert(schema))).collect()
    }

    fn list(&mut self, value: &Value, read_only: &BTreeSet<String>) -> Option<Value> {
        let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
        Some(Value::Array(schemas.iter().map(|schema| self.schema(schema, read_only)).collect()))
    }

    /// Collects the read-only properties of a schema and of the parts of its `allOf`.
    fn read_only_properties(&self, schema: &Map<String, Value>, depth: usize, found: &mut BTreeSet<String>) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let target = self.document.resolve(property);
            let is_read_only = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
            if is_read_only(property) || target.is_some_and(is_read_only) {
                found.insert(name.clone());
            }
        }
        if depth < 4 {
            for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                if let Some(Value::Object(part)) = self.document.resolve(part) {
                    self.read_only_properties(part, depth + 1, found);
                }
            }
        }
    }
}

/// Returns the types in `value` that JSON Schema supports.
fn types(value: &Value) -> Option<Value> {
    let known =
        |kind: &str| ["array", "boolean", "integer", "null", "number", "object", "string"].contains(&kind);
    match value {
        Value::String(kind) if known(kind) => Some(value.clone()),
        // The type `file` is a file in a form. Documents that were converted from OpenAPI 2 contain this type.
        Value::String(kind) if kind == "file" => Some("string".into()),
        Value::Array(kinds) => {
            let mut kept: Vec<Value> = Vec::new();
            for kind in kinds {
                if kind.as_str().is_some_and(known) && !kept.contains(kind) {
                    kept.push(kind.clone());
                }
            }
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

/// Adds the branches of `oneOf` as `anyOf`. A converted branch can accept more values than the original branch, for
/// example because the server does not check formats. So a valid value could match two converted branches, and `oneOf`
/// would reject this value.
fn any_of(schema: &mut Map<String, Value>, branches: Value) {
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".into(), branches);
    } else if let Some(parts) = schema.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        parts.push(json!({"anyOf": branches}));
    }
}

/// Returns a schema that accepts the values of `schema` and also null.
fn nullable(mut schema: Map<String, Value>) -> Value {
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let combined = ["$ref", "allOf", "anyOf", "not"].iter().any(|keyword| schema.contains_key(*keyword));
    if combined {
        let mut outer = Map::new();
        for keyword in ["title", "description"] {
            if let Some(text) = schema.remove(keyword) {
                outer.insert(keyword.into(), text);
            }
        }
        outer.insert("anyOf".into(), json!([schema, {"type": "null"}]));
        return Value::Object(outer);
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.contains(&"null".into()) => kinds.push("null".into()),
        Some(kind @ Value::String(_)) if *kind != "null" => *kind = json!([kind.take(), "null"]),
        _ => {}
    }
    Value::Object(schema)
}

/// Returns the number in a keyword such as `maxLength` as an integer. Some documents contain numbers such as `10.0`.
fn count(value: &Value) -> Option<Value> {
    if value.is_u64() {
        return Some(value.clone());
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number))?;
    format!("{number:.0}").parse::<u64>().ok().map(Into::into)
}

/// Returns the names of required properties without duplicates, except properties that occur only in responses.
fn required(value: &Value, read_only: &BTreeSet<String>) -> Option<Value> {
    let mut names: Vec<Value> = Vec::new();
    for name in value.as_array()? {
        if name.as_str().is_some_and(|text| !read_only.contains(text)) && !names.contains(name) {
            names.push(name.clone());
        }
    }
    Some(Value::Array(names))
}

/// Returns whether the server can check the pattern. The converter omits patterns that the server's regular expression
/// library cannot parse.
fn is_pattern(pattern: &str) -> bool {
    jsonschema::options().build(&json!({"pattern": pattern})).is_ok()
}

/// Returns at most `limit` characters of a text. A shortened text ends with `…`.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    let text = text.trim();
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(
        version: &str,
        schemas: &Value,
        schema: &Value,
    ) -> (Value, Map<String, Value>, BTreeSet<String>) {
        let document = json!({"openapi": version, "components": {"schemas": schemas}});
        let document = Document::new(document).unwrap();
        let mut converter = Converter::new(&document, 100);
        let converted = converter.convert(schema);
        let definitions = converter.definitions();
        let mut complete = converted.clone();
        complete["$defs"] = Value::Object(definitions.clone());
        jsonschema::meta::validate(&complete).unwrap();
        (converted, definitions, converter.warnings)
    }

    #[test]
    fn the_dialect_of_3_0_becomes_2020_12() {
        let schema = json!({
            "type": "object",
            "properties": {
                "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "nullable": true, "example": 7},
                "top": {"type": "number", "maximum": 9, "exclusiveMaximum": false},
                "mood": {"type": "string", "enum": ["calm"], "nullable": true},
                "pet": {"allOf": [{"type": "object"}], "nullable": true, "description": "A pet"},
            },
        });
        let (converted, _, warnings) = convert("3.0.3", &json!({}), &schema);
        assert_eq!(
            converted["properties"],
            json!({
                "age": {"type": ["integer", "null"], "exclusiveMinimum": 0, "examples": [7]},
                "top": {"type": "number", "maximum": 9},
                "mood": {"type": ["string", "null"], "enum": ["calm", null]},
                "pet": {"description": "A pet", "anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]},
            })
        );
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn references_become_definitions_and_cycles_stay_references() {
        let schemas = json!({
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
            "A b": {"type": "string"},
        });
        let schema =
            json!({"allOf": [{"$ref": "#/components/schemas/Node"}, {"$ref": "#/components/schemas/A b"}]});
        let (converted, definitions, warnings) = convert("3.1.0", &schemas, &schema);
        assert_eq!(converted, json!({"allOf": [{"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/A_b"}]}));
        assert_eq!(definitions["Node"]["properties"]["next"], json!({"$ref": "#/$defs/Node"}));
        assert_eq!(definitions["A_b"], json!({"type": "string"}));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn fields_of_responses_are_not_in_requests() {
        let schemas = json!({
            "Base": {"properties": {"id": {"type": "string", "readOnly": true}, "name": {"type": "string"}}},
            "Made": {"type": "string", "readOnly": true},
        });
        let schema = json!({
            "allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "name"]}],
            "properties": {"made": {"$ref": "#/components/schemas/Made"}, "size": {"type": "integer"}},
            "required": ["made", "size", "size"],
        });
        let (converted, definitions, _) = convert("3.0.0", &schemas, &schema);
        assert_eq!(converted["properties"], json!({"size": {"type": "integer"}}));
        assert_eq!(converted["required"], json!(["size"]));
        assert_eq!(converted["allOf"][1], json!({"required": ["name"]}));
        assert_eq!(definitions["Base"]["properties"], json!({"name": {"type": "string"}}));
    }

    /// Returns whether a converted schema accepts a value.
    fn accepts(schemas: &Value, schema: &Value, value: &Value) -> bool {
        let (mut converted, definitions, _) = convert("3.1.0", schemas, schema);
        converted["$defs"] = Value::Object(definitions);
        jsonschema::options().build(&converted).unwrap().is_valid(value)
    }

    #[test]
    fn one_of_accepts_values_of_branches_that_lose_constraints() {
        let schemas = json!({"Pet": {"type": "object", "required": ["name"]}});
        let made = json!({"type": "string", "readOnly": true});
        for (branches, value) in [
            (json!([{"$ref": "x.yaml#/A"}, {"$ref": "x.yaml#/B"}]), json!({"name": "Rex"})),
            (
                json!([{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]),
                json!("2026-01-01"),
            ),
            (json!([{"type": "string", "pattern": "(?<x"}, {"type": "string"}]), json!("a")),
            (
                json!([{"properties": {"id": made}, "required": ["id"]}, {"properties": {"name": {}}}]),
                json!({"name": "Rex"}),
            ),
            (json!([{"$ref": "#/components/schemas/Pet"}, {"type": "object"}]), json!({"name": "Rex"})),
        ] {
            assert!(accepts(&schemas, &json!({"oneOf": branches}), &value), "{branches}");
            let both = json!({"oneOf": branches, "anyOf": [{}, {"type": "null"}], "allOf": [{}]});
            assert!(accepts(&schemas, &both, &value), "{both}");
        }
        let (converted, _, _) = convert(
            "3.1.0",
            &schemas,
            &json!({"oneOf": [{"type": "string"}], "anyOf": [{"minLength": 2}, {"minLength": 1}]}),
        );
        let (one, any) = (json!([{"type": "string"}]), json!([{"minLength": 2}, {"minLength": 1}]));
        assert_eq!(converted, json!({"anyOf": any, "allOf": [{"anyOf": one}]}));
    }

    #[test]
    fn not_and_if_are_dropped_if_their_schema_loses_constraints() {
        let schemas = json!({
            "Odd": {"type": "string", "pattern": "(?<x"},
            "Loop": {"properties": {"next": {"not": {"$ref": "#/components/schemas/Loop"}}}},
            "Word": {"enum": ["a", "b"]},
        });
        for (lost, value) in [
            (json!({"$ref": "x.yaml#/A"}), json!(1)),
            (json!({"$ref": "#/components/schemas/Odd"}), json!("a")),
            (json!({"type": "string", "format": "date"}), json!("a")),
            (json!({"required": ["id"], "properties": {"id": {"readOnly": true}}}), json!({"name": "Rex"})),
            (json!({"oneOf": [{"type": "string"}, {"minLength": 2}]}), json!("ab")),
        ] {
            for schema in [json!({"not": lost}), json!({"if": lost, "then": false})] {
                assert!(accepts(&schemas, &schema, &value), "{schema}");
                let (_, _, warnings) = convert("3.1.0", &schemas, &schema);
                assert!(warnings.iter().any(|it| it.contains("is dropped: the server")), "{warnings:?}");
            }
        }
        for (exact, value) in [
            (json!({"$ref": "#/components/schemas/Word"}), json!("a")),
            (json!({"required": ["id"], "properties": {"id": {}}}), json!({"id": 1})),
            (json!({"$ref": "#/components/schemas/Loop"}), json!({})),
        ] {
            for schema in [json!({"not": exact}), json!({"if": exact, "then": false})] {
                assert!(!accepts(&schemas, &schema, &value), "{schema}");
            }
        }
    }

    #[test]
    fn odd_schemas_are_mended_with_a_warning() {
        let schema = json!({
            "type": "object",
            "required": true,
            "discriminator": {"propertyName": "kind"},
            "properties": {
                "a": {"type": "float", "minLength": -1, "maxLength": 10.0},
                "b": {"type": "string", "pattern": "(?<x"},
                "c": {"$ref": "other.yaml#/C"},
                "d": {"$ref": "#/components/schemas/Missing"},
                "e": [],
                "f": {"type": "array", "items": [{"type": "string"}]},
            },
        });
        let (converted, _, warnings) = convert("3.1.0", &json!({}), &schema);
        let properties = json!({
            "a": {"maxLength": 10}, "b": {"type": "string"}, "c": {}, "d": {}, "e": {},
            "f": {"type": "array", "prefixItems": [{"type": "string"}]},
        });
        assert_eq!(converted, json!({"type": "object", "properties": properties}));
        for part in [
            "required",
            "discriminator",
            "`type`",
            "minLength",
            "pattern",
            "other.yaml",
            "Missing",
            "not an object",
        ] {
            assert!(warnings.iter().any(|warning| warning.contains(part)), "{part}: {warnings:?}");
        }
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("a bit longer", 6), "a bit…");
    }
}
