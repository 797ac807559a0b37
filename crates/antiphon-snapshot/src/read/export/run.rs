//! Rows into bytes, while somebody takes them.

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

/// How many bytes are given away at a time, about.
const PART: usize = 1024 * 1024;

/// How many parts wait for whoever takes them.
const WAITING: usize = 2;

/// How many chunks are written at once, where one does not need those before it: the next is read and unpacked while
/// one is given away.
const AT_ONCE: usize = 2;

pub(super) async fn export(job: Job, range: Option<ByteRange>) -> Result<Export, DualResponseError> {
    let mut total = job.opened.known.of(&job.tag).total;
    let Some(range) = range else {
        let tag = job.tag.clone();
        return Ok(Export::new(tag, total, body(job, 0, u64::MAX)));
    };
    // Where no chunk can be written without those before it, each part would take the whole to be written once more.
    // Whoever asks for one is given all of it, of a length that is not told.
    if !job.encoder()?.apart() {
        let tag = job.tag.clone();
        return Ok(Export::new(tag, None, body(job, 0, u64::MAX)));
    }
    let job = Arc::new(job);
    // Who asks for a part must be told of how much it is one. The first who does waits until that is known.
    if total.is_none() {
        run(&job, u64::MAX, 0, &Sink::Nowhere).await?;
        total = job.opened.known.of(&job.tag).total;
    }
    let total = total.ok_or_else(|| Error::Broken("a whole pass gives the length".into()))?;
    let wanted = part(range, total)?;
    let length = wanted.end - wanted.start;
    let tag = job.tag.clone();
    let body = body(job, wanted.start, length);
    Ok(Export::new(tag, Some(total), body).with_part(wanted.start, Some(length)))
}

/// So many bytes from `skip` on. Dropped, it stops.
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
            // Nobody to be told is nobody to be told.
            let _ = parts.send(Err(error)).await;
        }
    }));
    let next = |(mut taken, task): (mpsc::Receiver<Result<Bytes>>, Option<AbortOnDropHandle<()>>)| async move {
        if let Some(part) = taken.recv().await {
            return Some((part.map_err(DualResponseError::from), (taken, task)));
        }
        // A task that panicked has not said so, and what it left is not the whole.
        let broken = task?.await.err()?;
        Some((Err(DualResponseError::from(Error::Broken(broken.into()))), (taken, None)))
    };
    stream::unfold((taken, Some(task)), next).boxed()
}

/// Where bytes go.
enum Sink {
    Nowhere,
    Parts(mpsc::Sender<Result<Bytes>>),
}

/// What is cut out of the bytes as they come.
struct RangeWriter<'a> {
    sink: &'a Sink,
    /// Where the next byte is in the whole.
    at: u64,
    /// How many are left out yet.
    skip: u64,
    /// How many are wanted yet.
    left: u64,
}

impl RangeWriter<'_> {
    /// Gives away what is wanted of these bytes. Breaks when nothing more is.
    async fn give(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        let length = bytes.len() as u64;
        self.at += length;
        let Sink::Parts(parts) = self.sink else { return ControlFlow::Continue(()) };
        let skipped = self.skip.min(length);
        self.skip -= skipped;
        let kept = (length - skipped).min(self.left);
        self.left -= kept;
        if kept > 0 {
            // Invariant: both are at most the number of bytes in hand.
            let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            let part = Bytes::from(bytes).slice(place(skipped)..place(skipped + kept));
            if parts.send(Ok(part)).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A chunk that is being written, ahead of who takes it. Dropped, it stops.
struct Ahead {
    number: usize,
    parts: mpsc::Receiver<Vec<u8>>,
    /// Gives its encoder back for the next.
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

/// Writes what is wanted, beginning with the last chunk that is known to begin before it, and remembers where chunks
/// begin.
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
    // What has to go from chunk to chunk is with the one that is written.
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
    // Before the last bytes are given away: whoever has them all may ask at once for a part.
    known.total(tag, cut.at + tail.len() as u64);
    let _ = cut.give(tail).await;
    Ok(())
}

/// An encoder whose head is written, and that head.
fn begun(job: &Job) -> Result<(Box<dyn Encode>, Vec<u8>)> {
    let (mut encoder, mut head) = (job.encoder()?, Vec::new());
    encoder.head(&mut head)?;
    Ok((encoder, head))
}

/// Writes one chunk.
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
            return Err(Error::Broken("nobody takes the bytes".into()));
        }
    }
    let written = job.opened.starts[chunk + 1] - job.opened.starts[chunk];
    if encoding.rows != written {
        return Err(Error::Altered(format!(
            "chunk {chunk} has {} rows, and {written} were written",
            encoding.rows
        )));
    }
    encoding = blocking(move || {
        encoding.encoder.chunk(&mut encoding.out)?;
        Ok(encoding)
    })
    .await?;
    // Whoever does not take the last bytes has been told nothing wrong.
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
