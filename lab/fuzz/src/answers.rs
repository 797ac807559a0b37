//! What a server asks in a form, and what is typed there: the command's own reading of both.

use serde_json::{Map, Value};

use self::field::{Field, Kind, check, check_count};

#[path = "../../../crates/antiphon-cli/src/person/field/mod.rs"]
mod field;

/// The first line is a form's schema, each other line what somebody types into every field.
pub fn answers(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let Some(Ok(schema)) = lines.next().map(serde_json::from_str::<Value>) else { return };
    let fields = Field::all(&schema);
    let typed: Vec<&str> = lines.collect();
    let mut answer = Map::new();
    for field in &fields {
        shown(field);
        for text in &typed {
            if let Ok(value) = check(&field.kind, text) {
                field.put(&mut answer, value.clone());
                assert_eq!(field.find(&answer), Some(&value), "what was put is found");
                assert!(!field.is_missing(&answer), "and is not missing");
            }
        }
        let _ = check_count(&field.kind, typed.len());
    }
}

/// All that is shown of a field.
fn shown(field: &Field) {
    let example = field.default.clone().unwrap_or_else(|| field.kind.example());
    let mut answer = Map::new();
    field.put(&mut answer, example);
    assert!(field.is_in(&answer));
    let words =
        [field.name(), field.title.clone(), field.kind.describe(), field.kind.placeholder().to_owned()];
    assert!(
        words.iter().chain(&field.description).all(|words| words.len() < 1 << 20),
        "nobody reads so much"
    );
    if let Kind::Choice(choices) = &field.kind {
        for choice in choices {
            let _ = check(&field.kind, &choice.word());
            let _ = check(&field.kind, &choice.title);
        }
    }
    let _ = field.is_required();
}
