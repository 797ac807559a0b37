use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    url_elicitation::{CONTEXT_META, KEY_META},
};

/// A question that the server sent to the test client.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The question key. On MCP 2026-07-28, `key` contains the complete question key, for example `ann/vote#2`. On MCP
    /// 2025-11-25, `key` contains only the name that the tool's author chose.
    pub key: String,
    /// The MCP method of the question: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The parameters of the question, as the server sent them.
    pub params: Value,
}

impl Question {
    pub(super) fn new(key: Option<&str>, request: &Value) -> Self {
        let params = request.get("params").cloned().unwrap_or_default();
        let named = params["_meta"][KEY_META].as_str().map(str::to_owned);
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let fallback = method.split('/').next().unwrap_or_default().to_owned();
        Self { key: key.map(str::to_owned).or(named).unwrap_or(fallback), method, params }
    }

    /// Returns the text that the question shows to the user. For a sampling request, returns the text of the last
    /// message to the model.
    pub fn message(&self) -> &str {
        let asked = self.params["messages"].as_array().and_then(|messages| messages.last());
        asked
            .and_then(|message| {
                let content = &message["content"];
                content["text"].as_str().or_else(|| content[0]["text"].as_str())
            })
            .or_else(|| self.params["message"].as_str())
            .unwrap_or_default()
    }

    /// Returns the additional data that the tool sent for a custom form of the client, or `None` if the tool sent no
    /// additional data.
    pub fn context(&self) -> Option<&Value> {
        self.params["_meta"].get(CONTEXT_META)
    }

    /// Returns the name that the tool's author chose for the question. The name is a part of the question key.
    pub fn name(&self) -> &str {
        let name = self.key.rsplit('/').next().unwrap_or_default();
        name.split(['#', '~']).next().unwrap_or_default()
    }
}

/// The name of the JSON field that marks a scripted answer as an error.
pub(super) const ERROR: &str = "\u{0}error";

type ByHand = Box<dyn FnMut(&Question) -> Option<Value> + Send>;

/// Scripted answers, with which a test client answers the questions of a server.
///
/// For each question, the client first searches for an answer with the complete question key. If the script has no
/// answer with the complete question key, the client searches for an answer with the name that the tool's author chose.
/// If you add several answers with one key, the client uses these answers in order, and then repeats the last answer.
///
/// If the script contains no answer to a form, the client declines the form. If the script contains no reply to a
/// sampling request, the client replies with an empty text. But if the script contains an unused answer of the same
/// kind with another key, one of the keys is probably misspelled. The call then fails with an error that contains both
/// keys.
#[derive(Default)]
pub struct Answers {
    by_key: BTreeMap<String, VecDeque<Value>>,
    /// The keys in `by_key` for which the server has asked a question.
    asked: BTreeSet<String>,
    by_hand: Option<ByHand>,
}

impl Answers {
    /// Creates a script without answers. With an empty script, the client declines every form.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a form with `content`. `key` is the question key.
    #[must_use]
    pub fn accept(self, key: &str, content: Value) -> Self {
        let mut answer = json!({"action": "accept"});
        answer["content"] = content;
        self.raw(key, answer)
    }

    /// Declines the form with the question key `key`.
    #[must_use]
    pub fn decline(self, key: &str) -> Self {
        self.raw(key, json!({"action": "decline"}))
    }

    /// Dismisses the form with the question key `key`.
    #[must_use]
    pub fn cancel(self, key: &str) -> Self {
        self.raw(key, json!({"action": "cancel"}))
    }

    /// Replies to a sampling request with text. `key` is the question key.
    #[must_use]
    pub fn sample(self, key: &str, text: &str) -> Self {
        let content = json!({"type": "text", "text": text});
        self.raw(
            key,
            json!({"role": "assistant", "model": "test", "stopReason": "endTurn", "content": content}),
        )
    }

    /// Replies to a sampling request with data. `key` is the question key. The reply is a call of the tool
    /// `__schema__`.
    #[must_use]
    pub fn data(self, key: &str, data: Value) -> Self {
        self.calls(key, &[("__schema__", data)])
    }

    /// Replies to a sampling request with tool calls. `key` is the question key. Each call consists of a tool name and
    /// an input.
    #[must_use]
    pub fn calls(self, key: &str, calls: &[(&str, Value)]) -> Self {
        let blocks: Vec<_> = (1..)
            .zip(calls)
            .map(|(i, (name, input))| {
                json!({"type": "tool_use", "id": format!("call_{i}"), "name": name, "input": input})
            })
            .collect();
        self.raw(
            key,
            json!({"role": "assistant", "model": "test", "stopReason": "toolUse", "content": blocks}),
        )
    }

    /// Answers a question with a JSON-RPC error. `key` is the question key. To simulate a user who rejects the
    /// question, use the code `-1`.
    ///
    /// On MCP 2026-07-28, a client cannot answer a question with an error. So on MCP 2026-07-28, the client leaves the
    /// question unanswered if the scripted answer is an error.
    #[must_use]
    pub fn error(self, key: &str, code: i32, message: &str) -> Self {
        self.raw(key, json!({ERROR: {"code": code, "message": message}}))
    }

    /// Answers a question that asks for the client's roots. `uris` are the URIs of the roots.
    #[must_use]
    pub fn roots(self, uris: &[&str]) -> Self {
        let roots: Vec<_> = uris.iter().map(|uri| json!({"uri": uri})).collect();
        self.raw("roots", json!({"roots": roots}))
    }

    /// Answers a question with the unchanged MCP result `result`. `key` is the question key.
    #[must_use]
    pub fn raw(mut self, key: &str, result: Value) -> Self {
        self.by_key.entry(key.to_owned()).or_default().push_back(result);
        self
    }

    /// Sets a function that answers all questions for which the script contains no answer. Default: none.
    #[must_use]
    pub fn otherwise(mut self, answer: impl FnMut(&Question) -> Option<Value> + Send + 'static) -> Self {
        self.by_hand = Some(Box::new(answer));
        self
    }

    pub(super) fn answer(&mut self, question: &Question) -> Result<Value> {
        let key =
            [question.key.as_str(), question.name()].into_iter().find(|key| self.by_key.contains_key(*key));
        if let Some((key, queue)) = key.and_then(|key| Some((key, self.by_key.get_mut(key)?))) {
            self.asked.insert(key.to_owned());
            let answer = if queue.len() > 1 { queue.pop_front() } else { queue.front().cloned() };
            return Ok(answer.unwrap_or_default());
        }
        if let Some(answer) = self.by_hand.as_mut().and_then(|answer| answer(question)) {
            return Ok(answer);
        }
        let (field, default) = match question.method.as_str() {
            "roots/list" => return Ok(json!({"roots": []})),
            "sampling/createMessage" => (
                "role",
                json!({"role": "assistant", "model": "test", "content": {"type": "text", "text": ""}}),
            ),
            _ => ("action", json!({"action": "decline"})),
        };
        let unused = self.by_key.iter().filter(|(key, answers)| {
            !self.asked.contains(*key) && answers.iter().any(|answer| answer.get(field).is_some())
        });
        let unused: Vec<_> = unused.map(|(key, _)| format!("`{key}`")).collect();
        if unused.is_empty() {
            return Ok(default);
        }
        let (name, unused) = (question.name(), unused.join(", "));
        Err(Error::tool(format!(
            "the tool asks the question `{name}`, but the test has no answer for this question; its unused answers are \
             for {unused}"
        )))
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("by_key", &self.by_key).finish_non_exhaustive()
    }
}
