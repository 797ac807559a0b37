//! Shows forms in the terminal.

use antiphon_host::{Form, Shown};
use serde_json::{Map, Value};

use super::{
    Person,
    field::Field,
    prompt::{ask, pick},
    terminal::Asked,
};
use crate::print::clean;

/// Shows a form and waits for the user.
pub(super) async fn show(person: &Person, form: &Form) -> Shown {
    let fields = Field::all(&form.schema);
    let message = format!("{} asks:\n{}", person.server(), clean(form.message.trim()));
    match person.terminal().ask(move || fill_in(&message, &fields)).await {
        Asked::Answered(shown) => shown,
        Asked::Closed | Asked::Interrupted => Shown::Cancel,
    }
}

/// Asks for the values of `fields`. Returns `None` if the user declines or cancels the form.
pub(crate) async fn fill(person: &Person, message: String, fields: Vec<Field>) -> Option<Map<String, Value>> {
    match person.terminal().ask(move || fill_in(&message, &fields)).await {
        Asked::Answered(Shown::Accept(Value::Object(content))) => Some(content),
        _ => None,
    }
}

/// Shows a message and asks for the values of `fields`. `fill_in` blocks the current thread.
pub(super) fn fill_in(message: &str, fields: &[Field]) -> Asked<Shown> {
    eprintln!("\n{message}");
    if fields.is_empty() {
        return confirm();
    }
    let mut content = Map::new();
    loop {
        for field in fields {
            let before = field.find(&content).cloned();
            loop {
                match ask(field, before.as_ref()) {
                    Asked::Answered(value) => {
                        remove(&mut content, field);
                        if let Some(value) = value {
                            field.put(&mut content, value);
                        }
                        break;
                    }
                    Asked::Closed => match leave() {
                        Asked::Answered(Some(shown)) => return Asked::Answered(shown),
                        Asked::Answered(None) => {}
                        Asked::Closed => return Asked::Answered(Shown::Cancel),
                        Asked::Interrupted => return Asked::Interrupted,
                    },
                    Asked::Interrupted => return Asked::Interrupted,
                }
            }
        }
        // Enter sends a form with a single field.
        if fields.len() == 1 {
            return Asked::Answered(Shown::Accept(Value::Object(content)));
        }
        match pick("Send it?", vec![SEND, EDIT, DECLINE]) {
            Asked::Answered(EDIT) => {}
            Asked::Answered(SEND) => return Asked::Answered(Shown::Accept(Value::Object(content))),
            Asked::Answered(_) => return Asked::Answered(Shown::Decline),
            Asked::Closed => return Asked::Answered(Shown::Cancel),
            Asked::Interrupted => return Asked::Interrupted,
        }
    }
}

const SEND: &str = "send";
const EDIT: &str = "change something";
const ACCEPT: &str = "yes";
const DECLINE: &str = "decline: I would rather not answer";
const CANCEL: &str = "cancel: close the form";
const BACK: &str = "go back to the form";

/// Asks the user for consent. A form without fields has only a message.
fn confirm() -> Asked<Shown> {
    pick("Agree?", vec![ACCEPT, DECLINE, CANCEL]).map(|answer| match answer {
        ACCEPT => Shown::Accept(Value::Object(Map::new())),
        DECLINE => Shown::Decline,
        _ => Shown::Cancel,
    })
}

/// Asks whether to decline or cancel. Returns `None` if the user returns to the form.
fn leave() -> Asked<Option<Shown>> {
    pick("Leave the form?", vec![DECLINE, CANCEL, BACK]).map(|answer| match answer {
        DECLINE => Some(Shown::Decline),
        CANCEL => Some(Shown::Cancel),
        _ => None,
    })
}

fn remove(content: &mut Map<String, Value>, field: &Field) {
    let Some((name, way)) = field.path.split_last() else { return };
    let mut object = content;
    for part in way {
        let Some(inner) = object.get_mut(part).and_then(Value::as_object_mut) else { return };
        object = inner;
    }
    object.remove(name);
}
