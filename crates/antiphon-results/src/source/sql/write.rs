//! Values as JSON: what the databases have in common.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::BoxError;

/// Anything that JSON has a form for.
pub(super) fn json<T: Serialize + ?Sized>(value: &T, json: &mut Vec<u8>) -> Result<(), BoxError> {
    Ok(serde_json::to_writer(json, value)?)
}

/// Text that needs no escapes, by its nature.
pub(super) fn plain(text: &str, json: &mut Vec<u8>) {
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
}

/// A number with a fraction. JSON has no form for those that are not finite: they are text.
pub(super) fn float(number: f64, json: &mut Vec<u8>) -> Result<(), BoxError> {
    if number.is_finite() {
        return self::json(&number, json);
    }
    not_finite(number, json);
    Ok(())
}

/// A number of half the precision: written as itself, with no digits that it does not have.
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

/// Bytes, in base64.
pub(super) fn bytes(bytes: &[u8], json: &mut Vec<u8>) {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    BASE64_STANDARD.encode_string(bytes, &mut text);
    plain(&text, json);
}

/// Bytes, as PostgreSQL writes them: `\x` and hexadecimal.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(super) fn hex(bytes: &[u8], json: &mut Vec<u8>) -> Result<(), BoxError> {
    self::json(&format!("\\x{}", crate::hex::hex(bytes)), json)
}

/// Bytes from base64.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>, BoxError> {
    Ok(BASE64_STANDARD.decode(text)?)
}

/// JSON that a database vouches for. It breaks lines only between values, where a space will do. Numbers, escapes and
/// depths that databases have and readers refuse would make the whole page unreadable: those are text.
pub(super) fn raw(text: &str, json: &mut Vec<u8>) -> Result<(), BoxError> {
    // A page is three levels above its cells.
    if serde_json::from_str::<serde_json::Value>(&format!("[[[{text}]]]")).is_err() {
        return self::json(text, json);
    }
    json.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    Ok(())
}

/// JSON that nobody vouches for.
pub(super) fn checked(text: &str, json: &mut Vec<u8>) -> Result<(), BoxError> {
    raw(serde_json::from_str::<&RawValue>(text)?.get(), json)
}

/// What `write` writes.
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
