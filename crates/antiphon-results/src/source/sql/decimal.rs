use super::write;
use crate::error::BoxError;

/// Writes a decimal as text with all digits. If `wants_number` is set, and if every JSON reader would preserve all
/// digits, writes a number instead.
pub(super) fn write(text: &str, wants_number: bool, json: &mut Vec<u8>) -> Result<(), BoxError> {
    if wants_number && is_exact(text) {
        json.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    write::json(text, json)
}

/// Returns whether a decimal is a valid JSON number whose digits a 64-bit float preserves. A 64-bit float preserves
/// any decimal with at most 15 digits.
fn is_exact(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let significant = whole.trim_start_matches('0').len() + fraction.trim_end_matches('0').len();
    is_digits(whole) && is_digits(fraction) && (whole == "0" || !whole.starts_with('0')) && significant <= 15
}

#[cfg(test)]
mod tests {
    use super::super::write::written;

    #[test]
    fn decimals_are_numbers_only_where_no_digit_can_be_lost() {
        let check = |text: &str| written(|json| super::write(text, true, json).unwrap());
        for number in ["0", "-0.5", "12.50", "123456789012345", "0.10000000000000000000", "999999999999.125"]
        {
            assert_eq!(check(number), number);
            assert!(serde_json::from_str::<f64>(number).is_ok());
        }
        let text = [
            "1234567890123456",
            "0.1234567890123456",
            "NaN",
            "-Infinity",
            "",
            ".5",
            "5.",
            "007",
            "1e5",
            "-",
            "1000000000000000",
        ];
        for text in text {
            assert_eq!(check(text), format!("{text:?}"));
        }
        assert_eq!(written(|json| super::write("1.5", false, json).unwrap()), "\"1.5\"");
    }
}
