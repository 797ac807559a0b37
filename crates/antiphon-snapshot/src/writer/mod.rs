//! Writes batches as a Parquet file to an object store. The encoding of the file runs on blocking threads. Finished
//! parts of the file are sent while encoding continues.

mod group;
mod upload;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use parquet::{
    basic::{Compression, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinHandle},
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use self::upload::UPLOAD;
use self::{
    group::Groups,
    upload::{Part, Upload},
};
use crate::{
    config::SnapshotConfig,
    error::{Error, Result},
    inner::{Inner, Stored},
};

/// A writer for one Parquet file. If the writer is dropped before it is finished, no file remains.
#[derive(Debug)]
pub(crate) struct Writer {
    steps: mpsc::Sender<Step>,
    encoding: JoinHandle<Result<u64>>,
    sending: JoinHandle<Result<Stored>>,
    gauge: Arc<Gauge>,
    stop: DropGuard,
}

/// The progress of writing a file.
#[derive(Debug, Default)]
struct Gauge {
    /// The number of bytes of the file that are on the object store.
    sent: AtomicU64,
    /// The number of encoded bytes so far, including bytes that are not sent yet.
    made: AtomicU64,
}

/// An input of the encoder. Only `End` completes the file. A writer that is dropped does not send `End`, so its file
/// is not completed.
#[derive(Debug)]
enum Step {
    Batch(RecordBatch),
    End,
}

impl Writer {
    pub(crate) fn create(inner: &Inner, path: Path, schema: SchemaRef) -> Result<Self> {
        let properties = properties(&inner.config)?;
        let config = &inner.config;
        let groups = Groups::new(schema, properties, config.chunk_rows, config.chunk_bytes)?;
        let (steps, taken) = mpsc::channel(2);
        let (parts, ready) = mpsc::channel(1);
        let gauge = Arc::new(Gauge::default());
        let stop = CancellationToken::new();
        let encoding = tokio::spawn(encode(
            Encoder {
                groups,
                rows: 0,
                rest: BytesMut::new(),
                part_bytes: config.part_bytes.max(1),
                chunk_bytes: config.chunk_bytes,
                gauge: Arc::clone(&gauge),
            },
            taken,
            parts,
        ));
        let upload = Upload::new(&inner.store, path);
        let sending = tokio::spawn(upload.run(ready, stop.clone(), Arc::clone(&gauge)));
        Ok(Self { steps, encoding, sending, gauge, stop: stop.drop_guard() })
    }

    /// Adds a batch of rows to the file. Waits while earlier batches are encoded.
    pub(crate) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if self.steps.send(Step::Batch(batch)).await.is_ok() {
            return Ok(());
        }
        let (encoded, sent) = ((&mut self.encoding).await, (&mut self.sending).await);
        match settle(encoded, sent) {
            Err(error) => Err(error),
            Ok(_) => Err(Error::Broken("the snapshot writer ended early".into())),
        }
    }

    /// Returns the number of bytes of the file that are on the object store.
    pub(crate) fn sent(&self) -> u64 {
        self.gauge.sent.load(Ordering::Relaxed)
    }

    /// Returns the approximate number of bytes of the file so far. The current size of the open chunk is included.
    pub(crate) fn made(&self) -> u64 {
        self.gauge.made.load(Ordering::Relaxed)
    }

    /// Writes the footer of the file. When `finish` returns, the file exists.
    pub(crate) async fn finish(mut self) -> Result<Stored> {
        // If the encoder has already stopped, this send fails, and the two tasks return the reason.
        let _ = self.steps.send(Step::End).await;
        let encoded = (&mut self.encoding).await;
        let sent = (&mut self.sending).await;
        self.stop.disarm();
        settle(encoded, sent)
    }

    /// Cancels the write of the file. When `give_up` returns, no part of the file remains, unless the object store
    /// fails.
    pub(crate) async fn give_up(self) {
        let Self { steps, encoding, sending, stop, .. } = self;
        drop((steps, stop));
        // A task that has finished must not be awaited again.
        if !encoding.is_finished() {
            let _ = encoding.await;
        }
        if !sending.is_finished() {
            let _ = sending.await;
        }
    }
}

/// Combines the results of the encoding task and the upload task. If the object store fails, the encoder can also
/// fail. The error of the object store is then the result, because it is the cause of both failures.
fn settle(
    encoded: Result<Result<u64>, JoinError>,
    sent: Result<Result<Stored>, JoinError>,
) -> Result<Stored> {
    let broken = |error: JoinError| Error::Broken(error.into());
    match (encoded.map_err(broken)?, sent.map_err(broken)?) {
        (Ok(rows), Ok(stored)) => Ok(Stored { rows, ..stored }),
        (Err(error), _) if !matches!(error, Error::Broken(_)) => Err(error.of_writing()),
        (_, Err(error)) | (Err(error), _) => Err(error.of_writing()),
    }
}

/// An encoder that converts batches to the bytes of a Parquet file.
struct Encoder {
    groups: Groups,
    rows: u64,
    /// Encoded bytes that do not fill a part of the upload yet.
    rest: BytesMut,
    part_bytes: usize,
    chunk_bytes: usize,
    gauge: Arc<Gauge>,
}

impl Encoder {
    /// Encodes a batch, and returns the parts of the upload that are full.
    fn add(&mut self, batch: &RecordBatch) -> Result<Vec<Bytes>> {
        for slice in slices(batch, self.chunk_bytes) {
            self.rows += slice.num_rows() as u64;
            self.groups.write(&slice)?;
        }
        self.gauge.made.store(self.groups.made() as u64, Ordering::Relaxed);
        if self.rest.len() + self.groups.waiting() < self.part_bytes {
            return Ok(Vec::new());
        }
        Ok(self.parts())
    }

    /// Encodes the footer, and returns the full parts and the last part of the upload.
    fn end(&mut self) -> Result<(Vec<Bytes>, Bytes)> {
        self.groups.finish()?;
        let mut parts = self.parts();
        let rest = std::mem::take(&mut self.rest).freeze();
        Ok(match parts.pop() {
            Some(last) if rest.is_empty() => (parts, last),
            last => {
                parts.extend(last);
                (parts, rest)
            }
        })
    }

    /// Returns the parts of the upload that are full. All parts except the last one have the same length, which some
    /// stores, such as Cloudflare R2, require.
    fn parts(&mut self) -> Vec<Bytes> {
        self.rest.extend_from_slice(&self.groups.take());
        let full = self.rest.len() / self.part_bytes;
        (0..full).map(|_| self.rest.split_to(self.part_bytes).freeze()).collect()
    }
}

/// Encodes incoming batches. The task uses no thread while it waits for a batch.
async fn encode(
    mut encoder: Encoder,
    mut taken: mpsc::Receiver<Step>,
    parts: mpsc::Sender<Part>,
) -> Result<u64> {
    let gone = |_| Error::Broken("the upload of the snapshot has stopped".into());
    let broken = |error: JoinError| Error::Broken(error.into());
    loop {
        let step = tokio::select! {
            step = taken.recv() => step,
            () = parts.closed() => return Err(Error::Broken("the upload of the snapshot has stopped".into())),
        };
        let batch = match step {
            Some(Step::Batch(batch)) => batch,
            Some(Step::End) => break,
            None => return Err(Error::Broken("the source of the rows has stopped".into())),
        };
        let work = tokio::task::spawn_blocking(move || {
            let full = encoder.add(&batch);
            (encoder, full)
        });
        let full;
        (encoder, full) = work.await.map_err(broken)?;
        for bytes in full? {
            parts.send(Part::More(bytes)).await.map_err(gone)?;
        }
    }
    let work = tokio::task::spawn_blocking(move || {
        let last = encoder.end();
        (encoder.rows, last)
    });
    let (rows, last) = work.await.map_err(broken)?;
    let (full, last) = last?;
    for bytes in full {
        parts.send(Part::More(bytes)).await.map_err(gone)?;
    }
    parts.send(Part::Last(last)).await.map_err(gone)?;
    Ok(rows)
}

/// Splits a batch into slices that each fit into a chunk, according to the average row size of the batch. A slice has
/// at least one row.
pub(crate) fn slices(batch: &RecordBatch, bytes: usize) -> Vec<RecordBatch> {
    const ROWS: usize = 8192;
    let rows = batch.num_rows();
    // If a batch is a slice of a larger batch, `get_array_memory_size` returns the size of the larger batch. So batches
    // of one row are not split.
    let size = if rows <= 1 { 0 } else { batch.get_array_memory_size() };
    let step = match size.div_ceil(bytes.max(1)) {
        0 | 1 => ROWS,
        pieces => (rows / pieces).clamp(1, ROWS),
    };
    (0..rows).step_by(step).map(|start| batch.slice(start, step.min(rows - start))).collect()
}

fn properties(config: &SnapshotConfig) -> Result<WriterProperties> {
    Ok(WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(config.compression)?))
        .set_max_row_group_row_count(Some(config.chunk_rows))
        .set_data_page_row_count_limit(config.page_rows)
        .set_write_batch_size(config.page_rows.min(1024))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by("antiphon".into())
        .build())
}
