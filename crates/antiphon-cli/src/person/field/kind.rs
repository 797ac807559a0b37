//! The kinds of fields.

use serde_json::Value;

/// The kind of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The field accepts text, optionally with a format: `email`, `uri`, `date`, `date-time`.
    Text {
        format: Option<String>,
        shortest: Option<u64>,
        longest: Option<u64>,
    },
    Number {
        integer: bool,
        least: Option<f64>,
        most: Option<f64>,
    },
    Boolean,
    /// The field accepts one of several values.
    Choice(Vec<Choice>),
    /// The field accepts several values of one kind.
    List {
        of: Box<Self>,
        fewest: Option<u64>,
        most: Option<u64>,
    },
    /// The field accepts any other value, as JSON.
    Json,
}

/// A value that the user can choose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) value: Value,
    /// The label for the user.
    pub(crate) title: String,
}

impl Choice {
    /// Returns the text that the user types to choose this value.
    pub(crate) fn word(&self) -> String {
        word(&self.value)
    }
}

impl Kind {
    /// Returns the kind of a property. References at the top level of `schema` must already be resolved.
    pub(super) fn read(root: &Value, schema: &Value) -> Self {
        if !choices(schema).is_empty() || type_of(schema) != Some("array") {
            return Self::read_one(schema);
        }
        // Resolve only one level, because a list can contain itself.
        match Self::read_one(resolved(root, &schema["items"])) {
            Self::Json => Self::Json,
            of => Self::List {
                of: Box::new(of),
                fewest: schema["minItems"].as_u64(),
                most: schema["maxItems"].as_u64(),
            },
        }
    }

    /// Returns the kind of a schema. Schemas of lists are treated as JSON.
    fn read_one(schema: &Value) -> Self {
        let choices = choices(schema);
        if !choices.is_empty() {
            return Self::Choice(choices);
        }
        let count = |key: &str| schema[key].as_u64();
        match type_of(schema) {
            Some("string") => Self::Text {
                format: schema["format"].as_str().map(str::to_owned),
                shortest: count("minLength"),
                longest: count("maxLength"),
            },
            Some(kind @ ("number" | "integer")) => Self::Number {
                integer: kind == "integer",
                least: schema["minimum"].as_f64(),
                most: schema["maximum"].as_f64(),
            },
            Some("boolean") => Self::Boolean,
            _ => Self::Json,
        }
    }

    /// Returns a description of the kind in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Text { format: Some(format), .. } => format!("text ({format})"),
            Self::Text { format: None, shortest, longest } => {
                format!("text{}", between(*shortest, *longest, " of ", " characters"))
            }
            Self::Number { integer, least, most } => {
                let kind = if *integer { "whole number" } else { "number" };
                format!("{kind}{}", between(*least, *most, ", ", ""))
            }
            Self::Boolean => "yes or no".into(),
            Self::Choice(choices) => {
                let words: Vec<String> = choices.iter().map(Choice::word).collect();
                format!("one of {}", words.join(", "))
            }
            Self::List { of, .. } => format!("list: {}", of.describe()),
            Self::Json => "JSON".into(),
        }
    }

    /// Returns the placeholder for the value in help texts.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Self::Text { .. } => "TEXT",
            Self::Number { integer: true, .. } => "INTEGER",
            Self::Number { integer: false, .. } => "NUMBER",
            Self::Boolean => "true|false",
            Self::Choice(_) => "CHOICE",
            Self::List { of, .. } => of.placeholder(),
            Self::Json => "JSON",
        }
    }

    /// Returns an example value of this kind.
    pub(crate) fn example(&self) -> Value {
        match self {
            Self::Text { format, .. } => match format.as_deref() {
                Some("email") => "ada@example.com".into(),
                Some("uri") => "https://example.com".into(),
                Some("date") => "2026-07-28".into(),
                Some("date-time") => "2026-07-28T12:00:00Z".into(),
                _ => "text".into(),
            },
            Self::Number { integer, least, .. } => match least.unwrap_or(1.0) {
                #[expect(clippy::cast_possible_truncation, reason = "an example need not be exact")]
                least if *integer => (least.ceil() as i64).into(),
                least => least.into(),
            },
            Self::Boolean => true.into(),
            Self::Choice(choices) => choices.first().map_or(Value::Null, |choice| choice.value.clone()),
            Self::List { of, .. } => Value::from(vec![of.example()]),
            Self::Json => Value::Object(serde_json::Map::new()),
        }
    }
}

fn between<T: std::fmt::Display>(least: Option<T>, most: Option<T>, before: &str, after: &str) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{before}{least} to {most}{after}"),
        (Some(least), None) => format!("{before}{least} or more{after}"),
        (None, Some(most)) => format!("{before}{most} or less{after}"),
        (None, None) => String::new(),
    }
}

/// Resolves references, and removes the alternative null from a schema.
pub(super) fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    // Limit the depth, because a schema can refer to itself.
    for _ in 0..8 {
        if let Some(path) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            schema = root.pointer(path).unwrap_or(&Value::Null);
            continue;
        }
        let one = ["anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).find_map(|options| {
            let mut others = options.iter().filter(|option| option["type"] != "null");
            others.next().filter(|_| options.len() > 1 && others.next().is_none())
        });
        match (one, schema["allOf"].as_array().map(Vec::as_slice)) {
            (Some(one), _) if choices(schema).is_empty() => schema = one,
            (_, Some([one])) => schema = one,
            _ => return schema,
        }
    }
    &Value::Null
}

fn type_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(types) => {
            let mut types = types.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            types.next().filter(|_| types.next().is_none())
        }
        other => other.as_str(),
    }
}

/// Reads choices from `oneOf` or `anyOf` with titles, from `enum` with `enumNames`, or from a plain `enum`.
fn choices(schema: &Value) -> Vec<Choice> {
    let scalar = |value: &Value| value.is_string() || value.is_number();
    for options in ["oneOf", "anyOf"].iter().filter_map(|key| schema[key].as_array()) {
        let options = options.iter().filter(|option| option["type"] != "null");
        let read = |option: &Value| {
            let value = option.get("const").filter(|value| scalar(value))?.clone();
            let title = option["title"].as_str().or(option["description"].as_str());
            Some(Choice { title: title.map_or_else(|| word(&value), str::to_owned), value })
        };
        let read: Option<Vec<Choice>> = options.map(read).collect();
        if let Some(choices) = read.filter(|choices| !choices.is_empty()) {
            return choices;
        }
    }
    let names = &schema["enumNames"];
    let values = schema["enum"].as_array().into_iter().flatten().filter(|value| scalar(value)).enumerate();
    values
        .map(|(i, value)| Choice {
            title: names[i].as_str().map_or_else(|| word(value), str::to_owned),
            value: value.clone(),
        })
        .collect()
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
