//! Converts streams of JSON lines, for example stdio.

use std::{
    fmt,
    io::{Error, ErrorKind, Result},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::weight::{Kind, MAX_PARSED_BYTES, Weight, reject};

/// The maximum length of a converted line, in bytes. The SDK has the same limit, and discards longer lines.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// The maximum number of bytes that one read or write transfers.
const CHUNK: usize = 8 * 1024;
/// The maximum size of an idle buffer, in bytes.
const KEEP: usize = 64 * 1024;

/// A byte stream of JSON lines, which gives the SDK support for the tasks of MCP 2025-11-25. The stream converts
/// incoming messages before the SDK reads them, and outgoing messages after the SDK has written them.
///
/// The stream buffers each line until the line is complete. Lines of more than 16 MiB pass unchanged, in parts.
pub struct Lines<S> {
    stream: S,
    incoming: RewrittenLines,
    outgoing: RewrittenLines,
}

impl<S> Lines<S> {
    /// Wraps the server's end of `stream`.
    ///
    /// If parsing a line would need more memory than [`with_max_parsed_bytes`](Self::with_max_parsed_bytes) allows,
    /// the SDK does not receive the line.
    pub fn server(stream: S) -> Self {
        Self::new(stream, super::server_in, super::server_out).with_max_parsed_bytes(MAX_PARSED_BYTES)
    }

    /// Sets the maximum memory for parsing one incoming line, in bytes. The memory is estimated from the number of JSON
    /// values. A line can always use 8 times its own length, even if 8 times the length is more than the maximum
    /// memory. Default: 8 MiB on the server's end, no limit on the client's end.
    ///
    /// If a request needs more memory than the maximum, the SDK receives a request with the method
    /// [`REJECTED`](super::REJECTED) and the same ID instead. An `antiphon::Server` returns an error for a request
    /// with the method `REJECTED`. If a response needs more memory than the maximum, the SDK receives an error instead
    /// of the response. The stream discards a notification that needs more memory than the maximum.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.incoming.max_parsed = Some(bytes);
        self
    }

    /// Wraps the client's end of `stream`.
    pub fn client(stream: S) -> Self {
        Self::new(stream, super::client_in, super::client_out)
    }

    fn new(stream: S, incoming: Revise, outgoing: Revise) -> Self {
        Self { stream, incoming: RewrittenLines::new(incoming), outgoing: RewrittenLines::new(outgoing) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lines<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let Self { stream, incoming, .. } = self.get_mut();
        loop {
            let ready = incoming.ready();
            if !ready.is_empty() || buf.remaining() == 0 {
                let count = ready.len().min(buf.remaining());
                buf.put_slice(&ready[..count]);
                incoming.give(count);
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                incoming.end();
                if incoming.ready().is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            incoming.take(chunk.filled());
        }
    }
}

impl<S: AsyncWrite + Unpin> Lines<S> {
    /// Writes the converted bytes to the wrapped stream.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let ready = self.outgoing.ready();
            if ready.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, ready))?;
            if count == 0 {
                return Poll::Ready(Err(Error::from(ErrorKind::WriteZero)));
            }
            self.outgoing.give(count);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lines<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        // Accept no new bytes before the earlier bytes are written, so that a slow reader slows down the writer.
        ready!(this.poll_drain(cx))?;
        let taken = &buf[..buf.len().min(CHUNK)];
        this.outgoing.take(taken);
        match this.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        this.outgoing.end();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl<S> fmt::Debug for Lines<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

type Revise = fn(&[u8]) -> Option<Vec<u8>>;

/// The conversion of the lines in one direction of a stream.
struct RewrittenLines {
    revise: Revise,
    /// The maximum memory for parsing a line, in bytes.
    max_parsed: Option<usize>,
    /// The received part of an incomplete line.
    line: Vec<u8>,
    /// Whether the current line is too long. The rest of a line that is too long passes unchanged.
    long: bool,
    /// The converted bytes. `given` is the number of these bytes that were already read.
    ready: Vec<u8>,
    given: usize,
}

impl RewrittenLines {
    fn new(revise: Revise) -> Self {
        Self { revise, max_parsed: None, line: Vec::new(), long: false, ready: Vec::new(), given: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            if self.long {
                self.ready.extend_from_slice(piece);
                self.long = !ends;
            } else if self.line.len() + piece.len() > MAX_LINE {
                self.pass();
                self.ready.extend_from_slice(piece);
                self.long = !ends;
            } else if !ends {
                self.line.extend_from_slice(piece);
            } else if self.line.is_empty() {
                put(&mut self.ready, (self.revise, self.max_parsed), piece);
            } else {
                self.line.extend_from_slice(piece);
                put(&mut self.ready, (self.revise, self.max_parsed), &self.line);
                forget(&mut self.line);
            }
        }
    }

    /// Passes an incomplete last line to the reader, unchanged.
    fn end(&mut self) {
        self.pass();
    }

    fn pass(&mut self) {
        self.ready.extend_from_slice(&self.line);
        forget(&mut self.line);
    }

    fn ready(&self) -> &[u8] {
        &self.ready[self.given..]
    }

    fn give(&mut self, count: usize) {
        self.given += count;
        if self.given == self.ready.len() {
            forget(&mut self.ready);
            self.given = 0;
        }
    }
}

fn put(ready: &mut Vec<u8>, (revise, max_parsed): (Revise, Option<usize>), line: &[u8]) {
    let message = line.strip_suffix(b"\n");
    let too_heavy = message.zip(max_parsed).and_then(|(message, limit)| rejected(message, limit));
    match too_heavy.or_else(|| message.and_then(revise)) {
        Some(revised) => {
            ready.extend_from_slice(&revised);
            ready.push(b'\n');
        }
        None => ready.extend_from_slice(line),
    }
}

/// Returns the replacement for a message that cannot be parsed within `limit` bytes of memory, or `None` if the
/// message is discarded.
fn rejected(message: &[u8], limit: usize) -> Option<Vec<u8>> {
    let too_heavy = Weight::of(message).check(limit).err()?;
    let (kind, error) = reject(message, -32600, &too_heavy.to_string());
    Some(match kind {
        Kind::Request => super::as_request(&error),
        Kind::Response => error,
        Kind::Notification => Vec::new(),
    })
}

/// Clears a buffer, and frees the memory of the buffer if the buffer is large.
fn forget(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEEP);
}
