//! The form of a user, as the page in the host would behave, and what the server replies to it.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::caller::Caller;

/// The page, as it is in the source of the server.
const FORM: &str = include_str!("../../../../crates/antiphon/src/asking/form.html");

/// The place of the view key in the page.
const VIEW_KEY: &str = "__VIEW_KEY__";

/// The URI of a page of another version, which a replica also serves.
const OLD_PAGE: &str = "ui://antiphon/form/0123456789abcdef";

/// Codes with which the server rejects a request of a form. A request with another error can be sent again.
const CODES: [&str; 4] = ["VIEW", "NOT_FOUND", "TICKET", "EXPIRED"];

/// A form that is shown to a user.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) caller: Caller<'a>,
    key: String,
}

/// Open questions, and the right to answer them.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) ticket: String,
    pub(super) keys: Vec<String>,
}

/// The reply to `ask_open`.
#[derive(Debug)]
pub(super) enum Opened {
    Asks(Asked),
    Works,
    Over,
    Refused(String),
    /// The server could not reply.
    Away(String),
}

/// The reply to `ask_answer`.
#[derive(Debug)]
pub(super) enum Replied {
    Taken,
    Used,
    Invalid(String),
    Refused(String),
    /// It is unknown whether the answer was taken.
    Lost,
}

impl<'a> View<'a> {
    /// Reads the page, and returns its view key.
    pub(super) fn read_key(caller: &mut Caller<'a>, front: usize, is_old: bool) -> Result<String> {
        let uri = if is_old { OLD_PAGE.to_owned() } else { page_of_tools(caller, front)? };
        let read = caller.ask(front, "resources/read", json!({ "uri": uri }))?;
        let page = read["contents"][0]["text"].as_str().context("the form is not a text")?;
        view_key(page).context("the form has no view key")
    }

    pub(super) fn new(caller: Caller<'a>, key: String) -> Self {
        Self { caller, key }
    }

    /// Returns the same form with connections of its own.
    pub(super) fn twin(&self) -> Self {
        Self { caller: self.caller.twin(), key: self.key.clone() }
    }

    /// Calls `ask_open` and returns the result as it is.
    pub(super) fn look(&mut self, front: usize, task: Option<&str>) -> Result<Value> {
        let mut arguments = json!({ "view": self.key });
        if let Some(task) = task {
            arguments["id"] = task.into();
        }
        self.caller.call(front, "ask_open", &arguments)
    }

    pub(super) fn open(&mut self, front: usize, task: &str) -> Opened {
        match self.look(front, Some(task)) {
            Ok(result) => Opened::of(&result),
            Err(error) => Opened::Away(format!("{error:#}")),
        }
    }

    /// Sends the same content as the answer to all questions.
    pub(super) fn answer(&mut self, front: usize, task: &str, asked: &Asked, word: &Value) -> Replied {
        let response = json!({ "action": "accept", "content": { "word": word } });
        let responses: Map<_, _> = asked.keys.iter().map(|key| (key.clone(), response.clone())).collect();
        let arguments =
            json!({ "view": self.key, "id": task, "ticket": asked.ticket, "responses": responses });
        let _in_flight = self.caller.fronts.answer(front);
        match self.caller.call(front, "ask_answer", &arguments) {
            Ok(result) => Replied::of(&result),
            Err(_) => Replied::Lost,
        }
    }
}

/// Returns the URI of the form that `tools/list` names.
fn page_of_tools(caller: &mut Caller<'_>, front: usize) -> Result<String> {
    let listed = caller.ask(front, "tools/list", json!({}))?;
    let mut tools = listed["tools"].as_array().into_iter().flatten();
    let tool = tools.find(|tool| tool["name"] == "task_question").context("no tool `task_question`")?;
    let uri = tool["_meta"]["ui"]["resourceUri"].as_str().context("`task_question` names no form")?;
    Ok(uri.to_owned())
}

/// Returns the view key in a page. The text around it is the same as in the source.
fn view_key(page: &str) -> Option<String> {
    let (before, after) = FORM.split_once(VIEW_KEY)?;
    let (_, rest) = page.split_once(before.rsplit('\n').next()?)?;
    let (key, _) = rest.split_once(after.chars().next()?)?;
    Some(key.to_owned())
}

/// Returns the code and text of a rejection.
fn refusal(result: &Value) -> Option<String> {
    let code = result["structuredContent"]["error"]["code"].as_str()?;
    (result["isError"] == true && CODES.contains(&code)).then(|| format!("{code}: {}", text_of(result)))
}

impl Opened {
    fn of(result: &Value) -> Self {
        if let Some(refusal) = refusal(result) {
            return Self::Refused(refusal);
        }
        let shown = &result["structuredContent"];
        match shown["status"].as_str().filter(|_| result["isError"] != true) {
            Some("input_required") => Self::Asks(Asked {
                ticket: shown["ticket"].as_str().unwrap_or_default().to_owned(),
                keys: shown["questions"].as_object().into_iter().flat_map(Map::keys).cloned().collect(),
            }),
            Some("working") => Self::Works,
            Some("completed" | "failed" | "cancelled") => Self::Over,
            _ => Self::Away(result.to_string()),
        }
    }
}

impl Replied {
    fn of(result: &Value) -> Self {
        if let Some(refusal) = refusal(result) {
            return Self::Refused(refusal);
        }
        match result["structuredContent"]["status"].as_str().filter(|_| result["isError"] != true) {
            Some("input_required" | "working" | "completed" | "failed" | "cancelled") => Self::Taken,
            Some("used") => Self::Used,
            Some("invalid") => Self::Invalid(result["structuredContent"]["problems"].to_string()),
            _ => Self::Lost,
        }
    }
}

/// Returns the first text of a result.
pub(super) fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// Returns the task IDs in a text.
pub(super) fn ids_in(text: &str) -> impl Iterator<Item = &str> {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let starts = text.match_indices("t_").map(|(start, _)| start);
    starts.filter_map(move |start| text.get(start..start + 34).filter(|id| id.bytes().skip(2).all(is_digit)))
}

/// Returns the task that a waiting result names in its structured content. A finished result names none.
pub(super) fn waiting_task(result: &Value) -> Option<&str> {
    result["structuredContent"]["task"]["id"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_key_is_found_in_the_page() {
        assert_eq!(view_key(&FORM.replace(VIEW_KEY, "v1.abc")).as_deref(), Some("v1.abc"));
        assert_eq!(view_key("<html>"), None);
    }

    #[test]
    fn task_ids_are_found_in_text() {
        let (one, other) = (format!("t_{}", "0a".repeat(16)), format!("t_{}", "9f".repeat(16)));
        let text = format!("NOT FINISHED: it_t_ (task {one}), at_ {{\"id\":\"{other}\"}} t_12");
        assert_eq!(ids_in(&text).collect::<Vec<_>>(), [one.as_str(), other.as_str()]);
    }

    #[test]
    fn replies_are_told_apart() {
        let reply = |content: Value, is_error: bool| {
            Replied::of(&json!({ "structuredContent": content, "isError": is_error }))
        };
        assert!(matches!(reply(json!({ "status": "working" }), false), Replied::Taken));
        assert!(matches!(reply(json!({ "status": "used" }), false), Replied::Used));
        assert!(matches!(reply(json!({ "status": "invalid", "problems": {} }), false), Replied::Invalid(_)));
        assert!(matches!(reply(json!({ "error": { "code": "TICKET" } }), true), Replied::Refused(_)));
        // The store was away, so nobody knows.
        assert!(matches!(reply(Value::Null, true), Replied::Lost));
    }
}
