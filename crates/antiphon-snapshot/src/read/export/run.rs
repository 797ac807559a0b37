//! Encodes the rows of an export to bytes while the reader consumes the bytes.

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

use antiphon_results::{
    DualResponseError,
    snapshot::{ByteRange, Export},
};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::decode::{Decoder, Wanted},
    Encode, Job, part,
};
use crate::{
    error::{Error, Result},
    inner::blocking,
};

/// The approximate number of bytes that the encoder sends to the reader in one part.
const PART: usize = 1024 * 1024;

/// The number of encoded parts that can wait for the reader.
const WAITING: usize = 2;

/// The number of chunks that are encoded concurrently, if chunks are independent. The next chunk is read and decoded
/// while the current chunk is sent.
const AT_ONCE: usize = 2;

pub(super) async fn export(job: Job, range: Option<ByteRange>) -> Result<Export, DualResponseError> {
    let mut total = job.opened.known.of(&job.tag).total;
    let Some(range) = range else {
        let tag = job.tag.clone();
        return Ok(Export::new(tag, total, body(job, 0, u64::MAX)));
    };
    // If chunks are not independent, the whole file would have to be encoded again for every range. So the response is
    // the whole file, without a length.
    if !job.encoder()?.apart() {
        let tag = job.tag.clone();
        return Ok(Export::new(tag, None, body(job, 0, u64::MAX)));
    }
    let job = Arc::new(job);
    // A range response must contain the total length. The first request for a range waits until the length is
    // known.
    if total.is_none() {
        run(&job, u64::MAX, 0, &Sink::Nowhere).await?;
        total = job.opened.known.of(&job.tag).total;
    }
    let total = total.ok_or_else(|| Error::Broken("the length of the export is unknown".into()))?;
    let wanted = part(range, total)?;
    let length = wanted.end - wanted.start;
    let tag = job.tag.clone();
    let body = body(job, wanted.start, length);
    Ok(Export::new(tag, Some(total), body).with_part(wanted.start, Some(length)))
}

/// Returns `length` bytes of the export, starting at the position `skip`. The encoding of the export stops if the
/// returned stream is dropped.
fn body(
    job: impl Into<Arc<Job>>,
    skip: u64,
    length: u64,
) -> stream::BoxStream<'static, Result<Bytes, DualResponseError>> {
    let job = job.into();
    let (parts, taken) = mpsc::channel(WAITING);
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        let ended = run(&job, skip, length, &Sink::Parts(parts.clone())).await;
        if let Err(error) = ended {
            // If the reader has disconnected, the error is discarded.
            let _ = parts.send(Err(error)).await;
        }
    }));
    let next = |(mut taken, task): (mpsc::Receiver<Result<Bytes>>, Option<AbortOnDropHandle<()>>)| async move {
        if let Some(part) = taken.recv().await {
            return Some((part.map_err(DualResponseError::from), (taken, task)));
        }
        // If the task panicked, it sent no error, and the bytes are incomplete.
        let broken = task?.await.err()?;
        Some((Err(DualResponseError::from(Error::Broken(broken.into()))), (taken, None)))
    };
    stream::unfold((taken, Some(task)), next).boxed()
}

/// The destination of the encoded bytes.
enum Sink {
    Nowhere,
    Parts(mpsc::Sender<Result<Bytes>>),
}

/// A writer that sends only a range of the bytes.
struct RangeWriter<'a> {
    sink: &'a Sink,
    /// The position of the next byte in the whole export.
    at: u64,
    /// The number of bytes that are still to be skipped.
    skip: u64,
    /// The number of bytes that are still to be sent.
    left: u64,
}

impl RangeWriter<'_> {
    /// Sends the part of `bytes` that is in the requested range. Returns `Break` if no more bytes are needed.
    async fn give(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        let length = bytes.len() as u64;
        self.at += length;
        let Sink::Parts(parts) = self.sink else { return ControlFlow::Continue(()) };
        let skipped = self.skip.min(length);
        self.skip -= skipped;
        let kept = (length - skipped).min(self.left);
        self.left -= kept;
        if kept > 0 {
            // Invariant: both numbers are at most the length of `bytes`.
            let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            let part = Bytes::from(bytes).slice(place(skipped)..place(skipped + kept));
            if parts.send(Ok(part)).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A chunk that is encoded before the reader needs it. The encoding of the chunk stops if the `Ahead` value is
/// dropped.
struct Ahead {
    number: usize,
    parts: mpsc::Receiver<Vec<u8>>,
    /// The task that encodes the chunk, and returns the encoder for the next chunk.
    task: AbortOnDropHandle<Result<Box<dyn Encode>>>,
}

struct Encoding {
    encoder: Box<dyn Encode>,
    out: Vec<u8>,
    rows: u64,
}

impl Ahead {
    fn start(job: &Arc<Job>, number: usize, encoder: Box<dyn Encode>) -> Self {
        let (given, parts) = mpsc::channel(WAITING);
        let job = Arc::clone(job);
        let task = AbortOnDropHandle::new(tokio::spawn(write(job, number, encoder, given)));
        Self { number, parts, task }
    }
}

/// Writes `length` bytes of the export to `sink`, after the first `skip` bytes. The encoding starts at the last chunk
/// before the requested bytes whose position is known. The function also records the positions at which chunks start in
/// the export.
async fn run(job: &Arc<Job>, skip: u64, length: u64, sink: &Sink) -> Result<()> {
    let (known, tag) = (&job.opened.known, &job.tag);
    let (first, head) = begun(job)?;
    let apart = first.apart();
    let begin = if apart { known.of(tag).before(skip) } else { None };
    let mut cut = RangeWriter { sink, at: 0, skip, left: length };
    let before = match begin {
        Some((number, at)) => {
            (cut.at, cut.skip) = (at, skip - at);
            number
        }
        None if cut.give(head).await.is_break() => return Ok(()),
        None => 0,
    };
    // If chunks are not independent, the same encoder encodes all chunks, one after the other.
    let mut own = Some(first);
    let mut chunks = job.chunks.clone().skip(before);
    let mut ahead = VecDeque::new();
    loop {
        while ahead.len() < if apart { AT_ONCE } else { 1 }
            && let Some(number) = chunks.next()
        {
            let encoder = if apart { None } else { own.take() };
            let encoder = encoder.map_or_else(|| Ok(begun(job)?.0), Ok::<_, Error>)?;
            ahead.push_back(Ahead::start(job, number, encoder));
        }
        let Some(mut chunk) = ahead.pop_front() else { break };
        known.start(tag, chunk.number - job.chunks.start, cut.at);
        while let Some(part) = chunk.parts.recv().await {
            if cut.give(part).await.is_break() {
                return Ok(());
            }
        }
        let encoder = chunk.task.await.map_err(|error| Error::Broken(error.into()))??;
        own.get_or_insert(encoder);
    }
    let mut tail = Vec::new();
    if let Some(mut encoder) = own {
        encoder.tail(&mut tail)?;
    }
    // Record the length before the last bytes are sent, because the reader can request a range immediately after the
    // last bytes.
    known.total(tag, cut.at + tail.len() as u64);
    let _ = cut.give(tail).await;
    Ok(())
}

/// Creates an encoder, writes the head of the export, and returns both.
fn begun(job: &Job) -> Result<(Box<dyn Encode>, Vec<u8>)> {
    let (mut encoder, mut head) = (job.encoder()?, Vec::new());
    encoder.head(&mut head)?;
    Ok((encoder, head))
}

/// Encodes one chunk of the snapshot.
async fn write(
    job: Arc<Job>,
    chunk: usize,
    encoder: Box<dyn Encode>,
    parts: mpsc::Sender<Vec<u8>>,
) -> Result<Box<dyn Encode>> {
    let mut encoding = Encoding { encoder, out: Vec::new(), rows: 0 };
    let mut unread = Some(Decoder::new(&job.inner, &job.opened, &job.columns, Wanted::chunk(chunk)).await?);
    while let Some(decoder) = unread.take() {
        (unread, encoding) = decoder.drive(encoding, encode).await?;
        if unread.is_some() && parts.send(std::mem::take(&mut encoding.out)).await.is_err() {
            return Err(Error::Broken("the reader of the export has disconnected".into()));
        }
    }
    let written = job.opened.starts[chunk + 1] - job.opened.starts[chunk];
    if encoding.rows != written {
        return Err(Error::Altered(format!(
            "the Parquet file is damaged: chunk {chunk} has {} rows, but the footer lists {written} rows",
            encoding.rows
        )));
    }
    encoding = blocking(move || {
        encoding.encoder.chunk(&mut encoding.out)?;
        Ok(encoding)
    })
    .await?;
    // If the reader has disconnected, the last bytes are discarded.
    let _ = parts.send(encoding.out).await;
    Ok(encoding.encoder)
}

fn encode(encoding: &mut Encoding, batch: &RecordBatch) -> Result<ControlFlow<()>> {
    if encoding.out.capacity() == 0 {
        encoding.out.reserve(PART + PART / 2);
    }
    encoding.rows += batch.num_rows() as u64;
    encoding.encoder.batch(batch, &mut encoding.out)?;
    Ok(if encoding.out.len() >= PART { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}
