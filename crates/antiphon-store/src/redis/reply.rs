use bytes::Bytes;
use redis::Value;

use super::fate::odd_reply;
use crate::error::Result;

/// A reader that returns the parts of a reply one after the other.
pub(super) struct Parts(std::vec::IntoIter<Value>);

impl Parts {
    pub(super) fn of(value: Value) -> Result<Self> {
        match value {
            Value::Array(parts) => Ok(Self(parts.into_iter())),
            _ => Err(odd_reply()),
        }
    }

    /// Returns the number of parts of the reply that were not read yet.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes.into()),
            _ => Err(odd_reply()),
        }
    }

    pub(super) fn text(&mut self) -> Result<String> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) => String::from_utf8(bytes).map_err(|_| odd_reply()),
            _ => Err(odd_reply()),
        }
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        self.0.next().ok_or_else(odd_reply).and_then(|value| int(&value))
    }

    pub(super) fn count(&mut self) -> Result<u64> {
        self.0.next().ok_or_else(odd_reply).and_then(|value| count(&value))
    }
}

/// Reads a number that is not negative.
pub(super) fn count(value: &Value) -> Result<u64> {
    int(value).and_then(|value| u64::try_from(value).map_err(|_| odd_reply()))
}

/// Reads a number from a reply. Redis stores some numbers as text.
pub(super) fn int(value: &Value) -> Result<i64> {
    let int = match value {
        Value::Int(int) => Some(*int),
        Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    int.ok_or_else(odd_reply)
}

/// Reads a boolean, which is 1 or 0.
pub(super) fn yes(value: &Value) -> Result<bool> {
    int(value).map(|int| int == 1)
}
