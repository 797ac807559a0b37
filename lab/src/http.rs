//! As much HTTP/1.1 as a load generator and a proxy on loopback need.

use std::io::{self, BufRead, Write};

/// A request or a response, read whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Message {
    /// The request line or the status line.
    pub start: String,
    /// Header names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, with chunked coding undone.
    pub body: Vec<u8>,
}

impl Message {
    /// A POST of JSON to `/mcp`.
    pub(crate) fn post(host: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Self {
        let fixed = [
            ("host", host),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let headers =
            fixed.iter().chain(headers).map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { start: "POST /mcp HTTP/1.1".into(), headers, body }
    }

    /// The status code of a response; 0 for a request.
    pub(crate) fn status(&self) -> u16 {
        let mut words = self.start.split(' ');
        match words.next() {
            Some(version) if version.starts_with("HTTP/") => {
                words.next().and_then(|code| code.parse().ok()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// The value of a header whose name is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// Whether the sender closes the connection after this message.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The bytes on the wire, always with a `content-length`.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\r\n", self.start).into_bytes();
        for (name, value) in &self.headers {
            if name != "content-length" && name != "transfer-encoding" {
                bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        }
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it in one write, so that no part waits for an acknowledgement.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.to_bytes())
    }

    /// Reads the next message; `None` when the peer closed between two messages.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(start) = read_line(from)? else { return Ok(None) };
        let mut message = Self { start, ..Self::default() };
        loop {
            let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header has no colon"))?;
            message.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        message.body = message.read_body(from)?;
        Ok(Some(message))
    }

    fn read_body(&self, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            loop {
                let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let digits = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(digits, 16).map_err(|_| invalid("a chunk has no size"))?;
                read_exactly(from, size, &mut body)?;
                let _ = read_line(from)?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = self.header("content-length") {
            let length = length.parse().map_err(|_| invalid("content-length is no number"))?;
            read_exactly(from, length, &mut body)?;
        } else if self.status() >= 200 && !matches!(self.status(), 204 | 304) {
            from.read_to_end(&mut body)?;
        }
        Ok(body)
    }
}

fn read_exactly(from: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let start = body.len();
    body.resize(start + length, 0);
    from.read_exact(&mut body[start..])
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(Some(line))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let message = Message::post("h", &[("x", "1")], b"{}".to_vec());
        let bytes = [message.to_bytes(), message.to_bytes()].concat();
        let mut bytes = bytes.as_slice();
        let first = Message::read(&mut bytes).unwrap().unwrap();
        assert_eq!((first.header("x"), first.body.as_slice()), (Some("1"), b"{}".as_slice()));
        assert!(Message::read(&mut bytes).unwrap().is_some());
        assert_eq!(Message::read(&mut bytes).unwrap(), None);
    }

    #[test]
    fn chunks_are_joined() {
        let mut bytes =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n"
                .as_slice();
        let message = Message::read(&mut bytes).unwrap().unwrap();
        assert_eq!((message.status(), message.body.as_slice()), (200, b"abcd".as_slice()));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_response_cut_short_is_an_error() {
        let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".as_slice();
        assert!(Message::read(&mut bytes).is_err());
        let mut bytes = b"HTTP/1.1 200".as_slice();
        assert!(Message::read(&mut bytes).is_err());
    }
}
