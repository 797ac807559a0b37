//! Parses server-sent events from chunks of bytes. A chunk can end at any byte of an event.

use crate::{Error, Result};

/// A server-sent event that contains data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// A parser that combines chunks of bytes into events.
#[derive(Debug)]
pub(super) struct Reader {
    /// The received bytes of an incomplete line.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// Whether the last line ended with a carriage return. If a line feed follows the carriage return, both belong to
    /// the same line end.
    after_return: bool,
    begun: bool,
    limit: usize,
}

impl Reader {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_return: false,
            begun: false,
            limit,
        }
    }

    /// Processes a chunk, and passes each event that the chunk completes to `found`.
    pub(super) fn take(&mut self, chunk: &[u8], mut found: impl FnMut(Event)) -> Result<()> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            let bytes = self.line.len() + self.data.len();
            // The limit allows 16 more bytes, because the name of the field and a space are not part of the message.
            if bytes > self.limit.saturating_add(16) {
                return Err(Error::TooLarge { bytes, limit: self.limit });
            }
            let Some(end) = end else { break };
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if let Some(event) = self.end_line() {
                found(event);
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            let name = if name.is_empty() { "message".to_owned() } else { name };
            return std::mem::take(&mut self.has_data).then_some(Event { name, data });
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // The fields `id` and `retry` are for resumed streams, which this transport does not support. Other lines
            // are comments.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expect: &[(&str, &str)]) {
        for size in 1..=text.len() {
            let mut reader = Reader::new(1_000);
            let mut found = Vec::new();
            for chunk in text.chunks(size) {
                reader.take(chunk, |event| found.push((event.name, event.data))).unwrap();
            }
            let found: Vec<_> = found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(found, expect, "in chunks of {size}");
        }
    }

    #[test]
    fn events_are_the_same_wherever_the_chunks_end() {
        check(b"event: endpoint\ndata: /message?sessionId=1\n\n", &[("endpoint", "/message?sessionId=1")]);
        check(b"\xef\xbb\xbfdata:a\r\rdata: b\r\n\r\n", &[("message", "a"), ("message", "b")]);
        check(b": still here\n\ndata: a\ndata: b\nid: 7\nretry: 1\n\n", &[("message", "a\nb")]);
        check("event: x\n\ndata: \u{e9}\n\n".as_bytes(), &[("message", "\u{e9}")]);
        check(b"data\n\ndata: cut off", &[("message", "")]);
    }

    #[test]
    fn an_event_past_the_limit_is_an_error_before_it_is_whole() {
        let mut reader = Reader::new(100);
        let error = reader.take(&[b'x'; 200], |_| ()).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
        let mut reader = Reader::new(100);
        let lines = "data: 1234567890\n".repeat(20);
        assert!(reader.take(lines.as_bytes(), |_| ()).is_err());
    }
}
