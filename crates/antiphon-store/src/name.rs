//! What may name a key, a log, a queue, a job or a topic.
//!
//! A name has one to sixteen *segments* of ASCII letters, digits and `-`, `_`, `=`, `~`, `:`, joined by
//! `/`, and is at most 256 bytes long. Every engine can take such a name as it is: NATS turns the
//! segments into the tokens of a subject, and nothing has to be escaped. Text from outside goes through a
//! digest or base64url first. A job id and a queue's name have one segment.

use crate::error::{Error, Result};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 256;

/// The most segments of a name.
pub const MAX_SEGMENTS: usize = 16;

/// Checks a key, a log's name or a topic.
pub fn check(name: &str) -> Result<()> {
    problem(name).map_or(Ok(()), |problem| Err(bad(name, problem)))
}

/// Checks a queue's name, a job's id or a space: a name of one segment.
pub fn check_segment(name: &str) -> Result<()> {
    if name.contains('/') { Err(bad(name, "it has more than one segment")) } else { check(name) }
}

/// Checks what a listing may begin with: nothing, or a name followed by `/`.
pub fn check_prefix(prefix: &str) -> Result<()> {
    match prefix.strip_suffix('/') {
        Some(name) => problem(name).map_or(Ok(()), |problem| Err(bad(prefix, problem))),
        None if prefix.is_empty() => Ok(()),
        None => Err(bad(prefix, "a prefix ends with `/`, for it is made of whole segments")),
    }
}

fn problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > MAX_NAME {
        return Some("it is longer than 256 bytes");
    }
    let mut segments = 0;
    for segment in name.split('/') {
        segments += 1;
        if segment.is_empty() {
            return Some("it has an empty segment");
        }
        if !segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=~:".contains(&byte)) {
            return Some(
                "it has a character other than letters, digits and `-_=~:/`; encode it, in base64url for example",
            );
        }
    }
    (segments > MAX_SEGMENTS).then_some("it has more than 16 segments")
}

fn bad(name: &str, problem: &'static str) -> Error {
    Error::BadName { name: name.chars().take(MAX_NAME).collect(), problem }
}
