//! Forms for the user. If a handler is registered for the question key of a form, this handler shows the form. The
//! general handler shows all other forms.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use serde_json::{Map, Value, json};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A form that a server asks the user to fill in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Form {
    /// The question key of the form, if the server sends a question key. You can register a handler for a question key.
    pub key: Option<String>,
    /// The text of the question to the user.
    pub message: String,
    /// The fields of the form. The fields have the order of the schema if the feature `preserve_order` of `serde_json`
    /// is on.
    pub fields: Vec<Field>,
    /// The JSON Schema of the form, as received from the server.
    pub schema: Value,
    /// Additional data that the server asks to show with the form, for example a board, a document or a chart.
    pub context: Option<Value>,
}

/// A field that the user fills in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The name under which the answer contains the value of the field.
    pub name: String,
    /// The label that the user sees: the title of the field, or its name if the field has no title.
    pub title: String,
    /// The description of the field.
    pub description: Option<String>,
    /// Whether the user must fill in the field.
    pub required: bool,
    /// The default value of the field.
    pub default: Option<Value>,
    /// The kind of value that the field accepts.
    pub kind: FieldKind,
}

/// The kind of value that a field accepts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// The field accepts text.
    Text {
        /// The format that the text must have: `email`, `uri`, `date` or `date-time`.
        format: Option<String>,
    },
    /// The field accepts a number, optionally with a minimum and a maximum.
    Number {
        /// Whether only whole numbers are valid.
        integer: bool,
        /// The smallest valid number.
        minimum: Option<f64>,
        /// The largest valid number.
        maximum: Option<f64>,
    },
    /// The field accepts yes or no.
    Boolean,
    /// The field accepts exactly one of the listed values.
    Choice(Vec<Choice>),
    /// The field accepts any number of the listed values.
    Choices(Vec<Choice>),
}

/// A value that the user can select.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The value that the answer contains if the user selects this choice.
    pub value: String,
    /// The label that the user sees.
    pub title: String,
}

/// The user's response to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// The user filled in the form. The value contains the user's answer.
    Accept(Value),
    /// The user declined to answer.
    Decline,
    /// The user closed the form without an answer.
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

/// A handler that shows forms to the user. Every closure `Fn(Form) -> impl Future<Output = Shown>` implements
/// `FormHandler`.
pub trait FormHandler: Send + Sync + 'static {
    /// Shows a form to the user, and returns the user's response.
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

/// A form handler that fills in every form with its default values. Use `Defaults` for programs without a user.
///
/// If a required field has no default value, the handler declines the form.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults;

impl FormHandler for Defaults {
    fn show(&self, form: Form) -> BoxFuture<'_, Shown> {
        let shown = form.defaults().map_or(Shown::Decline, Shown::Accept);
        Box::pin(std::future::ready(shown))
    }
}

impl Form {
    /// Parses the parameters of an elicitation.
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

    /// Returns an answer that contains the default values of all fields. Returns `None` if a required field has no
    /// default value.
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

/// Reads choices from `oneOf` or `anyOf` with titles, from `enum` with `enumNames`, or from a plain `enum`.
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

/// The `_meta` key for the question key of a form.
const KEY_META: &str = "antiphon/key";
/// The `_meta` key for data to show with a form.
const CONTEXT_META: &str = "antiphon/elicit-context";

/// The form handlers: one handler for each registered question key, and one handler for all other forms.
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
            // No handler is registered for this form.
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
