//! Writes values as JSON, with code that all databases share.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::BoxError;

/// Writes any value that serializes to JSON.
pub(super) fn json<T: Serialize + ?Sized>(value: &T, json: &mut Vec<u8>) -> Result<(), BoxError> {
    Ok(serde_json::to_writer(json, value)?)
}

/// Writes text that never needs escapes.
pub(super) fn plain(text: &str, json: &mut Vec<u8>) {
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
}

/// Writes a 64-bit float. Float values that are not finite become text, because JSON has no numbers for these values.
pub(super) fn float(number: f64, json: &mut Vec<u8>) -> Result<(), BoxError> {
    if number.is_finite() {
        return self::json(&number, json);
    }
    not_finite(number, json);
    Ok(())
}

/// Writes a 32-bit float with the digits of the 32-bit number. A conversion of the number to 64 bits would add digits.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn short_float(number: f32, json: &mut Vec<u8>) -> Result<(), BoxError> {
    if number.is_finite() {
        return self::json(&number, json);
    }
    not_finite(number.into(), json);
    Ok(())
}

fn not_finite(number: f64, json: &mut Vec<u8>) {
    let text = match number {
        _ if number.is_nan() => "NaN",
        _ if number > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    plain(text, json);
}

/// Writes bytes as base64.
pub(super) fn bytes(bytes: &[u8], json: &mut Vec<u8>) {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    BASE64_STANDARD.encode_string(bytes, &mut text);
    plain(&text, json);
}

/// Writes bytes in the format of PostgreSQL: `\x` and hexadecimal digits.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(super) fn hex(bytes: &[u8], json: &mut Vec<u8>) -> Result<(), BoxError> {
    self::json(&format!("\\x{}", crate::hex::hex(bytes)), json)
}

/// Decodes bytes from base64.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>, BoxError> {
    Ok(BASE64_STANDARD.decode(text)?)
}

/// Writes JSON that the database has validated. Line breaks in this JSON occur only between values, and are replaced
/// by spaces. If JSON readers would reject the value because of its number range, its escapes or its depth, the value
/// becomes text. Without the conversion to text, a single value could make the whole page unreadable.
pub(super) fn raw(text: &str, json: &mut Vec<u8>) -> Result<(), BoxError> {
    // A cell is nested three levels deep in a page.
    if serde_json::from_str::<serde_json::Value>(&format!("[[[{text}]]]")).is_err() {
        return self::json(text, json);
    }
    json.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    Ok(())
}

/// Writes JSON that the database has not validated.
pub(super) fn checked(text: &str, json: &mut Vec<u8>) -> Result<(), BoxError> {
    raw(serde_json::from_str::<&RawValue>(text)?.get(), json)
}

/// Returns the output of `write`.
#[cfg(test)]
pub(super) fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut json = Vec::new();
    write(&mut json);
    String::from_utf8(json).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_kept_as_it_is_but_for_line_breaks() {
        let text = "{\"b\" : 1.10,\r\n \"a\": 12345678901234567890.5, \"n\": \"\\n\"}";
        assert_eq!(
            written(|json| checked(text, json).unwrap()),
            "{\"b\" : 1.10,   \"a\": 12345678901234567890.5, \"n\": \"\\n\"}"
        );
        assert!(checked("{\"a\":1} x", &mut Vec::new()).is_err());
        assert!(checked("{'a':1}", &mut Vec::new()).is_err());
    }
}
