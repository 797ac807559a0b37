//! One run, as the client of its user saw it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::view::{ids_in, text_of, waiting_task};

/// The maximum size of each half of a waiting result, in bytes.
const HALF: usize = 2048;

/// The `_meta` key under which a result names its task.
const TASK_META: &str = "antiphon/task";

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Its name in the ledger.
    pub(super) name: String,
    pub(super) user: String,
    /// The ID of its task. Empty if the call returned none.
    pub(super) task: String,
    pub(super) asks_twice: bool,
    /// Its questions, by wire key.
    pub(super) questions: BTreeMap<String, Question>,
    /// The result that `task_result` returned.
    pub(super) end: Option<Value>,
    /// The last error that the client received.
    pub(super) last: String,
    /// The tasks that `ask_open` listed for the user.
    pub(super) listed: BTreeSet<String>,
    /// Whether waiting results name their task.
    pub(super) waiting: Checks,
    /// Whether every replica accepts the task, its tickets and its form.
    pub(super) known: Checks,
    /// Whether answers that do not fit are rejected.
    pub(super) misfits: Checks,
    /// Whether the requests of other users are rejected.
    pub(super) foreign: Checks,
    /// Whether the replies to other users are free of the task's data.
    pub(super) secrets: Checks,
}

/// One question, and the answers to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    /// The answers of the run's user, and the reply to each.
    pub(super) replies: Vec<(String, Reply)>,
    /// The answers of other users.
    pub(super) foreign: Vec<String>,
}

/// The reply to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The server acknowledged the answer.
    Taken,
    /// The server said that another answer was taken before.
    Used,
    /// No reply, or an error: it is unknown whether the answer was taken.
    Lost,
}

/// A number of checks, and those that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) examined: usize,
    pub(super) complaints: Vec<String>,
}

impl Checks {
    pub(super) fn check(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        self.examined += 1;
        if !holds {
            self.complaints.push(complaint());
        }
    }
}

/// Where a client reads the ID of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Text,
    Data,
    Meta,
}

impl Run {
    /// Checks a waiting result, and takes the ID of the task from one of its places. Clients differ in the places that
    /// they pass on.
    pub(super) fn begin(&mut self, result: &Value, source: Source) {
        let (text, data) = (text_of(result), &result["structuredContent"]);
        let meta = result["_meta"][TASK_META]["id"].as_str();
        let ids = [ids_in(text).next(), waiting_task(result), meta];
        let agree = ids[0].is_some() && ids.iter().all(|id| *id == ids[0]);
        let is_short = text.len() <= HALF && data.to_string().len() <= HALF;
        self.waiting.check(agree && is_short && result["isError"] != true, || {
            format!("{} was answered with {result}", self.name)
        });
        let id = match source {
            Source::Text => ids[0],
            Source::Data => ids[1],
            Source::Meta => ids[2],
        };
        id.or(ids[1]).unwrap_or_default().clone_into(&mut self.task);
    }

    /// Notes the reply to an answer.
    pub(super) fn note(&mut self, key: &str, word: &str, reply: Reply) {
        self.questions.entry(key.to_owned()).or_default().replies.push((word.to_owned(), reply));
    }

    /// Returns whether an answer to one of these questions was sent before.
    pub(super) fn was_answered(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.questions.get(key).is_some_and(|question| !question.replies.is_empty()))
    }

    /// Returns the result, if the tool returned one.
    pub(super) fn finding(&self) -> Option<&Value> {
        let end = self.end.as_ref()?;
        (end["isError"] != true).then(|| &end["structuredContent"])
    }

    /// Returns the answer in the result to the question with this wire key.
    pub(super) fn word(&self, wire: &str) -> Option<&str> {
        self.finding()?["values"][question_key(wire)].as_str()
    }
}

/// Returns the question key of a wire key, such as `word` of `word@2`.
fn question_key(wire: &str) -> &str {
    wire.split('@').next().unwrap_or(wire)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(in_text: &str, in_data: &str) -> Value {
        json!({
            "content": [{ "type": "text", "text": format!("NOT FINISHED (task {in_text})") }],
            "structuredContent": { "about": "NOT FINISHED", "task": { "id": in_data } },
            "_meta": { "antiphon/task": { "id": in_data } },
        })
    }

    #[test]
    fn waiting_result_must_name_one_task_in_all_places() {
        let (one, other) = (format!("t_{}", "1".repeat(32)), format!("t_{}", "2".repeat(32)));
        for (result, source, complaints, task) in [
            (waiting(&one, &one), Source::Text, 0, &one),
            (waiting(&one, &one), Source::Meta, 0, &one),
            (waiting(&other, &one), Source::Text, 1, &other),
            (waiting(&other, &one), Source::Data, 1, &one),
            (waiting("none", &one), Source::Text, 1, &one),
        ] {
            let mut run = Run::default();
            run.begin(&result, source);
            assert_eq!((run.waiting.complaints.len(), &run.task), (complaints, task), "{result}");
        }
    }

    #[test]
    fn waiting_result_must_be_short_and_no_error() {
        let id = format!("t_{}", "1".repeat(32));
        let mut failed = waiting(&id, &id);
        failed["isError"] = json!(true);
        let mut long = waiting(&id, &id);
        long["structuredContent"]["about"] = json!("x".repeat(HALF));
        for result in [failed, long] {
            let mut run = Run::default();
            run.begin(&result, Source::Data);
            assert_eq!(run.waiting.complaints.len(), 1);
        }
    }
}
