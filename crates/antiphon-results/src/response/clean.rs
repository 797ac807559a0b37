//! Prepares external text for a model: limits its length and removes invisible characters.

pub(super) use antiphon_transport::text::clean as text;
use serde_json::Value;

/// Returns a value for the preview, and whether the value was shortened. Strings are shortened, and lose their
/// invisible characters. Nested values become strings if they are too long or contain invisible characters.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_values_stay_unless_they_are_long_or_hide_something() {
        assert_eq!(value(&json!({"a": [1, 2]}), 20), (json!({"a": [1, 2]}), false));
        assert_eq!(value(&json!([1, 2, 3, 4]), 4), (json!("[1,2…"), true));
        assert_eq!(value(&json!(["\u{202e}x"]), 20), (json!("[\"x\"]"), false));
    }
}
