//! The HTML of the web page with questions, and the values that its forms submit.
//!
//! The page has no script and loads nothing. All data is escaped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Asking,
    form::{misfits, title},
    forms,
};
use crate::{
    base::timestamp,
    registry::Registry,
    task::{OpenQuestions, TaskStatus},
    url_elicitation::CONTEXT_META,
};

const STYLE: &str = include_str!("page.css");

/// Returns the digest of the style sheet, as a content security policy names it.
pub(crate) fn style() -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(STYLE)))
}

/// The sentence with which every visit ends.
const CLOSE: &str = "You can close this page. Go back to the chat and say that you have answered.";

/// The length from which a value is folded, in characters.
const LONG: usize = 300;

/// The largest number of options that are shown as radio buttons.
const RADIOS: usize = 5;

/// How often a page that waits for the tool is loaded again, in seconds.
const REFRESH: u32 = 3;

/// Text as HTML shows it, in elements and in quoted attributes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                character => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Returns a whole page. `head` and `body` are HTML.
fn document(title: &str, head: &str, body: &str) -> String {
    let title = Escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>{head}<style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

/// Returns a page with a title and a text. `more` is HTML.
fn page(title: &str, text: &str, head: &str, more: &str) -> String {
    let body = format!("<h1 dir=\"auto\">{}</h1><p dir=\"auto\">{}</p>{more}", Escaped(title), Escaped(text));
    document(title, head, &body)
}

/// Returns a page with a message. If there is an address, the page has a button that opens the question there.
pub(crate) fn message(title: &str, text: &str, open: Option<&str>) -> String {
    page(title, text, "", &open.map(opener).unwrap_or_default())
}

/// Returns the button that opens the question.
fn opener(action: &str) -> String {
    format!(
        "<form method=\"post\" action=\"{}\"><button class=\"main\">Open the question</button></form>",
        Escaped(action)
    )
}

/// The values of a submitted form, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given(Vec<(String, String)>);

impl Given {
    /// Reads the body of a request (`application/x-www-form-urlencoded`). Returns `None` if it is not valid.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let (name, value) = (halves.next()?, halves.next().unwrap_or_default());
            Some((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Option<_>>().map(Self)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn decoded(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(*rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The problems of submitted values, by question and field. A problem of a whole question has an empty field.
type Problems = BTreeMap<(String, String), String>;

/// The answers that a form submitted, or their problems.
pub(crate) struct Submitted {
    pub(crate) answers: BTreeMap<String, Value>,
    pub(crate) problems: Problems,
}

/// A form with the questions of a task.
#[derive(Clone, Copy)]
pub(crate) struct FormOf<'a> {
    /// The address that receives the values.
    pub(crate) action: &'a str,
    /// The token of the form.
    pub(crate) token: &'a str,
    /// The wire keys of the questions.
    pub(crate) questions: &'a BTreeSet<String>,
}

/// A task as the page shows it.
pub(crate) struct Sheet<'a> {
    server: &'a str,
    tool: String,
    open: &'a OpenQuestions,
}

impl Asking {
    /// Returns a task as the page shows it.
    pub(crate) fn sheet<'a>(&'a self, registry: &Registry, open: &'a OpenQuestions) -> Sheet<'a> {
        Sheet { server: &self.server, tool: title(registry, &open.view.tool), open }
    }

    /// Returns the page behind a link. It has no question: programs that fetch links read it, too.
    pub(crate) fn landing(&self, action: &str) -> String {
        let title = format!("{} has a question", self.server);
        let text = "A tool waits for an answer of the user who called it in a chat. Open the question only if you are this user.";
        page(&title, text, "", &opener(action))
    }
}

impl Sheet<'_> {
    /// Returns the wire keys of the questions that a form can show.
    pub(crate) fn questions(&self) -> BTreeSet<String> {
        forms(&self.open.view).map(|(wire, _)| wire.clone()).collect()
    }

    /// Returns the page for a task without open questions. If the tool still works, the page loads `next` later.
    pub(crate) fn state(&self, next: Option<&str>) -> String {
        let (title, text) = match self.open.view.status {
            TaskStatus::Completed => ("Done", "The tool has finished."),
            TaskStatus::Failed => ("Ended with an error", "The tool ended with an error."),
            TaskStatus::Cancelled => ("Cancelled", "The call was cancelled."),
            TaskStatus::Working | TaskStatus::InputRequired => {
                ("The tool is working", "If the tool asks another question soon, it appears here.")
            }
        };
        let is_final = self.open.view.status.is_final();
        let head = next
            .filter(|_| !is_final)
            .map(|next| format!("<meta http-equiv=\"refresh\" content=\"{REFRESH};url={}\">", Escaped(next)));
        let text = if head.is_some() || is_final { text } else { "The tool has not finished yet." };
        page(title, text, &head.unwrap_or_default(), &format!("<p>{CLOSE}</p>"))
    }

    /// Returns the page with the form. After a misfit, it has the values that the user gave, and their problems.
    pub(crate) fn form(&self, form: FormOf<'_>, given: Option<&Given>, problems: &Problems) -> String {
        let title = format!("Question from {}", self.server);
        let mut body = format!("<h1 dir=\"auto\">{}</h1>", Escaped(&title));
        if !problems.is_empty() {
            let _ = write!(
                body,
                "<p class=\"notice problem\" role=\"alert\">Answers to correct: {}</p>",
                problems.len()
            );
        }
        body.push_str(&self.about());
        let _ = write!(
            body,
            "<form method=\"post\" action=\"{}\" autocomplete=\"off\"><input type=\"hidden\" name=\"form\" value=\"{}\">",
            Escaped(form.action),
            Escaped(form.token)
        );
        for (at, (wire, request)) in self.asked(form.questions).enumerate() {
            body.push_str(&question(at, wire, &request["params"], given, problems));
        }
        body.push_str(
            "<div class=\"row\"><button class=\"main\" name=\"action\" value=\"accept\">Submit</button><button name=\"action\" value=\"decline\" formnovalidate>Decline</button></div></form>",
        );
        document(&title, "", &body)
    }

    /// Returns what the question is about: the tool, the account and the arguments of the call.
    fn about(&self) -> String {
        let minute = |end| Some(format!("{} UTC", timestamp(end).get(..16)?.replace('T', " ")));
        let rows = [
            ("Tool", Some(self.tool.clone())),
            ("Account", self.open.principal.clone()),
            ("Open until", self.open.view.questions_end.and_then(minute)),
        ];
        let rows = rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let mut about = table("", rows);
        let arguments = self.open.arguments.as_object().filter(|arguments| !arguments.is_empty());
        if let Some(arguments) = arguments {
            let rows = arguments.iter().map(|(name, value)| (name.clone(), plain(value)));
            about.push_str("<p class=\"help\">Arguments of the call:</p>");
            about.push_str(&table(" class=\"data\"", rows));
        }
        about
    }

    /// Returns the open questions with these wire keys.
    fn asked<'b>(&'b self, questions: &'b BTreeSet<String>) -> impl Iterator<Item = (&'b String, &'b Value)> {
        forms(&self.open.view).filter(move |(wire, _)| questions.contains(*wire))
    }

    /// Returns the answers to these questions from the values of a form. Returns `None` if one of the questions is no
    /// longer open.
    pub(crate) fn read(&self, questions: &BTreeSet<String>, given: &Given) -> Option<Submitted> {
        if questions.is_empty() || self.asked(questions).count() < questions.len() {
            return None;
        }
        let (mut answers, mut problems) = (BTreeMap::new(), Problems::new());
        for (at, (wire, request)) in self.asked(questions).enumerate() {
            let mut content = Map::new();
            for field in fields(at, &request["params"]["requestedSchema"]) {
                match field.value(given) {
                    Ok(Some(value)) => drop(content.insert(field.key.to_owned(), value)),
                    Ok(None) => {}
                    Err(problem) => {
                        problems.insert((wire.clone(), field.key.to_owned()), problem.to_owned());
                    }
                }
            }
            answers.insert(wire.clone(), json!({"action": "accept", "content": content}));
        }
        for (wire, misfit) in misfits(&self.open.view, &answers) {
            for (field, problem) in misfit.as_object().into_iter().flatten() {
                let problem = match problem.as_str().unwrap_or_default() {
                    "is required" => "An answer is required.".to_owned(),
                    problem => format!("Not accepted: {problem}"),
                };
                problems.entry((wire.clone(), field.clone())).or_insert(problem);
            }
        }
        Some(Submitted { answers, problems })
    }
}

/// Returns a list of names and values. `attributes` is HTML.
fn table(attributes: &str, rows: impl Iterator<Item = (String, String)>) -> String {
    let mut table = format!("<dl{attributes}>");
    for (name, value) in rows {
        let (name, value) = (Escaped(&name), folded(&value));
        let _ = write!(table, "<dt dir=\"auto\">{name}</dt><dd dir=\"auto\">{value}</dd>");
    }
    table.push_str("</dl>");
    table
}

/// Returns a value as HTML. The rest of a long value is folded.
fn folded(value: &str) -> String {
    match value.char_indices().nth(LONG) {
        None => format!("<span>{}</span>", Escaped(value)),
        Some((at, _)) => format!(
            "<details><summary><span>{}…</span></summary><span>{}</span></details>",
            Escaped(&value[..at]),
            Escaped(value)
        ),
    }
}

/// Returns a value as text.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// Returns a question with its fields as HTML. `at` is its number in the form.
fn question(at: usize, wire: &str, params: &Value, given: Option<&Given>, problems: &Problems) -> String {
    let problem = |field: &str| problems.get(&(wire.to_owned(), field.to_owned())).map(String::as_str);
    let message = params["message"].as_str().unwrap_or_default();
    let mut html =
        format!("<section aria-labelledby=\"q{at}\"><h2 id=\"q{at}\" dir=\"auto\">{}</h2>", Escaped(message));
    let context = &params["_meta"][CONTEXT_META];
    if !context.is_null() {
        let _ = write!(html, "<div class=\"data\" dir=\"auto\">{}</div>", folded(&plain(context)));
    }
    if let Some(problem) = problem("") {
        let _ = write!(html, "<p class=\"problem\" dir=\"auto\">{}</p>", Escaped(problem));
    }
    let mut is_empty = true;
    for field in fields(at, &params["requestedSchema"]) {
        html.push_str(&field.html(given, problem(field.key)));
        is_empty = false;
    }
    if is_empty {
        html.push_str("<p class=\"help\">This question has no fields.</p>");
    }
    html.push_str("</section>");
    html
}

/// A field of a form.
struct Field<'a> {
    /// The name of the field in the HTML form.
    name: String,
    /// The ID of its element.
    id: String,
    /// The name of the field in the answer.
    key: &'a str,
    schema: &'a Value,
    required: bool,
}

/// The values of a field, and how users enter them.
enum Kind<'a> {
    /// Any number of options.
    Many(Vec<(&'a Value, String)>),
    One(Vec<(&'a Value, String)>),
    Boolean,
    Number {
        whole: bool,
    },
    Text,
    /// A value without a separate field. The user writes it as JSON.
    Json,
}

/// Returns the fields of the question with the number `at`.
fn fields(at: usize, schema: &Value) -> impl Iterator<Item = Field<'_>> {
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

/// Returns the values and the labels of a schema's options.
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

/// Returns the type of a schema, other than `null`.
fn type_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        name => name.as_str(),
    }
}

impl<'a> Field<'a> {
    fn kind(&self) -> Kind<'a> {
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

    /// Returns the value that the user gave. Returns `None` if the field is empty.
    ///
    /// # Errors
    ///
    /// Returns what to enter if the text is not a value of this field.
    fn value(&self, given: &Given) -> Result<Option<Value>, &'static str> {
        let text = given.get(&self.name).unwrap_or_default().replace("\r\n", "\n");
        let is_empty = text.trim().is_empty();
        Ok(match self.kind() {
            Kind::Many(options) => {
                let chosen = given.all(&self.name).filter_map(|at| options.get(at.parse::<usize>().ok()?));
                let chosen: Vec<Value> = chosen.map(|(value, _)| (*value).clone()).collect();
                // An optional list that must not be empty is left out.
                let can_be_empty = self.required || self.schema["minItems"].as_u64() <= Some(0);
                (can_be_empty || !chosen.is_empty()).then_some(Value::Array(chosen))
            }
            Kind::One(options) => {
                let chosen = text.parse::<usize>().ok().and_then(|at| options.get(at));
                chosen.map(|(value, _)| (*value).clone())
            }
            Kind::Boolean => Some(given.get(&self.name).is_some().into()),
            _ if is_empty => None,
            Kind::Number { whole } => Some(number(text.trim(), whole)?),
            Kind::Text => Some(text.into()),
            Kind::Json => Some(serde_json::from_str(&text).map_err(|_| "Enter valid JSON.")?),
        })
    }

    /// Returns the text of the field: the one that the user gave, or the default.
    fn text(&self, given: Option<&Given>) -> String {
        match given {
            Some(given) => given.get(&self.name).unwrap_or_default().to_owned(),
            None => match &self.schema["default"] {
                Value::Null => String::new(),
                value => plain(value),
            },
        }
    }

    /// Returns whether an option is chosen: by the user, or by default.
    fn is_chosen(&self, given: Option<&Given>, at: usize, value: &Value) -> bool {
        let default = &self.schema["default"];
        match given {
            Some(given) => given.all(&self.name).any(|chosen| chosen.parse::<usize>() == Ok(at)),
            None => default.as_array().map_or(default == value, |values| values.contains(value)),
        }
    }

    /// Returns the numbers that the value must be between, as text.
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

    /// Returns the text that explains the field.
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

    /// Returns the field as HTML.
    fn html(&self, given: Option<&Given>, problem: Option<&str>) -> String {
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

    /// Returns the check boxes or radio buttons of a field.
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

    /// Returns the input of a field that users write into.
    fn input(&self, kind: &Kind<'_>, text: &str, attributes: &str) -> String {
        let (id, name, text) = (&self.id, Escaped(&self.name), Escaped(text));
        let is_long = self.schema["maxLength"].as_u64() > Some(200);
        let (input, mode) = match (kind, self.schema["format"].as_str()) {
            (Kind::Text, Some("email")) => ("email", ""),
            (Kind::Text, Some("uri")) => ("url", ""),
            (Kind::Text, Some("date")) => ("date", ""),
            (Kind::Text, _) if !is_long => ("text", ""),
            // The numeric keyboards of some devices have no minus sign.
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

/// Reads a number.
fn number(text: &str, whole: bool) -> Result<Value, &'static str> {
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number.into());
    }
    if whole {
        return Err("Enter a whole number.");
    }
    let number = text.parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number).ok_or("Enter a number.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{asking::waiting::tests::waits, run::Channels};

    const EVIL: &str = "</h2><script>alert('1')</script>\" onfocus=\"x&amp;";

    fn open(schema: Value) -> OpenQuestions {
        let mut view = waits(EVIL, Channels::default());
        view.asks.get_mut("approval").unwrap()["params"]["requestedSchema"] = schema;
        OpenQuestions { view, arguments: json!({EVIL: EVIL}), principal: Some(EVIL.into()) }
    }

    fn sheet(open: &OpenQuestions) -> Sheet<'_> {
        Sheet { server: EVIL, tool: EVIL.into(), open }
    }

    fn all() -> BTreeSet<String> {
        BTreeSet::from(["approval".to_owned()])
    }

    fn html(schema: Value, given: Option<&Given>) -> String {
        let (open, questions) = (open(schema), all());
        let sheet = sheet(&open);
        let problems = given.map(|given| sheet.read(&questions, given).unwrap().problems).unwrap_or_default();
        sheet.form(FormOf { action: EVIL, token: EVIL, questions: &questions }, given, &problems)
    }

    /// Returns the content of the answer, or the problems by field.
    fn read(schema: Value, body: &str) -> Result<Value, Value> {
        let open = open(schema);
        let submitted = sheet(&open).read(&all(), &Given::parse(body.as_bytes()).unwrap()).unwrap();
        if submitted.problems.is_empty() {
            return Ok(submitted.answers["approval"]["content"].clone());
        }
        let problems = submitted.problems.into_iter();
        let problems: Map<String, Value> =
            problems.map(|((_, field), problem)| (field, problem.into())).collect();
        Err(Value::Object(problems))
    }

    #[test]
    fn data_never_becomes_markup() {
        let schema = json!({"properties": {
            EVIL: {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL},
            "choice": {"type": "string", "enum": [EVIL], "default": EVIL},
            "choices": {"type": "array", "items": {"oneOf": [{"const": EVIL, "title": EVIL}]}},
            "long": {"type": "string", "enum": [EVIL, "b", "c", "d", "e", "f"]},
            "json": {"type": "object", "default": {EVIL: EVIL}},
        }});
        let names = [format!("0.{EVIL}"), "0.json".to_owned()];
        let given = Given(names.map(|name| (name, EVIL.to_owned())).into());
        for page in [html(schema.clone(), None), html(schema, Some(&given))] {
            for markup in ["<script", "onfocus=\"", "alert('"] {
                assert!(!page.contains(markup), "{markup} in {page}");
            }
            let escaped =
                "&lt;/h2&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onfocus=&quot;x&amp;amp;";
            assert!(page.contains(escaped), "{page}");
        }
        assert!(!message(EVIL, EVIL, Some(EVIL)).contains("<script"));
    }

    #[test]
    fn values_of_a_body_are_decoded() {
        let given = Given::parse(b"a=1+2&b=%C3%A4%26&a=x&empty=&none&=y").unwrap();
        assert_eq!(given.all("a").collect::<Vec<_>>(), ["1 2", "x"]);
        let value = |name| given.get(name);
        assert_eq!((value("b"), value("empty"), value("none")), (Some("ä&"), Some(""), Some("")));
        assert_eq!((value(""), value("c")), (Some("y"), None));
        assert_eq!(Given::parse(b""), Some(Given::default()));
        for wrong in [&b"a=%"[..], b"a=%1", b"a=%zz", b"a=%ff", b"%C3=1"] {
            assert_eq!(Given::parse(wrong), None);
        }
    }

    #[test]
    fn every_kind_of_field_has_its_value() {
        let schema = json!({"type": "object", "properties": {
            "desk": {"type": "string"}, "note": {"type": ["string", "null"], "maxLength": 500},
            "floor": {"type": "integer"}, "share": {"type": "number"}, "key": {"type": "boolean"},
            "size": {"type": "integer", "enum": [10, 20]}, "more": {"type": "object"},
            "days": {"type": "array", "items": {"type": "string", "enum": ["Mon", "Tue", "Wed"]}},
        }});
        let body = "0.desk=+4+&0.note=a%0D%0Ab&0.floor=+-7&0.share=0.5&0.key=1&0.size=1&0.more=%7B%7D&0.days=0&0.days=2";
        assert_eq!(
            read(schema.clone(), body),
            Ok(json!({
                "desk": " 4 ", "note": "a\nb", "floor": -7, "share": 0.5, "key": true, "size": 20, "more": {},
                "days": ["Mon", "Wed"],
            }))
        );
        let nothing = "0.desk=&0.note=+&0.floor=&0.share=&0.size=&0.more=";
        assert_eq!(read(schema.clone(), nothing), Ok(json!({"key": false, "days": []})));
        let wrong = read(schema, "0.floor=1.5&0.share=a&0.more=%7B").unwrap_err();
        let expected = json!({"floor": "Enter a whole number.", "more": "Enter valid JSON.", "share": "Enter a number."});
        assert_eq!(wrong, expected);
    }

    #[cfg(feature = "validate")]
    #[test]
    fn misfit_is_shown_beside_its_field_with_the_value_of_the_user() {
        let schema = json!({"type": "object", "required": ["desk", "floor"], "properties": {
            "desk": {"type": "string"}, "floor": {"type": "integer", "maximum": 8, "description": "Where?"},
            "key": {"type": "boolean", "default": true},
        }});
        let body = "0.desk=&0.floor=9";
        let problems = read(schema.clone(), body).unwrap_err();
        assert_eq!(problems["desk"], "An answer is required.");
        assert_eq!(problems["floor"], "Not accepted: 9 is greater than the maximum of 8");
        let page = html(schema, Given::parse(body.as_bytes()).as_ref());
        assert!(page.contains("Answers to correct: 2"), "{page}");
        let input =
            "value=\"9\" dir=\"auto\" required aria-describedby=\"f0-1h f0-1p\" aria-invalid=\"true\">";
        assert!(page.contains(input), "{page}");
        assert!(page.contains("id=\"f0-1p\" dir=\"auto\">Not accepted: 9 is greater"), "{page}");
        assert!(!page.contains(" checked"), "the user has cleared the check box: {page}");
    }

    #[test]
    fn question_that_is_no_longer_open_is_not_read() {
        let open = open(json!({}));
        let other = BTreeSet::from(["approval@2".to_owned()]);
        for questions in [other, BTreeSet::new()] {
            assert!(sheet(&open).read(&questions, &Given::default()).is_none());
        }
        assert!(sheet(&open).read(&all(), &Given::default()).is_some());
    }

    #[test]
    fn page_waits_for_the_tool_and_then_ends() {
        let mut open = open(json!({}));
        open.view.status = TaskStatus::Working;
        let works = sheet(&open).state(Some("/ask/t/next?turn=1"));
        assert!(works.contains("content=\"3;url=/ask/t/next?turn=1\"") && works.contains(CLOSE), "{works}");
        let last = sheet(&open).state(None);
        assert!(!last.contains("http-equiv") && last.contains(CLOSE), "{last}");
        open.view.status = TaskStatus::Completed;
        let done = sheet(&open).state(Some("/ask/t/next?turn=1"));
        assert!(!done.contains("http-equiv") && done.contains(CLOSE) && done.contains("Done"), "{done}");
    }
}
