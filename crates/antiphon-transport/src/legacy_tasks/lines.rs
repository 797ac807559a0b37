//! Streams of JSON lines.

use std::{
    fmt,
    io::{Error, ErrorKind, Result},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::weight::{Kind, MAX_PARSED_BYTES, Weight, reject};

/// The longest line that is looked at, as the SDK has it: what is longer it throws away.
const MAX_LINE: usize = 16 * 1024 * 1024;
/// How much is read or taken at a time.
const CHUNK: usize = 8 * 1024;
/// How much memory is kept between lines.
const KEEP: usize = 64 * 1024;

/// A stream of bytes whose lines are revised, each way: what the SDK reads from it and writes to it.
///
/// A line is held back until it is whole; one of more than 16 MiB passes unchanged, in pieces.
pub struct Lines<S> {
    stream: S,
    incoming: RewrittenLines,
    outgoing: RewrittenLines,
}

impl<S> Lines<S> {
    /// The server's end of `stream`.
    ///
    /// A line whose parsing would take too much memory is not passed on: see
    /// [`with_max_parsed_bytes`](Self::with_max_parsed_bytes).
    pub fn server(stream: S) -> Self {
        Self::new(stream, super::server_in, super::server_out).with_max_parsed_bytes(MAX_PARSED_BYTES)
    }

    /// Sets the most memory that parsing one incoming line takes, in bytes, estimated from the number of JSON values in
    /// it. Default: 8 MiB on the server's end, no limit on the client's. A line can always take 8 times its own length.
    ///
    /// Instead of a request that needs more, the SDK reads [`REJECTED`](super::REJECTED), a request with the same id
    /// that an `antiphon::Server` answers with an error. Instead of an answer, it reads an error; instead of a
    /// notification, nothing.
    #[must_use]
    pub fn with_max_parsed_bytes(mut self, bytes: usize) -> Self {
        self.incoming.max_parsed = Some(bytes);
        self
    }

    /// The client's end of `stream`.
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
    /// Writes what is ready.
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
        // Who reads slowly is written to slowly: nothing is taken before what was taken has gone.
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

/// One direction of a stream.
struct RewrittenLines {
    revise: Revise,
    /// The most memory that parsing a line takes.
    max_parsed: Option<usize>,
    /// The line that has begun.
    line: Vec<u8>,
    /// Whether it has become too long: the rest of it passes as it is.
    long: bool,
    /// What goes on, and how much of it is gone.
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

    /// Lets go of a line that nobody will end.
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

/// What the SDK reads instead of a message that it could not parse within `limit` bytes of memory.
fn rejected(message: &[u8], limit: usize) -> Option<Vec<u8>> {
    let too_heavy = Weight::of(message).check(limit).err()?;
    let (kind, error) = reject(message, -32600, &too_heavy.to_string());
    Some(match kind {
        Kind::Request => super::as_request(&error),
        Kind::Response => error,
        Kind::Notification => Vec::new(),
    })
}

/// Empties a buffer; one that has grown large is given back.
fn forget(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEEP);
}
