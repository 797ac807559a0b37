//! Converts JSON numbers to text for programs that cannot represent every JSON number exactly. This module converts
//! only numbers that would lose digits in a program with 64-bit integers and floats.
//!
//! A JSON number can have any number of digits, but most readers store it as a 64-bit float. If the number type of a
//! reader would change the value of a number, this module converts the number to text. Rows from a database already
//! contain decimals with many digits as text.

use serde::de::DeserializeOwned;

/// Converts JSON for readers that store every number as a 64-bit float, such as browsers.
///
/// Numbers that a 64-bit float cannot represent become text: for example most integers beyond 2^53, and decimals with
/// many digits. Numbers that a 64-bit float represents exactly stay unchanged.
///
/// ```
/// use antiphon_results::exact;
///
/// assert_eq!(exact::for_floats(r#"{"id":9007199254740993,"n":7}"#), r#"{"id":"9007199254740993","n":7}"#);
/// ```
pub fn for_floats(json: &str) -> String {
    kept(json, is_float)
}

/// Parses JSON for types that store numbers as 64-bit integers or floats, such as [`Value`](serde_json::Value). Numbers
/// that fit into neither a 64-bit integer nor a 64-bit float become text.
///
/// ```
/// use antiphon_results::exact;
/// use serde_json::{Value, json};
///
/// let row: Value = exact::values(r#"{"id":9007199254740993,"price":12345678901234567.89}"#)?;
/// assert_eq!(row, json!({"id": 9_007_199_254_740_993_u64, "price": "12345678901234567.89"}));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if `json` is not valid JSON, or does not match the type `T`.
pub fn values<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(&kept(json, |number| is_whole(number) || is_float(number)))
}

/// Converts each number in `json` for which `survives` returns `false` to text, and returns the converted JSON.
fn kept(json: &str, survives: impl Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find(|letter: char| letter == '"' || letter == '-' || letter.is_ascii_digit()) {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with('"') { text_end(rest) } else { number_end(rest) };
        let (token, after) = rest.split_at(end);
        if token.starts_with('"') || survives(token) {
            kept.push_str(token);
        } else {
            kept.extend(["\"", token, "\""]);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Returns the position in `json` at which the string literal at the start of `json` ends.
fn text_end(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().skip(1).position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => byte == b'"',
    });
    end.map_or(json.len(), |end| end + 2)
}

fn number_end(json: &str) -> usize {
    let more = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.' | 'e' | 'E');
    json.find(|letter| !more(letter)).unwrap_or(json.len())
}

/// Returns whether the number is a 64-bit integer, signed or unsigned.
fn is_whole(number: &str) -> bool {
    number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok()
}

/// Returns whether a 64-bit float represents the number exactly.
fn is_float(number: &str) -> bool {
    // A 64-bit float preserves every number with at most 15 digits. A number with at most 15 characters and without an
    // `e` cannot have a large exponent.
    if number.len() <= 15 && !number.contains(['e', 'E']) {
        return true;
    }
    // Text that is not a number stays unchanged, so that the JSON parser rejects it.
    let Ok(float) = number.parse::<f64>() else { return true };
    float.is_finite() && plain(&format!("{float:e}")) == plain(number)
}

/// Returns `(digits, p)` for a number that is equal to `0.digits * 10^p`. The digits have no leading and no trailing
/// zeros.
fn plain(number: &str) -> Option<(String, i64)> {
    let number = number.strip_prefix('-').unwrap_or(number);
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, part].concat();
    let zeros = digits.bytes().take_while(|byte| *byte == b'0').count();
    let significant = digits[zeros..].trim_end_matches('0').to_owned();
    if significant.is_empty() {
        return Some((significant, 0));
    }
    let exponent: i64 = exponent.parse().ok()?;
    let power = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
    Some((significant, exponent.checked_add(power)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_float_cannot_hold_become_text_and_others_stay() {
        for same in [
            "0",
            "-0.0",
            "0e99999999999",
            "9007199254740992",
            "-9007199254740992",
            "12345678901234.5",
            "1.10000000000000000000",
            "0.30000000000000004",
            "1e21",
            "1000000000000000000000",
            "2.5E-7",
            "0.000000000000000000125",
        ] {
            assert_eq!(for_floats(same), same);
        }
        for lost in [
            "9007199254740993",
            "-9223372036854775807",
            "18446744073709551615",
            "12345678901234567.89",
            "0.1234567890123456789",
            "1e400",
            "1e-400",
            "1e99999999999999999999",
        ] {
            assert_eq!(for_floats(lost), format!("\"{lost}\""));
        }
    }

    #[test]
    fn values_hold_whole_numbers_of_64_bits_and_are_text_for_the_rest() {
        for same in ["-9223372036854775808", "18446744073709551615", "0.1", "1e21", "12345678901234.5"] {
            let value: serde_json::Value = values(same).unwrap();
            assert_eq!(value.to_string().replace("e+", "e"), same);
        }
        for lost in ["18446744073709551616", "-9223372036854775809", "12345678901234567.89", "1e400"] {
            assert_eq!(values::<serde_json::Value>(lost).unwrap(), lost);
        }
        assert!(
            values::<serde_json::Value>("[1-2-3-4-5-6-7-8-9]").is_err(),
            "what is no number is no text either"
        );
    }

    #[test]
    fn what_stands_in_text_is_no_number() {
        let json = r#"[{"9007199254740993":"\"9007199254740993\\","b":9007199254740993,"c":[-1,null,true]}]"#;
        assert_eq!(
            for_floats(json),
            r#"[{"9007199254740993":"\"9007199254740993\\","b":"9007199254740993","c":[-1,null,true]}]"#
        );
        assert_eq!(for_floats(r#""é 9007199254740993"#), r#""é 9007199254740993"#);
    }
}
