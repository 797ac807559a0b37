//! Reads from one WebSocket connection, writes to the connection, and closes the connection.
//!
//! The caller of `next` reads from the connection, and a Tokio task writes to the connection. Reading and writing
//! never wait for each other, so two peers that both send a lot of data cannot deadlock.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        protocol::{CloseFrame, Role, WebSocketConfig as Frames, frame::coding::CloseCode},
    },
};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "websocket-server")]
use super::metered::{Meter, NoRoom};
#[cfg(feature = "websocket-server")]
use crate::weight::{MemoryBudget, Share};
use crate::{Error, Result};

/// The maximum number of messages that one write sends.
const BATCH: usize = 32;
/// The maximum number of bytes that this side reads and discards after the connection has ended. Without these reads,
/// the peer would possibly not receive the close code and the reason.
const LINGER_BYTES: u64 = 16 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

/// The limits of a WebSocket connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) message_bytes: usize,
    pub(super) queue: usize,
    pub(super) ping: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) stall: Duration,
}

/// The close code and the reason that the peer receives when the connection closes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Farewell {
    code: CloseCode,
    reason: &'static str,
    /// Whether frames of the peer can no longer be parsed. All further bytes of the peer are then discarded.
    raw: bool,
}

impl Farewell {
    pub(super) const DONE: Self = Self::new(CloseCode::Normal, "");
    #[cfg(feature = "websocket-server")]
    pub(super) const AWAY: Self = Self::new(CloseCode::Away, "the server closes the connection");
    #[cfg(feature = "websocket-server")]
    pub(super) const EXPIRED: Self = Self::new(CloseCode::Policy, "the credentials are no longer valid");
    const UNSERVED: Self = Self::new(CloseCode::Policy, "the server ended the connection");
    const SILENT: Self = Self::new(CloseCode::Away, "no data was received for too long");
    const BINARY: Self = Self::new(CloseCode::Unsupported, "send JSON in text frames");
    const TOO_LARGE: Self = Self { raw: true, ..Self::new(CloseCode::Size, "the message is too large") };
    const NOT_UTF8: Self = Self { raw: true, ..Self::new(CloseCode::Invalid, "the text is not UTF-8") };
    /// In the registry of close codes (RFC 6455), the code `Again` (1013) means: try again later.
    #[cfg(feature = "websocket-server")]
    const BUSY: Self =
        Self { raw: true, ..Self::new(CloseCode::Again, "messages take too much memory at once") };
    const BROKEN: Self =
        Self { raw: true, ..Self::new(CloseCode::Protocol, "the WebSocket frames are not valid") };

    const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code, reason, raw: false }
    }

    /// Returns the close code and the reason for a failed read, or `None` if the peer has disconnected.
    fn after(error: &tungstenite::Error) -> Option<Self> {
        match error {
            tungstenite::Error::Capacity(_) => Some(Self::TOO_LARGE),
            tungstenite::Error::Utf8(_) => Some(Self::NOT_UTF8),
            tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
                None
            }
            tungstenite::Error::Protocol(_) => Some(Self::BROKEN),
            #[cfg(feature = "websocket-server")]
            tungstenite::Error::Io(error) if NoRoom::has_caused(error) => Some(Self::BUSY),
            _ => None,
        }
    }
}

type Reader<S> = SplitStream<WebSocketStream<S>>;
type Writer<S> = SplitSink<WebSocketStream<S>, Message>;

/// The close code, and the reading half of the WebSocket, which is needed to complete the close handshake.
type Ending<S> = (Option<Farewell>, Reader<S>);

/// A WebSocket connection with one JSON text per frame.
pub(super) struct Connection<S> {
    /// The reading half of the WebSocket. The field `reader` is `None` after the connection has ended.
    reader: Option<(Reader<S>, oneshot::Sender<Ending<S>>)>,
    writer: Option<JoinHandle<()>>,
    outbox: Outbox,
    shared: Arc<Shared>,
    /// The close code and the reason that the peer receives if this program drops the connection without closing it.
    dropped: Farewell,
    #[cfg(feature = "websocket-server")]
    meter: Option<Meter>,
}

/// The queue from which the writing task sends messages.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Queued>,
    stall: Duration,
    /// The memory budget, and the token that ends the connection if the budget is used up.
    #[cfg(feature = "websocket-server")]
    budget: Option<(MemoryBudget, CancellationToken)>,
}

/// A queued text, and the share of the memory budget that the text uses.
#[derive(Debug)]
struct Queued {
    text: String,
    #[cfg(feature = "websocket-server")]
    _share: Option<Share>,
}

impl Outbox {
    /// Waits for a place in the queue, and adds a text to the queue.
    ///
    /// # Cancel safety
    ///
    /// If the future of `send` is dropped, the text is not sent.
    pub(super) async fn send(&self, text: impl FnOnce() -> Result<String>) -> Result<()> {
        // The writing task gives up after `stall` and closes the queue. In this case, this call fails.
        let place = self.queue.reserve().await.map_err(|_| Error::Closed)?;
        let text = text()?;
        #[cfg(feature = "websocket-server")]
        let share = self.share(text.len()).await?;
        place.send(Queued {
            text,
            #[cfg(feature = "websocket-server")]
            _share: share,
        });
        Ok(())
    }

    /// Takes memory for a text from the budget. If not enough memory is available in time, the connection ends. The
    /// connection also ends if the peer does not read its messages.
    #[cfg(feature = "websocket-server")]
    async fn share(&self, bytes: usize) -> Result<Option<Share>> {
        let Some((budget, over)) = &self.budget else { return Ok(None) };
        let share = budget.take_within(bytes, self.stall).await;
        if share.is_none() {
            tracing::warn!(stall = ?self.stall, "a WebSocket connection is closed: the memory for messages was used up for too long");
            over.cancel();
            return Err(Error::Stalled(self.stall));
        }
        Ok(share)
    }
}

struct Shared {
    /// The token that ends the connection. The writing task cancels this token if a write fails, if the peer is silent
    /// for too long, and when the writing task ends. The outbox cancels this token if it waits too long for memory.
    over: CancellationToken,
    start: Instant,
    /// The time of the last received data, in milliseconds after `start`.
    heard: AtomicU64,
}

impl Shared {
    fn hear(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    fn silent(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.heard.load(Ordering::Relaxed)))
    }
}

impl<S> Connection<S>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    /// Creates the connection from `stream`, on which the WebSocket handshake is complete.
    pub(super) async fn new(stream: S, role: Role, limits: Limits) -> Self {
        let frames = Frames::default()
            // The read buffer is small, because every idle connection keeps its read buffer in memory.
            .read_buffer_size(16 * 1024)
            .write_buffer_size(64 * 1024)
            .max_frame_size(Some(limits.message_bytes))
            .max_message_size(Some(limits.message_bytes));
        let socket = WebSocketStream::from_raw_socket(stream, role, Some(frames)).await;
        let (writer, reader) = socket.split();
        let (queue, queued) = mpsc::channel(limits.queue.max(1));
        let (end, ended) = oneshot::channel();
        let shared = Arc::new(Shared {
            over: CancellationToken::new(),
            start: Instant::now(),
            heard: AtomicU64::new(0),
        });
        let task = Task { writer, queued, limits, shared: Arc::clone(&shared) };
        Self {
            reader: Some((reader, end)),
            writer: Some(tokio::spawn(task.run(ended))),
            outbox: Outbox {
                queue,
                stall: limits.stall,
                #[cfg(feature = "websocket-server")]
                budget: None,
            },
            shared,
            dropped: if role == Role::Server { Farewell::UNSERVED } else { Farewell::DONE },
            #[cfg(feature = "websocket-server")]
            meter: None,
        }
    }

    /// Sets the memory budget for queued messages, and the meter for received bytes.
    #[cfg(feature = "websocket-server")]
    pub(super) fn within(mut self, budget: &MemoryBudget, meter: &Meter) -> Self {
        self.outbox.budget = Some((budget.clone(), self.shared.over.clone()));
        self.meter = Some(meter.clone());
        self
    }

    pub(super) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Returns the next text that the peer has sent, or `None` after the connection has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future of `next` is dropped, no message is lost.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let (reader, _) = self.reader.as_mut()?;
            let frame = tokio::select! {
                biased;
                () = self.shared.over.cancelled() => {
                    self.end(None);
                    return None;
                }
                frame = reader.next() => frame,
            };
            self.shared.hear();
            match frame {
                Some(Ok(Message::Text(text))) => return Some(text.into()),
                Some(Ok(Message::Binary(_))) => self.end(Some(Farewell::BINARY)),
                // The WebSocket library answers these frames.
                Some(Ok(control @ (Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {
                    #[cfg(feature = "websocket-server")]
                    if let Some(meter) = &self.meter {
                        meter.forget(control.len());
                    }
                    #[cfg(not(feature = "websocket-server"))]
                    drop(control);
                }
                Some(Ok(Message::Close(_))) | None => self.end(None),
                Some(Err(error)) => {
                    tracing::debug!(%error, "a WebSocket connection failed");
                    self.end(Farewell::after(&error));
                }
            }
        }
    }

    /// Starts to close the connection. The writing task sends queued messages first, then the close frame. A second
    /// call of `end` has no effect.
    pub(super) fn end(&mut self, farewell: Option<Farewell>) {
        if let Some((reader, end)) = self.reader.take() {
            let _ = end.send((farewell, reader));
        }
    }

    /// Closes the connection, and waits for the close handshake for a limited time.
    pub(super) async fn close(&mut self, farewell: Farewell) {
        self.end(Some(farewell));
        if let Some(writer) = self.writer.take() {
            let _ = timeout(self.outbox.stall + LINGER, writer).await;
        }
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        if let Some((reader, end)) = self.reader.take() {
            let _ = end.send((Some(self.dropped), reader));
        }
    }
}

impl<S> fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("open", &self.reader.is_some()).finish_non_exhaustive()
    }
}

/// The Tokio task that writes to the connection.
struct Task<S> {
    writer: Writer<S>,
    queued: mpsc::Receiver<Queued>,
    limits: Limits,
    shared: Arc<Shared>,
}

impl<S> Task<S>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    async fn run(mut self, mut ended: oneshot::Receiver<Ending<S>>) {
        let verdict = self.write(&mut ended).await;
        let (mut farewell, reader) = match verdict {
            Ok(ending) => ending,
            Err(farewell) => {
                // After the token is cancelled, the current or next call of `next` passes the reading half of the
                // WebSocket to this task.
                self.shared.over.cancel();
                self.queued.close();
                match ended.await {
                    Ok((_, reader)) => (farewell, reader),
                    Err(_) => return,
                }
            }
        };
        self.queued.close();
        if farewell.is_some() && self.drain().await.is_err() {
            farewell = None;
        }
        self.shared.over.cancel();
        if let Ok(socket) = self.writer.reunite(reader) {
            let _ = timeout(LINGER, part(socket, farewell)).await;
        }
    }

    /// Writes messages until the connection ends. Returns an error if this task was the first to detect the end of the
    /// connection.
    async fn write(
        &mut self,
        ended: &mut oneshot::Receiver<Ending<S>>,
    ) -> Result<Ending<S>, Option<Farewell>> {
        let period = self.limits.ping.unwrap_or(Duration::from_secs(3600));
        let mut tick = interval_at(Instant::now() + period, period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                ending = &mut *ended => return ending.map_err(|_| None),
                count = self.queued.recv_many(&mut batch, BATCH) => {
                    // All outboxes and the connection are dropped, so `ended` resolves next.
                    if count == 0 {
                        return (&mut *ended).await.map_err(|_| None);
                    }
                    self.send(batch.drain(..)).await?;
                }
                _ = tick.tick() => {
                    if self.limits.idle.is_some_and(|idle| self.shared.silent() > idle) {
                        return Err(Some(Farewell::SILENT));
                    }
                    if self.limits.ping.is_some() {
                        let stall = self.limits.stall;
                        in_time(stall, self.writer.send(Message::Ping(Bytes::new()))).await?;
                    }
                }
            }
        }
    }

    /// Sends the messages that are in the queue.
    async fn drain(&mut self) -> Result<(), Option<Farewell>> {
        let mut rest = Vec::new();
        while let Some(text) = self.queued.recv().await {
            rest.push(text);
        }
        if rest.is_empty() { Ok(()) } else { self.send(rest.into_iter()).await }
    }

    async fn send(&mut self, queued: impl Iterator<Item = Queued> + Send) -> Result<(), Option<Farewell>> {
        let stall = self.limits.stall;
        for queued in queued {
            in_time(stall, self.writer.feed(Message::text(queued.text))).await?;
        }
        in_time(stall, self.writer.flush()).await
    }
}

/// Waits for a write to complete. If the peer does not read, this function waits for at most the time `stall`.
async fn in_time(
    stall: Duration,
    write: impl Future<Output = Result<(), tungstenite::Error>>,
) -> Result<(), Option<Farewell>> {
    match timeout(stall, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a WebSocket connection cannot be written to");
            Err(None)
        }
        Err(_) => {
            let error = Error::Stalled(stall);
            tracing::warn!(%error, "a WebSocket connection is closed");
            Err(None)
        }
    }
}

/// Sends the close frame, and reads until the peer has received the close frame. If the socket were closed with unread
/// bytes, the connection would be reset. A reset could discard the close frame before the peer reads the frame.
async fn part<S>(mut socket: WebSocketStream<S>, farewell: Option<Farewell>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let Some(Farewell { code, reason, raw }) = farewell else {
        // The peer closed the connection first, or has disconnected. The WebSocket library can still have a reply that
        // is not sent yet.
        let _ = socket.flush().await;
        return;
    };
    if socket.close(Some(CloseFrame { code, reason: reason.into() })).await.is_err() {
        return;
    }
    if raw {
        let _ = tokio::io::AsyncWriteExt::shutdown(socket.get_mut()).await;
        let _ = tokio::io::copy(&mut socket.get_mut().take(LINGER_BYTES), &mut tokio::io::sink()).await;
    } else {
        let mut left = LINGER_BYTES;
        while let Some(Ok(message)) = socket.next().await {
            left = left.saturating_sub(message.len() as u64);
            if left == 0 {
                break;
            }
        }
    }
}
