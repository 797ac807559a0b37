//! Stored pages into batches: bytes are fetched here, unpacked on a thread for that.

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

/// How many rows are unpacked at a time when all are wanted. It decides where the batches of an Arrow stream end, and
/// so it is part of what an export's tag stands for.
pub(crate) const BATCH: usize = 8_192;

/// What is to be read.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Which chunks.
    pub(crate) chunks: Range<usize>,
    /// How many of their rows are left out at the beginning.
    pub(crate) offset: usize,
    /// How many rows at most.
    pub(crate) limit: usize,
    /// How many at a time.
    pub(crate) batch: usize,
}

impl Wanted {
    pub(crate) fn chunk(chunk: usize) -> Self {
        Self { chunks: chunk..chunk + 1, offset: 0, limit: usize::MAX, batch: BATCH }
    }
}

/// Reads rows of a snapshot, batch after batch. Dropped, it stops.
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

    /// Gives each batch to `each`, until that has enough for now or there are no more. Returns itself in the first
    /// case, to go on.
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

/// Bytes of the stored file, if it has them.
async fn fetch(inner: &Inner, opened: &Opened, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let end = opened.manifest.bytes;
    if ranges.iter().any(|range| range.start > range.end || range.end > end) {
        return Err(Error::Altered("a page is not where the footer says".into()));
    }
    let parts = inner.store.objects.get_ranges(&opened.data, ranges).await?;
    let whole = parts.iter().zip(ranges).all(|(part, range)| part.len() as u64 == range.end - range.start);
    if !whole || parts.len() != ranges.len() {
        return Err(Error::Altered("the object store gave fewer bytes than there are".into()));
    }
    Ok(parts)
}
