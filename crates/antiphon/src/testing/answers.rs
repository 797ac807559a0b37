use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    url_elicitation::{CONTEXT_META, KEY_META},
};

/// A question, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its key: on 2026-07-28 the whole key, on 2025-11-25 the author's name for it.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters, as they came.
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

    /// What a person is shown, or a model is asked last.
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

    /// What a form of the client's own would show beside it.
    pub fn context(&self) -> Option<&Value> {
        self.params["_meta"].get(CONTEXT_META)
    }

    /// The author's name in its key.
    pub fn name(&self) -> &str {
        let name = self.key.rsplit('/').next().unwrap_or_default();
        name.split(['#', '~']).next().unwrap_or_default()
    }
}

/// Marks an answer that is an error.
pub(super) const ERROR: &str = "\u{0}error";

type ByHand = Box<dyn FnMut(&Question) -> Option<Value> + Send>;

/// What a client answers.
///
/// Answers are found by the question's whole key, then by its author's name for it. Several answers
/// to one name are given in turn, and the last one again and again.
///
/// A question without an answer is declined, or gets an empty reply. But if an answer of its kind waits under a key that
/// was never asked, the key is probably wrong: the call fails and names both keys.
#[derive(Default)]
pub struct Answers {
    by_key: BTreeMap<String, VecDeque<Value>>,
    /// The keys in `by_key` that were asked.
    asked: BTreeSet<String>,
    by_hand: Option<ByHand>,
}

impl Answers {
    /// No answers: every question is declined.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the form `key` with `content`.
    #[must_use]
    pub fn accept(self, key: &str, content: Value) -> Self {
        let mut answer = json!({"action": "accept"});
        answer["content"] = content;
        self.raw(key, answer)
    }

    /// Declines the form `key`.
    #[must_use]
    pub fn decline(self, key: &str) -> Self {
        self.raw(key, json!({"action": "decline"}))
    }

    /// Closes the form `key`.
    #[must_use]
    pub fn cancel(self, key: &str) -> Self {
        self.raw(key, json!({"action": "cancel"}))
    }

    /// Replies to the sampling request `key` with text.
    #[must_use]
    pub fn sample(self, key: &str, text: &str) -> Self {
        let content = json!({"type": "text", "text": text});
        self.raw(
            key,
            json!({"role": "assistant", "model": "test", "stopReason": "endTurn", "content": content}),
        )
    }

    /// Replies to the sampling request `key` with data: a call of `__schema__`.
    #[must_use]
    pub fn data(self, key: &str, data: Value) -> Self {
        self.calls(key, &[("__schema__", data)])
    }

    /// Replies to the sampling request `key` with calls of tools, each with its input.
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

    /// Answers `key` with a JSON-RPC error: `-1` is what a person's refusal looks like.
    ///
    /// 2026-07-28 has no errors among its answers; there the question goes unanswered.
    #[must_use]
    pub fn error(self, key: &str, code: i32, message: &str) -> Self {
        self.raw(key, json!({ERROR: {"code": code, "message": message}}))
    }

    /// Says where the person works.
    #[must_use]
    pub fn roots(self, uris: &[&str]) -> Self {
        let roots: Vec<_> = uris.iter().map(|uri| json!({"uri": uri})).collect();
        self.raw("roots", json!({"roots": roots}))
    }

    /// Answers `key` with a result as it is.
    #[must_use]
    pub fn raw(mut self, key: &str, result: Value) -> Self {
        self.by_key.entry(key.to_owned()).or_default().push_back(result);
        self
    }

    /// Answers what nothing else does.
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
            "the tool asks `{name}`, and the test has no answer with this key; it has unused answers with {unused}"
        )))
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("by_key", &self.by_key).finish_non_exhaustive()
    }
}
