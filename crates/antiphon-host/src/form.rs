//! Questions to the person: a form, by a handler of its own or by its schema.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use serde_json::{Map, Value, json};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A form to show.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Form {
    /// Its key, if the server is one that gives keys: what a handler of its own is registered under.
    pub key: Option<String>,
    /// What the person is asked.
    pub message: String,
    /// Its fields; in the order of the schema, where the program keeps the order of JSON at all.
    pub fields: Vec<Field>,
    /// The schema, as it came.
    pub schema: Value,
    /// What the server would like to have shown beside it: a board, a document, a chart.
    pub context: Option<Value>,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// Its name in the answer.
    pub name: String,
    /// What people call it: its title, or its name.
    pub title: String,
    /// What it is about.
    pub description: Option<String>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What it holds if nobody says otherwise.
    pub default: Option<Value>,
    /// What can be filled in.
    pub kind: FieldKind,
}

/// What can be filled in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text, perhaps of a format: `email`, `uri`, `date`, `date-time`.
    Text {
        /// The format.
        format: Option<String>,
    },
    /// A number; whole, if `integer`.
    Number {
        /// Whether only whole numbers will do.
        integer: bool,
        /// The least.
        minimum: Option<f64>,
        /// The most.
        maximum: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<Choice>),
    /// Any of these.
    Choices(Vec<Choice>),
}

/// Something that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Its value in the answer.
    pub value: String,
    /// What people call it.
    pub title: String,
}

/// What a person made of a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// They filled it in.
    Accept(Value),
    /// They would rather not.
    Decline,
    /// They closed it.
    Cancel,
}

impl Shown {
    pub(crate) fn into_result(self) -> Value {
        match self {
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// Who shows forms. Every `Fn(Form) -> impl Future<Output = Shown>` is one.
pub trait FormHandler: Send + Sync + 'static {
    /// Shows a form and waits for the person.
    fn show(&self, form: Form) -> BoxFuture<'_, Shown>;
}

impl<F, Fut> FormHandler for F
where
    F: Fn(Form) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Shown> + Send + 'static,
{
    fn show(&self, form: Form) -> BoxFuture<'_, Shown> {
        Box::pin(self(form))
    }
}

/// Accepts every form with the defaults of its schema: for programs without a person.
///
/// A required field without a default makes it decline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults;

impl FormHandler for Defaults {
    fn show(&self, form: Form) -> BoxFuture<'_, Shown> {
        let shown = form.defaults().map_or(Shown::Decline, Shown::Accept);
        Box::pin(std::future::ready(shown))
    }
}

impl Form {
    /// Reads an elicitation's parameters.
    pub(crate) fn read(params: &Value, key: Option<String>) -> Self {
        let schema = &params["requestedSchema"];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = schema["properties"].as_object().into_iter().flatten();
        let meta = &params["_meta"];
        let named = meta[KEY_META].as_str().map(str::to_owned);
        Self {
            key: named.or(key),
            message: params["message"].as_str().unwrap_or_default().to_owned(),
            fields: fields.map(|(name, field)| Field::read(name, field, &required)).collect(),
            schema: schema.clone(),
            context: meta.get(CONTEXT_META).cloned(),
        }
    }

    /// The answer that leaves every field as it is, if that is allowed.
    pub fn defaults(&self) -> Option<Value> {
        let mut content = Map::new();
        for field in &self.fields {
            match &field.default {
                Some(default) => {
                    content.insert(field.name.clone(), default.clone());
                }
                None if field.required => return None,
                None => {}
            }
        }
        Some(Value::Object(content))
    }
}

impl Field {
    fn read(name: &str, field: &Value, required: &[&str]) -> Self {
        let text = |key: &str| field[key].as_str().map(str::to_owned);
        let kind = match field["type"].as_str() {
            Some("boolean") => FieldKind::Boolean,
            Some(kind @ ("number" | "integer")) => FieldKind::Number {
                integer: kind == "integer",
                minimum: field["minimum"].as_f64(),
                maximum: field["maximum"].as_f64(),
            },
            Some("array") => FieldKind::Choices(choices(&field["items"])),
            _ => match choices(field) {
                choices if choices.is_empty() => FieldKind::Text { format: text("format") },
                choices => FieldKind::Choice(choices),
            },
        };
        Self {
            name: name.to_owned(),
            title: text("title").unwrap_or_else(|| name.to_owned()),
            description: text("description"),
            required: required.contains(&name),
            default: field.get("default").cloned(),
            kind,
        }
    }
}

/// `oneOf`/`anyOf` with titles, or `enum` with `enumNames`, or a bare `enum`.
fn choices(field: &Value) -> Vec<Choice> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| field[key].as_array());
    if let Some(options) = titled {
        let read = |option: &Value| {
            let value = option["const"].as_str()?.to_owned();
            Some(Choice { title: option["title"].as_str().unwrap_or(&value).to_owned(), value })
        };
        return options.iter().filter_map(read).collect();
    }
    let names = &field["enumNames"];
    let values = field["enum"].as_array().into_iter().flatten().enumerate();
    values
        .filter_map(|(i, value)| {
            let value = value.as_str()?.to_owned();
            Some(Choice { title: names[i].as_str().unwrap_or(&value).to_owned(), value })
        })
        .collect()
}

/// Where a server says which form it is.
const KEY_META: &str = "antiphon/key";
/// Where a server says what to show beside it.
const CONTEXT_META: &str = "antiphon/elicit-context";

/// Handlers by key, and one for the rest.
#[derive(Clone, Default)]
pub(crate) struct Forms {
    pub(crate) by_key: BTreeMap<String, Arc<dyn FormHandler>>,
    pub(crate) otherwise: Option<Arc<dyn FormHandler>>,
}

impl Forms {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.otherwise.is_none()
    }

    pub(crate) async fn show(&self, form: Form) -> Shown {
        let by_key = form.key.as_ref().and_then(|key| self.by_key.get(key));
        match by_key.or(self.otherwise.as_ref()) {
            Some(handler) => handler.show(form).await,
            // Nobody is there to ask.
            None => Shown::Decline,
        }
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_key.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_becomes_fields_a_person_can_fill_in() {
        let form = Form::read(
            &json!({
                "message": "Who?",
                "_meta": {"antiphon/key": "who", "antiphon/elicit-context": {"board": "XO"}},
                "requestedSchema": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "title": "Your name", "format": "email"},
                    "age": {"type": "integer", "minimum": 1, "maximum": 99, "default": 30},
                    "plain": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
                    "titled": {"type": "string", "oneOf": [{"const": "x", "title": "The X"}]},
                    "many": {"type": "array", "items": {"anyOf": [{"const": "y", "title": "The Y"}]}},
                    "yes": {"type": "boolean"},
                }},
            }),
            None,
        );
        assert_eq!((form.key.as_deref(), form.context), (Some("who"), Some(json!({"board": "XO"}))));
        let field = |name: &str| form.fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!(field("name").title, "Your name");
        assert!(field("name").required && !field("age").required);
        assert_eq!(field("age").default, Some(json!(30)));
        let choice = |value: &str, title: &str| Choice { value: value.into(), title: title.into() };
        assert_eq!(field("plain").kind, FieldKind::Choice(vec![choice("a", "A"), choice("b", "B")]));
        assert_eq!(field("titled").kind, FieldKind::Choice(vec![choice("x", "The X")]));
        assert_eq!(field("many").kind, FieldKind::Choices(vec![choice("y", "The Y")]));
        assert_eq!(field("yes").kind, FieldKind::Boolean);
    }
}
