//! Encodes batches into the chunks of a Parquet file, with the columns in parallel on two threads.

use std::{
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread,
};

use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves},
    },
    file::{properties::WriterProperties, writer::SerializedFileWriter},
};

use crate::error::Result;

/// The minimum number of values for which a second thread encodes columns. With fewer values, the encoding takes less
/// time than starting a thread.
const WORTH_A_THREAD: usize = 4096;

/// A file whose chunks are encoded one after the other. The columns of a chunk are encoded in parallel.
pub(super) struct Groups {
    file: SerializedFileWriter<Vec<u8>>,
    schema: SchemaRef,
    columns: ArrowRowGroupWriterFactory,
    chunk_rows: usize,
    chunk_bytes: usize,
    finished: usize,
    open: Option<Group>,
}

/// An open chunk, to which rows can be added.
struct Group {
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl Groups {
    pub(super) fn new(
        schema: SchemaRef,
        properties: WriterProperties,
        chunk_rows: usize,
        chunk_bytes: usize,
    ) -> Result<Self> {
        let writer = ArrowWriter::try_new(Vec::new(), SchemaRef::clone(&schema), Some(properties))?;
        let (file, columns) = writer.into_serialized_writer()?;
        Ok(Self { file, schema, columns, chunk_rows, chunk_bytes, finished: 0, open: None })
    }

    /// Encodes a batch into one or more chunks.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let group = if let Some(group) = &mut self.open {
                group
            } else {
                let columns = self.columns.create_column_writers(self.finished)?;
                self.open.insert(Group { columns, rows: 0 })
            };
            let rows = (self.chunk_rows - group.rows).min(batch.num_rows() - start);
            group.write(&self.schema, &batch.slice(start, rows))?;
            start += rows;
            if group.rows >= self.chunk_rows || group.bytes() >= self.chunk_bytes {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Writes the open chunk and the footer.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.close()?;
        self.file.finish()?;
        Ok(())
    }

    /// Returns the approximate number of bytes of the file so far. The current size of the open chunk is included.
    pub(super) fn made(&self) -> usize {
        self.file.bytes_written() + self.open.as_ref().map_or(0, Group::bytes)
    }

    /// Returns the number of encoded bytes that are ready to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.file.inner().len()
    }

    /// Takes the encoded bytes that are ready. The Parquet writer counts all written bytes separately, so the offsets
    /// in the file stay correct.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.file.inner_mut())
    }

    fn close(&mut self) -> Result<()> {
        let Some(group) = self.open.take() else { return Ok(()) };
        let mut chunk = self.file.next_row_group()?;
        for column in group.close()? {
            column.append_to_row_group(&mut chunk)?;
        }
        chunk.close()?;
        self.finished += 1;
        Ok(())
    }
}

impl Group {
    fn write(&mut self, schema: &SchemaRef, batch: &RecordBatch) -> Result<()> {
        let mut leaves = Vec::with_capacity(self.columns.len());
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            leaves.extend(compute_leaves(field, array)?);
        }
        self.rows += batch.num_rows();
        let values = batch.num_rows() * leaves.len();
        side_by_side(values, self.columns.iter_mut().zip(leaves), |(column, leaf)| Ok(column.write(&leaf)?))?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.columns.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    /// Compresses the remaining values of the open chunk.
    fn close(self) -> Result<Vec<ArrowColumnChunk>> {
        let values = self.rows * self.columns.len();
        side_by_side(values, self.columns.into_iter(), |column| Ok(column.close()?))
    }
}

/// Applies `work` to each item, on this thread and on a second thread. A free thread takes the next item. The results
/// are in the order of the items.
fn side_by_side<T, R: Send>(
    values: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if values < WORTH_A_THREAD {
        return items.map(work).collect();
    }
    let items = Mutex::new(items.enumerate());
    let lane = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            // After a panic in the other thread, the iterator can still be used. The panic is resumed after the
            // join.
            let next = items.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((at, item)) = next else { return Ok(done) };
            done.push((at, work(item)?));
        }
    };
    let (here, there) = thread::scope(|scope| {
        let other = scope.spawn(lane);
        (lane(), other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let mut done = here?;
    done.extend(there?);
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, made)| made).collect())
}
