//! JSON Schema: generation from Rust types, and validation of values.

#[cfg(not(feature = "validate"))]
mod unchecked;
#[cfg(feature = "validate")]
mod validator;

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, OnceLock, RwLock},
};

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Map, Value};

#[cfg(not(feature = "validate"))]
pub(crate) use self::unchecked::Validator;
#[cfg(feature = "validate")]
pub(crate) use self::validator::Validator;

/// Returns the JSON Schema 2020-12 of the type `T`, for the description of a tool.
pub(crate) fn of<T: JsonSchema>() -> Map<String, Value> {
    into_object(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>())
}

/// Returns the input schema of a tool whose arguments have the type `T`. MCP requires that the schema describes an
/// object. A tool without arguments has the type `()`.
pub(crate) fn of_arguments<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = antiphon_llm::schema_of::<T>();
    if schema.get("type").is_some_and(|kind| kind == "null") {
        schema.clear();
    }
    if !schema.contains_key("type") && !schema.contains_key("$ref") {
        schema.insert("type".into(), "object".into());
    }
    if schema.get("type").is_some_and(|kind| kind == "object") && !schema.contains_key("properties") {
        schema.insert("properties".into(), Value::Object(Map::new()));
    }
    schema
}

fn into_object(schema: Schema) -> Map<String, Value> {
    match schema.to_value() {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// A form that asks a user for data: the schema of the fields, and the validator for the answer. The schema uses only
/// the flat subset of JSON Schema that elicitation allows.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) key: String,
    pub(crate) schema: Value,
    /// The schema as text. A fingerprint of the question is computed from this text.
    pub(crate) text: String,
    pub(crate) validator: Validator,
}

/// Returns the form for the type `T`. The program creates the form of each type only once.
pub(crate) fn form<T: JsonSchema + 'static>() -> Result<Arc<Form>, String> {
    static FORMS: OnceLock<RwLock<HashMap<TypeId, Arc<Form>>>> = OnceLock::new();
    let forms = FORMS.get_or_init(RwLock::default);
    let id = TypeId::of::<T>();
    if let Some(form) = forms.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&id) {
        return Ok(Arc::clone(form));
    }
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = into_object(settings.into_generator().into_root_schema_for::<T>());
    let form = Arc::new(Form::new(snake_case(&T::schema_name()), schema)?);
    forms.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(id, Arc::clone(&form));
    Ok(form)
}

impl Form {
    /// Converts a schema into the subset that elicitation allows. If the schema cannot be converted, returns the
    /// reason.
    pub(crate) fn new(key: String, mut schema: Map<String, Value>) -> Result<Self, String> {
        for unused in ["$schema", "title", "description", "$id", "$defs", "additionalProperties"] {
            schema.remove(unused);
        }
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for (name, property) in properties {
                flatten(property)
                    .map_err(|problem| format!("field `{name}` of the form `{key}` {problem}"))?;
            }
        } else {
            schema.insert("properties".into(), Value::Object(Map::new()));
        }
        Self::raw(key, schema)
    }

    /// Creates a form with exactly the schema that the author wrote.
    pub(crate) fn raw(key: String, schema: Map<String, Value>) -> Result<Self, String> {
        if schema.get("type").is_none_or(|kind| kind != "object") {
            return Err(format!(
                "the schema of the form `{key}` does not have the type `object`: use a struct with named fields"
            ));
        }
        let validator = Validator::new(&schema)?;
        let schema = Value::Object(schema);
        Ok(Self { key, text: antiphon_replay::canonical(&schema), schema, validator })
    }
}

/// Converts the schema of a field into a primitive type or a choice of strings.
fn flatten(property: &mut Value) -> Result<(), String> {
    let Value::Object(field) = property else {
        return Err("has no type; give it one".into());
    };
    // Forms do not support null. So an `Option` field becomes a field that is not required.
    if let Some(Value::Array(types)) = field.get("type") {
        let mut types = types.iter().filter(|kind| *kind != "null");
        if let (Some(only), None) = (types.next().cloned(), types.next()) {
            field.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = field.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    for alternatives in ["anyOf", "oneOf"] {
        let Some(Value::Array(options)) = field.get_mut(alternatives) else { continue };
        options.retain(|option| option.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = options.as_mut_slice()
            && !only.contains_key("const")
        {
            let only = std::mem::take(only);
            field.remove(alternatives);
            field.extend(only);
        }
    }
    if let Some(Value::Array(options)) = field.get_mut("oneOf") {
        choices(options)?;
        field.entry("type").or_insert_with(|| "string".into());
    }
    // Only schemars uses formats such as `uint8`. Elicitation supports only four formats.
    if field
        .get("format")
        .is_some_and(|format| !matches!(format.as_str(), Some("email" | "uri" | "date" | "date-time")))
    {
        field.remove("format");
    }
    match field.get("type").and_then(Value::as_str) {
        Some("string" | "number" | "integer" | "boolean") => Ok(()),
        Some("array") => {
            let items = field.get_mut("items").and_then(Value::as_object_mut);
            match items {
                Some(items) if items.contains_key("enum") || items.contains_key("anyOf") => Ok(()),
                Some(items) if items.contains_key("oneOf") => {
                    if let Some(Value::Array(mut options)) = items.remove("oneOf") {
                        choices(&mut options)?;
                        *items = Map::from_iter([("anyOf".to_owned(), Value::Array(options))]);
                    }
                    Ok(())
                }
                _ => {
                    Err("is a list; a form can only offer a list of choices (an enum of unit variants)"
                        .into())
                }
            }
        }
        _ => Err("is nested; a form is flat: strings, numbers, booleans and enums of unit variants".into()),
    }
}

/// Converts the variants of an enum into choices: `{const, title}`.
fn choices(options: &mut Vec<Value>) -> Result<(), String> {
    let mut choices = Vec::with_capacity(options.len());
    for mut option in std::mem::take(options) {
        if option.get("type").is_some_and(|kind| kind != "string") {
            return Err("is an enum with data in its variants; a form supports enums of unit variants".into());
        }
        // The schema combines all variants without a doc comment in one option.
        if let Some(Value::Array(names)) = option.get_mut("enum").map(Value::take) {
            choices.extend(names.iter().map(|name| serde_json::json!({"const": name, "title": name})));
            continue;
        }
        if let Some(option) = option.as_object_mut() {
            titled(option);
        }
        choices.push(option);
    }
    *options = choices;
    Ok(())
}

/// Converts `{const, description}` into `{const, title}`. An enum variant with a doc comment has the schema `{const,
/// description}`.
fn titled(option: &mut Map<String, Value>) {
    let title = option
        .remove("description")
        .or_else(|| option.get("title").cloned())
        .or_else(|| option.get("const").cloned());
    option.remove("type");
    if let Some(title) = title {
        option.insert("title".into(), title);
    }
}

/// Converts `PickMove` into `pick_move`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for (i, c) in name.char_indices() {
        if c.is_uppercase() {
            if i > 0 && !snake.ends_with('_') {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
        } else {
            snake.push(c);
        }
    }
    snake
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct PickMove {
        /// Where to play.
        #[schemars(range(min = 0, max = 8))]
        cell: u8,
        note: Option<String>,
        mood: Mood,
        tags: Vec<Mood>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Mood {
        /// All is well.
        Calm,
        /// Nothing is.
        Wild,
    }

    #[test]
    fn a_type_becomes_a_flat_form() {
        let form = form::<PickMove>().unwrap();
        assert_eq!(form.key, "pick_move");
        let moods =
            json!([{"const": "Calm", "title": "All is well."}, {"const": "Wild", "title": "Nothing is."}]);
        assert_eq!(
            form.schema,
            json!({
                "type": "object",
                "properties": {
                    "cell": {"type": "integer", "description": "Where to play.", "minimum": 0, "maximum": 8},
                    "note": {"type": "string"},
                    "mood": {"type": "string", "oneOf": moods},
                    "tags": {"type": "array", "items": {"anyOf": moods}},
                },
                "required": ["cell", "mood", "tags"],
            })
        );
    }

    #[test]
    fn an_enum_with_data_is_refused() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Payment {
            Cash,
            Invoice,
            Card { number: String },
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Order {
            payment: Payment,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Orders {
            payments: Vec<Payment>,
        }
        let problem = form::<Order>().unwrap_err();
        assert!(problem.starts_with("field `payment` of the form `order` is an enum with data"), "{problem}");
        let problem = form::<Orders>().unwrap_err();
        assert!(
            problem.starts_with("field `payments` of the form `orders` is an enum with data"),
            "{problem}"
        );
    }

    #[test]
    fn every_variant_is_a_choice_also_if_only_some_have_a_doc_comment() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Size {
            Small,
            Large,
            /// As large as possible
            Huge,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Pick {
            size: Size,
        }
        let choices = json!([
            {"const": "Small", "title": "Small"},
            {"const": "Large", "title": "Large"},
            {"const": "Huge", "title": "As large as possible"},
        ]);
        assert_eq!(form::<Pick>().unwrap().schema["properties"]["size"]["oneOf"], choices);
    }

    #[test]
    fn a_nested_field_is_refused_by_name() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Nested {
            inner: PickMove,
        }
        let problem = form::<Nested>().unwrap_err();
        assert_eq!(
            problem,
            "field `inner` of the form `nested` is nested; a form is flat: strings, numbers, booleans and enums of unit variants"
        );
    }

    #[test]
    fn a_tool_without_arguments_has_an_empty_object_schema() {
        assert_eq!(Value::Object(of_arguments::<()>()), json!({"type": "object", "properties": {}}));
    }
}
