//! Creates the HTML of the answer page, and parses the values that users submit with its forms.
//!
//! The answer page contains no script and loads no files. This module escapes all text that it puts into the HTML.

mod decode;
mod fields;
mod markup;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) use self::decode::Given;
use self::{
    fields::fields,
    markup::{Escaped, folded, plain, table},
};
use crate::{
    asking::{
        Asking,
        form::{misfits, title},
        forms,
    },
    base::timestamp,
    registry::Registry,
    run::channels::{Link, link},
    task::{OpenQuestions, TaskStatus},
    url_elicitation::CONTEXT_META,
};

const STYLE: &str = include_str!("../page.css");

/// Returns the digest of the style sheet, in the format that a content security policy requires.
pub(crate) fn style() -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(STYLE)))
}

/// The last sentence on the web page that the user sees after the answer.
const CLOSE: &str = "You can close this page. Go back to the chat and say that you have answered.";

/// How often the browser reloads a web page that waits for the tool, in seconds.
const REFRESH: u32 = 3;

/// Returns a complete web page. `head` and `body` must already be HTML.
fn document(title: &str, head: &str, body: &str) -> String {
    let title = Escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>{head}<style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

/// Returns a web page with a title and a text. `head` and `more` must already be HTML.
fn page(title: &str, text: &str, head: &str, more: &str) -> String {
    let body = format!("<h1 dir=\"auto\">{}</h1><p dir=\"auto\">{}</p>{more}", Escaped(title), Escaped(text));
    document(title, head, &body)
}

/// The link or the button on a web page that shows a message. The value is the address that the link or button opens.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    /// A button that opens the question of a task.
    Open(&'a str),
    /// A link that starts the sign-in.
    SignIn(&'a str),
}

impl Step<'_> {
    fn html(self) -> String {
        match self {
            Self::Open(action) => format!(
                "<form method=\"post\" action=\"{}\"><button class=\"main\">Open the question</button></form>",
                Escaped(action)
            ),
            // This element is a link and not a form. The content security policy of the web page forbids a form whose
            // response redirects the browser to another host.
            Self::SignIn(address) => {
                format!("<a class=\"main\" href=\"{}\" rel=\"nofollow\">Sign in</a>", Escaped(address))
            }
        }
    }
}

/// Returns a web page that shows a message. If `step` is set, the web page also contains the link or button of `step`.
pub(crate) fn message(title: &str, text: &str, step: Option<Step<'_>>) -> String {
    page(title, text, "", &step.map(Step::html).unwrap_or_default())
}

/// The problems of the values that a user submitted. Each key is a question and a field. If a problem concerns a whole
/// question, the field name is empty.
type Problems = BTreeMap<(String, String), String>;

/// The answers in a form that a user submitted, and the problems of these answers.
pub(crate) struct Submitted {
    pub(crate) answers: BTreeMap<String, Value>,
    pub(crate) problems: Problems,
}

/// A form that shows questions of a task.
#[derive(Clone, Copy)]
pub(crate) struct FormOf<'a> {
    /// The address to which the browser sends the submitted values.
    pub(crate) action: &'a str,
    /// The token that allows a browser to submit this form.
    pub(crate) token: &'a str,
    /// The wire keys of the questions in this form.
    pub(crate) questions: &'a BTreeSet<String>,
}

/// The parts of a task that the answer page shows.
pub(crate) struct Sheet<'a> {
    server: &'a str,
    tool: String,
    open: &'a OpenQuestions,
}

impl Asking {
    /// Returns the parts of a task that the answer page shows.
    pub(crate) fn sheet<'a>(&'a self, registry: &Registry, open: &'a OpenQuestions) -> Sheet<'a> {
        Sheet { server: &self.server, tool: title(registry, &open.view.tool), open }
    }

    /// Returns the first web page behind a link. This web page does not show the question, because programs that fetch
    /// links also load this web page. `is_other` is true if the visitor is signed in as another user.
    pub(crate) fn landing(&self, step: Step<'_>, is_other: bool) -> String {
        let title = format!("{} has a question", self.server);
        let text = match step {
            Step::Open(_) => {
                "A tool waits for an answer of the user who called it in a chat. Open the question only if you are this user."
            }
            Step::SignIn(_) if is_other => {
                "You are signed in with another account than the user who called the tool. Sign in with the account that you use in the chat."
            }
            Step::SignIn(_) => {
                "A tool waits for an answer of the user who called it in a chat. Sign in with the account that you use in the chat."
            }
        };
        message(&title, text, Some(step))
    }
}

impl Sheet<'_> {
    /// Returns the wire keys of the task's questions that a form can show.
    pub(crate) fn questions(&self) -> BTreeSet<String> {
        forms(&self.open.view).map(|(wire, _)| wire.clone()).collect()
    }

    /// Returns the web page for a task without open questions. If the task has not ended, the browser loads the address
    /// `next` after a few seconds.
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

    /// Returns the web page that shows the form. If the user submitted invalid values, the form shows these values and
    /// their problems.
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
            body.push_str(&question(at, wire, request, given, problems));
        }
        body.push_str(
            "<div class=\"row\"><button class=\"main\" name=\"action\" value=\"accept\">Submit</button><button name=\"action\" value=\"decline\" formnovalidate>Decline</button></div></form>",
        );
        document(&title, "", &body)
    }

    /// Returns HTML that describes the tool call behind a question: the tool, the account and the arguments.
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

    /// Returns those questions in `questions` that are still open.
    fn asked<'b>(&'b self, questions: &'b BTreeSet<String>) -> impl Iterator<Item = (&'b String, &'b Value)> {
        forms(&self.open.view).filter(move |(wire, _)| questions.contains(*wire))
    }

    /// Returns the answers to `questions` from the values that the user submitted. Returns `None` if a question is no
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

/// Returns one question and its fields as HTML. `at` is the position of the question in the form.
fn question(at: usize, wire: &str, request: &Value, given: Option<&Given>, problems: &Problems) -> String {
    let params = &request["params"];
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
    if let Some(Ok(link)) = link(request) {
        html.push_str(&visit(&link));
        is_empty = false;
    }
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

/// Returns the HTML of a link that the user must open. The HTML shows the host and the complete URL. The browser opens
/// the URL only if the user clicks the link.
fn visit(Link { url, host }: &Link<'_>) -> String {
    let (url, name) = (Escaped(url), Escaped(host));
    let warning = if host.split('.').any(|label| label.starts_with("xn--")) {
        "<p class=\"notice\">The host has letters of other scripts. They can look like another name.</p>"
    } else {
        ""
    };
    format!(
        "<p class=\"help\">The tool asks you to open a web page. Check the address first.</p><dl class=\"data\"><dt>Host</dt><dd><strong>{name}</strong></dd><dt>Address</dt><dd><span>{url}</span></dd></dl>{warning}<a class=\"main\" href=\"{url}\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">Open {name}</a><p class=\"help\">Then come back to this page, and select Submit. If you do not want to open the web page, select Decline.</p>"
    )
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

    /// Returns the content of the answer. If values are invalid, returns the problem of each field.
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
        for step in [Step::Open(EVIL), Step::SignIn(EVIL)] {
            assert!(!message(EVIL, EVIL, Some(step)).contains("<script"));
        }
    }

    /// Returns the open questions of a task that asks the user to open `url`.
    fn opens(url: &str) -> OpenQuestions {
        let mut open = open(json!(null));
        let params = &mut open.view.asks.get_mut("approval").unwrap()["params"];
        params["mode"] = "url".into();
        params["url"] = url.into();
        open
    }

    #[test]
    fn link_is_shown_with_its_host_and_whole_address() {
        let questions = all();
        let form = FormOf { action: "/ask/t", token: "token", questions: &questions };
        let open = opens("https://shop.example:8443/pay/\"onfocus=\"y?id=4711&x=1");
        let page = sheet(&open).form(form, None, &Problems::new());
        let address = "https://shop.example:8443/pay/&quot;onfocus=&quot;y?id=4711&amp;x=1";
        for part in [
            "<strong>shop.example:8443</strong>".to_owned(),
            format!("<span>{address}</span>"),
            format!("href=\"{address}\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">Open shop"),
        ] {
            assert!(page.contains(&part), "{part} in {page}");
        }
        assert!(!page.contains("no fields") && !page.contains("other scripts"), "{page}");
        // The browser must not open or load the URL until the user clicks the link.
        for loads in ["http-equiv", "<link", "<img", "<iframe", "prefetch"] {
            assert!(!page.contains(loads), "{loads} in {page}");
        }
        let submitted = sheet(&open).read(&questions, &Given::default()).unwrap();
        assert_eq!(submitted.answers["approval"]["action"], "accept");
        assert!(submitted.problems.is_empty());
        let page = sheet(&opens("https://xn--exmple-4nf.com/")).form(form, None, &Problems::new());
        assert!(page.contains("letters of other scripts"), "{page}");
    }

    #[test]
    fn unsafe_link_is_not_a_question_of_the_page() {
        for url in ["javascript:alert(1)", "data:text/html,x", "http://a.example/", "https://a@b.example/"] {
            let open = opens(url);
            assert_eq!(sheet(&open).questions(), BTreeSet::new(), "{url}");
            assert!(sheet(&open).read(&all(), &Given::default()).is_none(), "{url}");
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
