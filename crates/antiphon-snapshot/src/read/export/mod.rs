//! Exports all rows of a snapshot in a file format. `ExportFormat` of `antiphon-results` lists the formats.

mod arrow;
mod csv;
mod ndjson;
mod parquet;
mod run;
mod stored;
#[cfg(feature = "xlsx")]
mod xlsx;

use std::{ops::Range, sync::Arc};

use antiphon_results::{
    DualResponseError,
    snapshot::{ByteRange, Export, ExportFormat, ExportRequest, SnapshotId},
};
use object_store::ObjectStoreExt as _;
use sha2::{Digest as _, Sha256};

use super::columns::Columns;
use crate::{
    config::SnapshotConfig,
    error::{Error, Result},
    inner::{Inner, Opened},
    layout::hex,
};

/// An encoder that writes rows in a file format.
///
/// Invariant: the encoded bytes of a chunk depend only on the chunk, unless `apart` returns `false`.
trait Encode: Send {
    /// Returns `true` if a chunk can be encoded without encoding the previous chunks.
    fn apart(&self) -> bool {
        true
    }

    /// Writes the bytes that come before the first row of the file.
    fn head(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// Writes rows of one chunk.
    fn batch(&mut self, batch: &::arrow::record_batch::RecordBatch, out: &mut Vec<u8>) -> Result<()>;

    /// Ends the current chunk, and writes its remaining bytes.
    fn chunk(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    /// Writes the bytes that come after the last row of the file.
    fn tail(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// One export: its snapshot, its chunks and columns, and its format.
struct Job {
    inner: Arc<Inner>,
    opened: Arc<Opened>,
    columns: Arc<Columns>,
    format: ExportFormat,
    csv_safe: bool,
    chunks: Range<usize>,
    tag: String,
}

pub(crate) async fn export(
    inner: &Arc<Inner>,
    id: &SnapshotId,
    request: &ExportRequest,
) -> Result<Export, DualResponseError> {
    let mut opened = inner.at_hand(id, &request.view).await?;
    // Check that the view exists before the first bytes are sent. After the first bytes, the server can no longer send
    // an error response.
    if !request.view.is_whole()
        && let Err(object_store::Error::NotFound { .. }) = inner.store.objects.head(&opened.data).await
    {
        opened = inner.reopened(id, &request.view).await?;
    }
    let columns = Arc::new(Columns::named(&opened, &request.columns)?);
    let all = opened.starts.len() - 1;
    let chunks = match request.chunk {
        None => 0..all,
        Some(chunk) => match usize::try_from(chunk) {
            Ok(chunk) if chunk < all => chunk..chunk + 1,
            _ => {
                return Err(
                    Error::Invalid(format!("chunk {chunk} does not exist; there are {all} chunks")).into()
                );
            }
        },
    };
    let itself = request.columns.is_empty() && request.chunk.is_none();
    let anew = (request.format == ExportFormat::Parquet && !itself).then_some(&inner.config);
    let job = Job {
        inner: Arc::clone(inner),
        tag: tag(&opened, request, anew),
        opened,
        columns,
        format: request.format,
        csv_safe: request.csv_safe,
        chunks,
    };
    match job.format {
        ExportFormat::Parquet if itself => stored::export(&job, request.range).await,
        ExportFormat::Xlsx => workbook(job, request.range).await,
        ExportFormat::Ndjson | ExportFormat::Csv | ExportFormat::Arrow | ExportFormat::Parquet => {
            run::export(job, request.range).await
        }
    }
}

#[cfg(feature = "xlsx")]
async fn workbook(job: Job, range: Option<ByteRange>) -> Result<Export, DualResponseError> {
    xlsx::export(job, range).await
}

#[cfg(not(feature = "xlsx"))]
#[expect(clippy::unused_async, reason = "with the feature it waits")]
async fn workbook(_job: Job, _range: Option<ByteRange>) -> Result<Export, DualResponseError> {
    Err(DualResponseError::Unsupported(
        "the format xlsx needs the feature `xlsx` of antiphon-snapshot; use csv, ndjson, arrow or parquet"
            .into(),
    ))
}

impl Job {
    fn encoder(&self) -> Result<Box<dyn Encode>> {
        let schema = self.columns.schema();
        Ok(match self.format {
            ExportFormat::Csv => Box::new(csv::Csv::new(schema, self.csv_safe)),
            ExportFormat::Arrow => Box::new(arrow::Stream::new(schema)?),
            ExportFormat::Parquet => Box::new(parquet::File::new(schema, &self.inner.config)?),
            ExportFormat::Ndjson => Box::new(ndjson::Ndjson),
            // `workbook` writes the whole file.
            ExportFormat::Xlsx => {
                return Err(Error::Invalid("the format `xlsx` is not supported here".into()));
            }
        })
    }
}

/// Returns the tag of an export. Exports with equal bytes have equal tags. The tag depends on the stored file and on
/// all options of the format. If an export encodes a new Parquet file, the tag also depends on the settings of the
/// writer.
fn tag(opened: &Opened, request: &ExportRequest, anew: Option<&SnapshotConfig>) -> String {
    /// The version of the encoders. The version of the encoders must change if a release encodes the same rows to
    /// different bytes.
    const EDITION: &str = "1";
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(EDITION);
    add(&opened.manifest.digest);
    add(request.format.name());
    add(if request.format == ExportFormat::Csv && request.csv_safe { "safe" } else { "" });
    add(&request.chunk.map(|chunk| chunk.to_string()).unwrap_or_default());
    add(&anew.map(|config| format!("{} {}", config.compression, config.page_rows)).unwrap_or_default());
    for column in &request.columns {
        add(column);
    }
    hex("", &hash.finalize()[..16])
}

/// Returns the positions of the bytes that a range selects in a file with `total` bytes. The end of the returned range
/// is exclusive.
fn part(range: ByteRange, total: u64) -> Result<Range<u64>> {
    let part = match range {
        ByteRange::From { first, last } => {
            first..last.map_or(total, |last| last.saturating_add(1).min(total))
        }
        ByteRange::Last(count) => total.saturating_sub(count)..total,
        other => return Err(Error::Invalid(format!("range {other:?} is not supported"))),
    };
    if part.start >= part.end {
        return Err(Error::Invalid(format!("range is outside of the content, which has {total} bytes")));
    }
    Ok(part)
}
