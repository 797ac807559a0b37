//! The rules for names of keys, logs, queues, jobs and topics.
//!
//! A name has 1 to 16 *segments* that are joined by `/`, and at most 256 bytes. A segment consists of ASCII letters,
//! digits and `-`, `_`, `=`, `~`, `:`. Every engine accepts a valid name without escaping. For example, the segments of
//! a name become the tokens of a NATS subject. To use any other text as a name, encode the text with a digest or
//! base64url. A job ID and a queue name have one segment.

use crate::error::{Error, Result};

/// The maximum length of a name in bytes.
pub const MAX_NAME: usize = 256;

/// The maximum number of segments of a name.
pub const MAX_SEGMENTS: usize = 16;

/// Checks a key, a log name or a topic against the [rules for names](self).
pub fn check(name: &str) -> Result<()> {
    problem(name).map_or(Ok(()), |problem| Err(bad(name, problem)))
}

/// Checks the name of a queue, a job ID or the name of a space. Each of these names must have exactly one segment.
pub fn check_segment(name: &str) -> Result<()> {
    if name.contains('/') {
        Err(bad(name, "the name contains `/`, and this kind of name has only one segment"))
    } else {
        check(name)
    }
}

/// Checks the prefix of a listing. A prefix must be empty, or a name followed by `/`.
pub fn check_prefix(prefix: &str) -> Result<()> {
    match prefix.strip_suffix('/') {
        Some(name) => problem(name).map_or(Ok(()), |problem| Err(bad(prefix, problem))),
        None if prefix.is_empty() => Ok(()),
        None => Err(bad(prefix, "a prefix must end with `/`")),
    }
}

fn problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("the name is empty");
    }
    if name.len() > MAX_NAME {
        return Some("the name is longer than 256 bytes");
    }
    let mut segments = 0;
    for segment in name.split('/') {
        segments += 1;
        if segment.is_empty() {
            return Some("the name has an empty segment; write segments as in `a/b`");
        }
        if !segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=~:".contains(&byte)) {
            return Some(
                "the name has a character other than ASCII letters, digits and `-_=~:/`; encode the name, \
                 for example with base64url",
            );
        }
    }
    (segments > MAX_SEGMENTS).then_some("the name has more than 16 segments")
}

fn bad(name: &str, problem: &'static str) -> Error {
    Error::BadName { name: name.chars().take(MAX_NAME).collect(), problem }
}
