//! Counts the received bytes of an incomplete message.

use std::{
    error::Error as StdError,
    fmt,
    io::{Error, ErrorKind, Result},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::weight::{MemoryBudget, Share};

/// The number of bytes of an incomplete message that a connection can receive before the connection uses the memory
/// budget. A small incomplete message therefore uses no memory of the budget.
const FREE: usize = 16 * 1024;

/// A meter that counts the bytes that were received since the last complete message. A clone of a `Meter` is a handle
/// to the same meter.
#[derive(Clone, Debug)]
pub(super) struct Meter(Arc<Mutex<Received>>);

#[derive(Debug)]
struct Received {
    bytes: usize,
    share: Option<Share>,
    budget: MemoryBudget,
}

impl Meter {
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self(Arc::new(Mutex::new(Received { bytes: 0, share: None, budget: budget.clone() })))
    }

    /// Resets the meter after a complete message.
    pub(super) fn reset(&self) {
        let mut received = self.received();
        (received.bytes, received.share) = (0, None);
    }

    /// Subtracts the bytes of a control frame from the number of received bytes, because a control frame is not a part
    /// of a message. `length` is the length of the control frame's payload.
    pub(super) fn forget(&self, length: usize) {
        // A frame has a header of two bytes and a mask of four.
        let mut received = self.received();
        received.bytes = received.bytes.saturating_sub(length + 6);
    }

    /// Counts `count` received bytes. Returns whether the budget has memory for these bytes.
    fn add(&self, count: usize) -> bool {
        let mut received = self.received();
        received.bytes += count;
        let bytes = received.bytes;
        if bytes <= FREE {
            return true;
        }
        if let Some(share) = &mut received.share {
            return share.grow(bytes);
        }
        received.share = received.budget.take(bytes);
        received.share.is_some()
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error that a read returns if the budget has no memory for the received bytes.
#[derive(Debug)]
pub(super) struct NoRoom;

impl NoRoom {
    pub(super) fn has_caused(error: &Error) -> bool {
        matches!(error.get_ref(), Some(cause) if cause.is::<Self>())
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages take too much memory at once")
    }
}

impl StdError for NoRoom {}

/// A stream that reads only while the memory budget has memory left.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Meter) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let Self { stream, meter } = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buf))?;
        let has_room = meter.add(buf.filled().len() - before);
        Poll::Ready(if has_room { Ok(()) } else { Err(Error::new(ErrorKind::OutOfMemory, NoRoom)) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
