//! Streams of events, as they come in.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::TcpStream;

use anyhow::{Context as _, Result};

/// Moves the data of the next event that has any from `pending` to `data`.
pub(crate) fn take_event(pending: &mut Vec<u8>, data: &mut Vec<u8>) -> bool {
    data.clear();
    while let Some(end) = pending.windows(2).position(|it| it == b"\n\n") {
        for line in pending[..end].split(|byte| *byte == b'\n') {
            if let Some(value) = line.strip_prefix(b"data:") {
                data.extend_from_slice(value.trim_ascii());
            }
        }
        pending.drain(..end + 2);
        if !data.is_empty() {
            return true;
        }
    }
    false
}

/// Adds one chunk of a chunked body to `body`.
pub(crate) fn read_chunk(from: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Result<()> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim(), 16)
        .with_context(|| format!("`{}` is no size of a chunk", line.trim()))?;
    if size == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof)).context("the stream of events ended");
    }
    let start = body.len();
    body.resize(start + size + 2, 0);
    from.read_exact(&mut body[start..])?;
    body.truncate(start + size);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_one_by_one_and_comments_passed_over() {
        let mut pending = b": still here\n\nevent: message\ndata: {1}\n\ndata:{2}\n\ndata: {3".to_vec();
        let mut data = Vec::new();
        assert!(take_event(&mut pending, &mut data) && data == b"{1}");
        assert!(take_event(&mut pending, &mut data) && data == b"{2}");
        assert!(!take_event(&mut pending, &mut data));
        assert_eq!(pending, b"data: {3");
    }
}
