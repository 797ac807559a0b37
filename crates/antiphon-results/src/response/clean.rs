//! Prepares external text for a model: limits its length and removes invisible characters.

use serde_json::Value;

/// The mark at the end of shortened text.
const CUT: char = '…';

/// Returns at most `limit` characters of the text, without control and invisible characters, and whether the text was
/// shortened.
pub(super) fn text(text: &str, limit: usize) -> (String, bool) {
    let mut clean = String::with_capacity(text.len().min(4 * limit));
    let mut space = false;
    for (taken, character) in text.chars().filter_map(visible).enumerate() {
        if taken >= limit {
            clean.push(CUT);
            return (clean, true);
        }
        // For a model, several spaces have the same meaning as one.
        if character != ' ' || !space {
            clean.push(character);
        }
        space = character == ' ';
    }
    (clean, false)
}

/// Returns a value for the preview, and whether it was shortened. Strings are cleaned. Nested values become strings if
/// they are too long or contain invisible characters.
pub(super) fn value(value: &Value, limit: usize) -> (Value, bool) {
    match value {
        Value::String(string) => {
            let (clean, cut) = text(string, limit);
            (Value::String(clean), cut)
        }
        Value::Array(_) | Value::Object(_) => {
            let json = value.to_string();
            let (clean, cut) = text(&json, limit);
            if cut || clean != json { (Value::String(clean), cut) } else { (value.clone(), false) }
        }
        other => (other.clone(), false),
    }
}

/// Maps line breaks to spaces, and removes invisible characters. These are control characters, marks that change the
/// writing direction, joiners, and tag characters, which can hide text from people.
fn visible(character: char) -> Option<char> {
    match character {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' | '\u{85}' => Some(' '),
        _ if character.is_control() => None,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => None,
        _ => Some(character),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let hidden = "a\u{0}b\u{1b}[31mc\u{202e}d\u{200b}e\u{e0041}f\r\n\tg";
        assert_eq!(text(hidden, 100), ("ab[31mcdef g".into(), false));
    }

    #[test]
    fn text_is_cut_at_a_character() {
        assert_eq!(text("äöü", 3), ("äöü".into(), false));
        assert_eq!(text("äöüß", 3), ("äöü…".into(), true));
        assert_eq!(text("anything", 0), ("…".into(), true));
    }

    #[test]
    fn nested_values_stay_unless_they_are_long_or_hide_something() {
        assert_eq!(value(&json!({"a": [1, 2]}), 20), (json!({"a": [1, 2]}), false));
        assert_eq!(value(&json!([1, 2, 3, 4]), 4), (json!("[1,2…"), true));
        assert_eq!(value(&json!(["\u{202e}x"]), 20), (json!("[\"x\"]"), false));
    }
}
