//! Asks for one field in the terminal.

use inquire::{
    InquireError, MultiSelect, Select, Text,
    validator::{ErrorMessage, Validation},
};
use serde_json::Value;

use super::{
    field::{Choice, Field, Kind, check, check_count},
    terminal::Asked,
};
use crate::print::clean;

/// The list item with which the user leaves a field empty.
const NOTHING: &str = "(leave it empty)";

/// Asks for a field's value. Returns `None` if the field is left empty. `before` is the previous value of the field.
pub(super) fn ask(field: &Field, before: Option<&Value>) -> Asked<Option<Value>> {
    let required = field.is_required();
    let title = one_line(&field.title);
    let title = if required { title } else { format!("{title} (optional)") };
    let help = help(field);
    let start = before.or(field.default.as_ref());
    let prompt = Prompt { title: &title, help: &help, required, start };
    match &field.kind {
        Kind::Choice(choices) => prompt.choice(choices),
        Kind::Boolean => prompt.boolean(),
        Kind::List { of, .. } => match &**of {
            Kind::Choice(choices) => prompt.choices(&field.kind, choices),
            _ => prompt.text(&field.kind),
        },
        kind => prompt.text(kind),
    }
}

struct Prompt<'a> {
    title: &'a str,
    help: &'a str,
    required: bool,
    start: Option<&'a Value>,
}

impl Prompt<'_> {
    fn choice(&self, choices: &[Choice]) -> Asked<Option<Value>> {
        let mut titles: Vec<String> = choices.iter().map(|choice| one_line(&choice.title)).collect();
        if !self.required {
            titles.push(NOTHING.into());
        }
        let start = choices.iter().position(|choice| Some(&choice.value) == self.start);
        let start = start.unwrap_or(self.undecided(choices.len()));
        let select = Select::new(self.title, titles).with_starting_cursor(start).with_help_message(self.help);
        asked(select.raw_prompt()).map(|chosen| choices.get(chosen.index).map(|choice| choice.value.clone()))
    }

    /// Returns the start position of the cursor for a field without a previous value. If the field is optional, Enter
    /// at the start position leaves the field empty.
    fn undecided(&self, choices: usize) -> usize {
        if self.required { 0 } else { choices }
    }

    fn choices(&self, kind: &Kind, choices: &[Choice]) -> Asked<Option<Value>> {
        let titles: Vec<String> = choices.iter().map(|choice| one_line(&choice.title)).collect();
        let start = self.start.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let start: Vec<usize> = (0..choices.len()).filter(|i| start.contains(&choices[*i].value)).collect();
        let (kind, required) = (kind.clone(), self.required);
        let select = MultiSelect::new(self.title, titles)
            .with_default(&start)
            .with_help_message(self.help)
            .with_validator(move |chosen: &[inquire::list_option::ListOption<&String>]| {
                let left_empty = chosen.is_empty() && !required;
                let checked = if left_empty { Ok(()) } else { check_count(&kind, chosen.len()) };
                Ok(checked.map_or_else(invalid, |()| Validation::Valid))
            });
        asked(select.raw_prompt()).map(|chosen| {
            let values: Vec<Value> = chosen.iter().map(|one| choices[one.index].value.clone()).collect();
            Some(Value::from(values)).filter(|_| self.required || !chosen.is_empty())
        })
    }

    fn boolean(&self) -> Asked<Option<Value>> {
        let mut answers = vec!["yes", "no"];
        if !self.required {
            answers.push(NOTHING);
        }
        let start = self.start.and_then(Value::as_bool).map_or(self.undecided(2), |yes| usize::from(!yes));
        let select =
            Select::new(self.title, answers).with_starting_cursor(start).with_help_message(self.help);
        asked(select.raw_prompt()).map(|chosen| [true, false].get(chosen.index).map(|yes| Value::from(*yes)))
    }

    fn text(&self, kind: &Kind) -> Asked<Option<Value>> {
        let start = self.start.map(written).unwrap_or_default();
        let (wanted, required) = (kind.clone(), self.required);
        let text = Text::new(self.title)
            .with_initial_value(&start)
            .with_help_message(self.help)
            .with_validator(move |text: &str| {
                Ok(match check(&wanted, text) {
                    _ if text.is_empty() && !required => Validation::Valid,
                    Ok(_) if text.is_empty() && required => invalid("this field is required".into()),
                    Ok(_) => Validation::Valid,
                    Err(wanted) => invalid(wanted),
                })
            });
        // The validator accepted the text, so the value is `None` only if the user left the field empty.
        asked(text.prompt())
            .map(|text| if text.is_empty() && !self.required { None } else { check(kind, &text).ok() })
    }
}

fn help(field: &Field) -> String {
    let kind = match &field.kind {
        Kind::Text { format: None, shortest: None, longest: None } => "Enter confirms".to_owned(),
        Kind::Choice(_) | Kind::Boolean => "arrows select, Enter confirms".to_owned(),
        Kind::List { of, .. } if matches!(**of, Kind::Choice(_)) => {
            "Space selects, Enter confirms".to_owned()
        }
        Kind::List { of, .. } => format!("{}, separated by commas", of.describe()),
        kind => kind.describe(),
    };
    let about = field.description.as_deref().map(|text| format!("{}; ", one_line(text)));
    format!("{}{kind}; Esc declines or cancels", about.unwrap_or_default())
}

/// Joins the lines of a server's text to one line, because a second line could imitate a prompt of the CLI.
fn one_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Returns the text that a user would type to enter `value`.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        Value::Array(values) => values.iter().map(written).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn invalid(why: String) -> Validation {
    Validation::Invalid(ErrorMessage::Custom(why))
}

/// Asks the user to pick one of a few answers.
pub(super) fn pick(question: &str, answers: Vec<&'static str>) -> Asked<&'static str> {
    asked(
        Select::new(question, answers)
            .without_filtering()
            .with_help_message("arrows select, Enter confirms")
            .prompt(),
    )
}

/// Asks the user to choose one of several items. Returns the position of the chosen item.
pub(super) fn choose(question: &str, items: &[String]) -> Asked<usize> {
    let items: Vec<String> = items.iter().map(|item| one_line(item)).collect();
    asked(Select::new(question, items).with_help_message("arrows select, Enter confirms").raw_prompt())
        .map(|chosen| chosen.index)
}

/// Converts the result of a prompt.
fn asked<T>(result: Result<T, InquireError>) -> Asked<T> {
    match result {
        Ok(value) => Asked::Answered(value),
        Err(InquireError::OperationInterrupted) => Asked::Interrupted,
        Err(_) => Asked::Closed,
    }
}

impl<T> Asked<T> {
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Asked<U> {
        match self {
            Self::Answered(value) => Asked::Answered(f(value)),
            Self::Closed => Asked::Closed,
            Self::Interrupted => Asked::Interrupted,
        }
    }
}
