//! Decodes stored pages to batches. The bytes of pages are fetched asynchronously, and decoded on a blocking thread.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use object_store::ObjectStore as _;
use parquet::{
    DecodeResult,
    arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder},
};

use super::{columns::Columns, guard};
use crate::{
    error::{Error, Result},
    inner::{Inner, Opened, blocking},
};

/// The number of rows that are decoded at a time when all rows are read. The batches of an Arrow export have `BATCH`
/// rows. If you change `BATCH`, the bytes of Arrow exports change, so you must also change the tags of exports.
pub(crate) const BATCH: usize = 8_192;

/// The selection of rows to read from a snapshot.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The chunks that contain the rows.
    pub(crate) chunks: Range<usize>,
    /// The number of rows to skip at the start of the selected chunks.
    pub(crate) offset: usize,
    /// The maximum number of rows to read.
    pub(crate) limit: usize,
    /// The number of rows in each decoded batch.
    pub(crate) batch: usize,
}

impl Wanted {
    pub(crate) fn chunk(chunk: usize) -> Self {
        Self { chunks: chunk..chunk + 1, offset: 0, limit: usize::MAX, batch: BATCH }
    }
}

/// A reader that returns the rows of a snapshot in batches. Reading stops when the decoder is dropped.
pub(crate) struct Decoder {
    inner: Arc<Inner>,
    opened: Arc<Opened>,
    columns: Arc<Columns>,
    chunks: Range<usize>,
    push: ParquetPushDecoder,
}

impl Decoder {
    pub(crate) async fn new(
        inner: &Arc<Inner>,
        opened: &Arc<Opened>,
        columns: &Arc<Columns>,
        wanted: Wanted,
    ) -> Result<Self> {
        let builder = ParquetPushDecoderBuilder::new_with_metadata(opened.metadata.clone())
            .with_row_groups(wanted.chunks.clone().collect())
            .with_projection(columns.mask(&opened.metadata))
            .with_batch_size(guard::batch(opened, &wanted.chunks, wanted.batch));
        let builder = match (wanted.offset, wanted.limit) {
            (0, usize::MAX) => builder,
            (offset, limit) => builder.with_offset(offset).with_limit(limit),
        };
        let push = blocking(move || Ok(builder.build()?)).await?;
        Ok(Self {
            inner: Arc::clone(inner),
            opened: Arc::clone(opened),
            columns: Arc::clone(columns),
            chunks: wanted.chunks,
            push,
        })
    }

    /// Passes each batch to `each`, until `each` pauses or no batches are left. If `each` paused, returns the decoder,
    /// so that the caller can continue to read.
    pub(crate) async fn drive<S: Send + 'static>(
        self,
        mut state: S,
        each: fn(&mut S, &RecordBatch) -> Result<ControlFlow<()>>,
    ) -> Result<(Option<Self>, S)> {
        let Self { inner, opened, columns, chunks, mut push } = self;
        loop {
            let order = Arc::clone(&columns);
            let (step, given, then) = blocking(move || {
                let step = steps(&mut push, &order, &mut state, each)?;
                Ok((step, push, state))
            })
            .await?;
            (push, state) = (given, then);
            match step {
                Step::Needs(ranges) => {
                    let parts = fetch(&inner, &opened, &ranges).await?;
                    guard::pages(opened.metadata.metadata(), &chunks, &ranges, &parts)?;
                    push.push_ranges(ranges, parts)?;
                }
                Step::Paused => return Ok((Some(Self { inner, opened, columns, chunks, push }), state)),
                Step::Ended => return Ok((None, state)),
            }
        }
    }
}

enum Step {
    Needs(Vec<Range<u64>>),
    Paused,
    Ended,
}

fn steps<S>(
    push: &mut ParquetPushDecoder,
    columns: &Columns,
    state: &mut S,
    each: fn(&mut S, &RecordBatch) -> Result<ControlFlow<()>>,
) -> Result<Step> {
    loop {
        match push.try_decode()? {
            DecodeResult::NeedsData(ranges) => return Ok(Step::Needs(ranges)),
            DecodeResult::Data(batch) => {
                if each(state, &columns.arrange(&batch)?)?.is_break() {
                    return Ok(Step::Paused);
                }
            }
            DecodeResult::Finished => return Ok(Step::Ended),
        }
    }
}

/// Fetches bytes of the stored file, and checks that the ranges are inside the file.
async fn fetch(inner: &Inner, opened: &Opened, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let end = opened.manifest.bytes;
    if ranges.iter().any(|range| range.start > range.end || range.end > end) {
        return Err(Error::Altered("the footer has an invalid position of a data page".into()));
    }
    let parts = inner.store.objects.get_ranges(&opened.data, ranges).await?;
    let whole = parts.iter().zip(ranges).all(|(part, range)| part.len() as u64 == range.end - range.start);
    if !whole || parts.len() != ranges.len() {
        return Err(Error::Altered("the object store returned fewer bytes than the object has".into()));
    }
    Ok(parts)
}
