//! The fields of a form, and their HTML.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    decode::Given,
    markup::{Escaped, plain},
};

/// The maximum number of options that the web page shows as radio buttons. A longer list of options becomes a drop-down
/// list.
const RADIOS: usize = 5;

/// A field of a form on the answer page.
pub(super) struct Field<'a> {
    /// The name of this field in the HTML form.
    pub(super) name: String,
    /// The ID of the HTML element that shows this field.
    id: String,
    /// The name of this field in the answer that the tool receives.
    pub(super) key: &'a str,
    pub(super) schema: &'a Value,
    pub(super) required: bool,
}

/// The kind of a field. The kind determines which values are valid, and how users enter a value.
pub(super) enum Kind<'a> {
    /// The user can choose any number of options.
    Many(Vec<(&'a Value, String)>),
    One(Vec<(&'a Value, String)>),
    Boolean,
    Number {
        whole: bool,
    },
    Text,
    /// A value for which HTML has no suitable input element. The user enters such a value as JSON.
    Json,
}

/// Returns the fields of a question. `at` is the position of the question in the form.
pub(super) fn fields(at: usize, schema: &Value) -> impl Iterator<Item = Field<'_>> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.enumerate().map(move |(number, (key, schema))| Field {
        name: format!("{at}.{key}"),
        id: format!("f{at}-{number}"),
        key: key.as_str(),
        schema,
        required: required.contains(&key.as_str()),
    })
}

/// Returns the options that a schema allows. Each option has a value and a label.
fn options(schema: &Value) -> Option<Vec<(&Value, String)>> {
    if let Some(list) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        return list.iter().map(option).collect();
    }
    let (values, names) = (schema["enum"].as_array()?, &schema["enumNames"]);
    let named = |(at, value)| (value, plain(names.get::<usize>(at).unwrap_or(value)));
    Some(values.iter().enumerate().map(named).collect())
}

fn option(schema: &Value) -> Option<(&Value, String)> {
    let value = schema.get("const")?;
    Some((value, plain(schema.get("title").unwrap_or(value))))
}

/// Returns the first type in a schema that is not `null`.
fn type_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        name => name.as_str(),
    }
}

impl<'a> Field<'a> {
    pub(super) fn kind(&self) -> Kind<'a> {
        let schema = self.schema;
        let name = type_of(schema);
        if name == Some("array") {
            return options(&schema["items"]).map_or(Kind::Json, Kind::Many);
        }
        if let Some(options) = options(schema) {
            return Kind::One(options);
        }
        match name {
            Some("boolean") => Kind::Boolean,
            Some("integer") => Kind::Number { whole: true },
            Some("number") => Kind::Number { whole: false },
            Some("string") => Kind::Text,
            _ => Kind::Json,
        }
    }

    /// Returns the text that the field shows. This text is the text that the user entered, or the default value.
    fn text(&self, given: Option<&Given>) -> String {
        match given {
            Some(given) => given.get(&self.name).unwrap_or_default().to_owned(),
            None => match &self.schema["default"] {
                Value::Null => String::new(),
                value => plain(value),
            },
        }
    }

    /// Returns `true` if the user chose an option, or if the option is the default.
    fn is_chosen(&self, given: Option<&Given>, at: usize, value: &Value) -> bool {
        let default = &self.schema["default"];
        match given {
            Some(given) => given.all(&self.name).any(|chosen| chosen.parse::<usize>() == Ok(at)),
            None => default.as_array().map_or(default == value, |values| values.contains(value)),
        }
    }

    /// Returns a text that states the minimum and the maximum of the field's value.
    fn bounds(&self, kind: &Kind<'_>) -> Option<String> {
        let (min, max, unit) = match kind {
            Kind::Many(_) => ("minItems", "maxItems", " of these"),
            Kind::Number { .. } => ("minimum", "maximum", ""),
            Kind::Text => ("minLength", "maxLength", " characters"),
            Kind::One(_) | Kind::Boolean | Kind::Json => return None,
        };
        let min = self.schema.get(min).filter(|min| unit.is_empty() || min.as_u64() != Some(0));
        let min = min.map(|min| format!("at least {min}"));
        let max = self.schema.get(max).map(|max| format!("at most {max}"));
        let bounds: Vec<_> = min.into_iter().chain(max).collect();
        (!bounds.is_empty()).then(|| format!("Allowed: {}{unit}", bounds.join(", ")))
    }

    /// Returns the help text that the form shows for this field.
    fn help(&self, kind: &Kind<'_>) -> String {
        let description = self.schema["description"].as_str().map(ToOwned::to_owned);
        let format = match (kind, self.schema["format"].as_str()) {
            (Kind::Text, Some("date-time")) => {
                Some("Date, time and time zone, for example 2026-11-17T14:30:00+01:00".to_owned())
            }
            (Kind::Json, _) => Some("A value in JSON".to_owned()),
            _ => None,
        };
        let lines: Vec<_> = description.into_iter().chain(self.bounds(kind)).chain(format).collect();
        lines.join("\n")
    }

    pub(super) fn html(&self, given: Option<&Given>, problem: Option<&str>) -> String {
        let (id, kind) = (&self.id, self.kind());
        let title = Escaped(self.schema["title"].as_str().unwrap_or(self.key)).to_string();
        let mark = if self.required { " <span class=\"mark\">required</span>" } else { "" };
        let label = format!("<span class=\"name\" dir=\"auto\">{title}</span>{mark}");
        let help = self.help(&kind);
        let mut described = Vec::new();
        let mut note = String::new();
        if !help.is_empty() {
            described.push(format!("{id}h"));
            note = format!("<p class=\"help\" id=\"{id}h\" dir=\"auto\">{}</p>", Escaped(&help));
        }
        let mut wrong = String::new();
        if let Some(problem) = problem {
            described.push(format!("{id}p"));
            wrong = format!("<p class=\"problem\" id=\"{id}p\" dir=\"auto\">{}</p>", Escaped(problem));
        }
        let mut attributes = String::new();
        if !described.is_empty() {
            let _ = write!(attributes, " aria-describedby=\"{}\"", described.join(" "));
        }
        if problem.is_some() {
            attributes.push_str(" aria-invalid=\"true\"");
        }
        let required = if self.required { " required" } else { "" };
        let name = Escaped(&self.name);
        match kind {
            Kind::Many(options) => {
                let ticks = self.ticks("checkbox", "", given, &options);
                format!("<fieldset{attributes}><legend>{label}</legend>{note}{ticks}{wrong}</fieldset>")
            }
            Kind::One(options) if options.len() <= RADIOS => {
                let mut ticks = self.ticks("radio", required, given, &options);
                if !self.required {
                    let mut chosen = options.iter().enumerate();
                    let is_answered = chosen.any(|(at, (value, _))| self.is_chosen(given, at, value));
                    let checked = if is_answered { "" } else { " checked" };
                    ticks = format!(
                        "<label class=\"choice\"><input type=\"radio\" name=\"{name}\" value=\"\"{checked}><span>No answer</span></label>{ticks}"
                    );
                }
                format!(
                    "<fieldset role=\"radiogroup\"{attributes}><legend>{label}</legend>{note}{ticks}{wrong}</fieldset>"
                )
            }
            Kind::One(options) => {
                let none = if self.required { "Choose…" } else { "No answer" };
                let mut list = format!("<option value=\"\">{none}</option>");
                for (at, (value, label)) in options.iter().enumerate() {
                    let selected = if self.is_chosen(given, at, value) { " selected" } else { "" };
                    let _ = write!(list, "<option value=\"{at}\"{selected}>{}</option>", Escaped(label));
                }
                format!(
                    "<div class=\"field\"><label for=\"{id}\">{label}</label>{note}<select id=\"{id}\" name=\"{name}\"{required}{attributes}>{list}</select>{wrong}</div>"
                )
            }
            Kind::Boolean => {
                let is_default = self.schema["default"] == true;
                let is_checked = given.map_or(is_default, |given| given.get(&self.name).is_some());
                let checked = if is_checked { " checked" } else { "" };
                format!(
                    "<div class=\"field\"><label class=\"choice\"><input type=\"checkbox\" name=\"{name}\" value=\"1\"{checked}{attributes}><span class=\"name\" dir=\"auto\">{title}</span></label>{note}{wrong}</div>"
                )
            }
            kind => {
                let input = self.input(&kind, &self.text(given), &format!("{required}{attributes}"));
                format!("<div class=\"field\"><label for=\"{id}\">{label}</label>{note}{input}{wrong}</div>")
            }
        }
    }

    /// Returns the HTML of the checkboxes or radio buttons that show the options of a field.
    fn ticks(
        &self,
        kind: &str,
        attributes: &str,
        given: Option<&Given>,
        options: &[(&Value, String)],
    ) -> String {
        let mut ticks = String::new();
        for (at, (value, label)) in options.iter().enumerate() {
            let checked = if self.is_chosen(given, at, value) { " checked" } else { "" };
            let _ = write!(
                ticks,
                "<label class=\"choice\"><input type=\"{kind}\" name=\"{}\" value=\"{at}\"{checked}{attributes}><span dir=\"auto\">{}</span></label>",
                Escaped(&self.name),
                Escaped(label)
            );
        }
        ticks
    }

    /// Returns the HTML input element for a field in which users type a value.
    fn input(&self, kind: &Kind<'_>, text: &str, attributes: &str) -> String {
        let (id, name, text) = (&self.id, Escaped(&self.name), Escaped(text));
        let is_long = self.schema["maxLength"].as_u64() > Some(200);
        let (input, mode) = match (kind, self.schema["format"].as_str()) {
            (Kind::Text, Some("email")) => ("email", ""),
            (Kind::Text, Some("uri")) => ("url", ""),
            (Kind::Text, Some("date")) => ("date", ""),
            (Kind::Text, _) if !is_long => ("text", ""),
            // The browser shows a numeric keyboard only if the value cannot be negative. The numeric keyboards of some
            // devices have no minus sign.
            (Kind::Number { whole }, _) if self.schema["minimum"].as_f64() >= Some(0.0) => {
                ("text", if *whole { " inputmode=\"numeric\"" } else { " inputmode=\"decimal\"" })
            }
            (Kind::Number { .. }, _) => ("text", ""),
            _ => {
                return format!(
                    "<textarea id=\"{id}\" name=\"{name}\" dir=\"auto\"{attributes}>\n{text}</textarea>"
                );
            }
        };
        format!(
            "<input id=\"{id}\" type=\"{input}\" name=\"{name}\" value=\"{text}\" dir=\"auto\"{mode}{attributes}>"
        )
    }
}
