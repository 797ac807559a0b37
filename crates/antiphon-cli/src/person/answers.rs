//! Answers forms from a file.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use antiphon_host::{Form, Shown};
use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::field::Field;
use crate::{
    exit::Misused,
    print::{clean, first_line},
};

/// A map from question keys to the answers in the file. The answers under `*` apply to all other forms.
#[derive(Debug)]
pub(super) struct Answers {
    by_key: BTreeMap<String, Turns>,
    /// A map from each question key to the number of answers that were already used.
    given: Mutex<BTreeMap<String, usize>>,
}

#[derive(Debug)]
enum Turns {
    /// The file contains one answer for the question key. The CLI uses this answer every time.
    Always(Answer),
    /// The file contains a list of answers for the question key. The CLI uses these answers one after the other.
    Each(Vec<Answer>),
}

#[derive(Clone, Debug)]
enum Answer {
    Content(Value),
    Decline,
    Cancel,
}

const OTHERS: &str = "*";

impl Answers {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let unreadable = || format!("{} cannot be read", path.display());
        let text = fs::read_to_string(path).with_context(unreadable)?;
        let file: Value = serde_json::from_str(&text).with_context(unreadable)?;
        Self::parse(&file).map_err(|problem| Misused(format!("{}: {problem}", path.display())).into())
    }

    fn parse(file: &Value) -> Result<Self, String> {
        let file = file.as_object().ok_or("the file must be a JSON object with answers by question key")?;
        let read = |(key, value): (&String, &Value)| -> Result<_, String> {
            let turns = match value {
                Value::Array(answers) => Turns::Each(
                    answers.iter().map(|answer| Answer::read(key, answer)).collect::<Result<_, _>>()?,
                ),
                answer => Turns::Always(Answer::read(key, answer)?),
            };
            Ok((key.clone(), turns))
        };
        Ok(Self { by_key: file.iter().map(read).collect::<Result<_, _>>()?, given: Mutex::default() })
    }

    /// Returns the answer to a form, or `None` if the file contains no answer or all answers are used.
    pub(super) fn shown(&self, form: &Form) -> Option<Shown> {
        let key = form.key.as_deref().filter(|key| self.by_key.contains_key(*key)).unwrap_or(OTHERS);
        let answer = match self.by_key.get(key)? {
            Turns::Always(answer) => answer,
            Turns::Each(answers) => {
                let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
                let turn = given.entry(key.to_owned()).or_default();
                let answer = answers.get(*turn)?;
                *turn += 1;
                answer
            }
        };
        Some(match answer.clone() {
            Answer::Content(content) => Shown::Accept(content),
            Answer::Decline => Shown::Decline,
            Answer::Cancel => Shown::Cancel,
        })
    }
}

impl Answer {
    fn read(key: &str, value: &Value) -> Result<Self, String> {
        match value {
            Value::Object(_) => Ok(Self::Content(value.clone())),
            Value::String(word) if word == "decline" => Ok(Self::Decline),
            Value::String(word) if word == "cancel" => Ok(Self::Cancel),
            _ => Err(format!("`{key}` has `{value}`; write an object, \"decline\" or \"cancel\"")),
        }
    }
}

/// Returns the message for a form that was not answered.
pub(super) fn missing(form: &Form, from_file: bool) -> String {
    let key = form.key.as_deref().unwrap_or(OTHERS);
    let mut example = Map::new();
    for field in Field::all(&form.schema) {
        field.put(&mut example, field.default.clone().unwrap_or_else(|| field.kind.example()));
    }
    let example = json!({key: example});
    let what = match &form.key {
        Some(key) => format!("`{}`", first_line(key)),
        None => "a question without a key".to_owned(),
    };
    let why = if from_file { "the file has no further answer" } else { "no user is present to answer" };
    let message = form.message.trim().replace('\n', "\n  ");
    clean(&format!(
        "not answered, so declined: {what}; {why}\n  {message}\nhint: answer with `--answers FILE`; the file contains for example\n  {example}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_is_said_with_its_key() {
        let error = Answers::parse(&json!({"size": [{"size": "L"}, 3]})).unwrap_err();
        assert_eq!(error, "`size` has `3`; write an object, \"decline\" or \"cancel\"");
        assert!(Answers::parse(&json!([])).is_err());
    }
}
