//! The footer of a stored file. This module reads the footer with size limits, and checks the sizes in the footer for
//! consistency.

use std::sync::Arc;

use bytes::Bytes;
use object_store::{ObjectStore as _, ObjectStoreExt as _, path::Path};
use parquet::{
    DecodeResult,
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder},
};

use super::{Inner, StoredManifest, blocking};
use crate::{
    config::SnapshotConfig,
    error::{Error, Result},
};

/// The number of bytes that are read first, from the end of a file. Most footers are not larger than 64 KiB.
const TAIL: u64 = 64 * 1024;

/// The size up to which a footer is always accepted. A footer takes some hundred bytes for each chunk and column, and
/// its index takes some hundred bytes for each page. With many columns and few rows, a footer can be larger than
/// `SMALL_FOOTER`. A footer that is larger than `SMALL_FOOTER` must be at most half as large as its file.
const SMALL_FOOTER: u64 = 64 * 1024 * 1024;

/// The maximum size of a footer.
const MAX_FOOTER: u64 = 1024 * 1024 * 1024;

/// The maximum uncompressed size that a footer can claim for a chunk, independent of the chunk's stored size.
const MAX_CHUNK: i64 = 1024 * 1024 * 1024;

/// The maximum ratio of the uncompressed size to the stored size of a chunk. If a file claims a larger ratio, the file
/// is probably malicious.
const MAX_GROWTH: i64 = 256;

/// The uncompressed size up to which a chunk is always accepted. By default, chunks that this crate writes have 32 MiB.
const SMALL_CHUNK: i64 = 64 * 1024 * 1024;

/// The maximum nesting depth of columns. Reading columns that are nested more deeply would use too much stack space.
const MAX_DEPTH: usize = 64;

pub(super) async fn load(
    inner: &Inner,
    data: &Path,
    manifest: &StoredManifest,
) -> Result<ArrowReaderMetadata> {
    let end = manifest.bytes;
    if end < 12 {
        return Err(Error::Altered(format!("the stored file is not Parquet: {end} bytes are too short")));
    }
    let most = (end / 2).clamp(SMALL_FOOTER, MAX_FOOTER);
    let mut known = end.saturating_sub(TAIL)..end;
    let mut bytes = inner.store.objects.get_range(data, known.clone()).await?;
    let claimed = bytes.len().checked_sub(8).and_then(|at| bytes.get(at..at + 4));
    let claimed = claimed.and_then(|length| length.try_into().ok()).map(u32::from_le_bytes);
    let length = u64::from(claimed.ok_or_else(|| Error::Altered("the stored file is truncated".into()))?);
    if length > most || length + 8 > end {
        return Err(Error::Altered(format!("the stored file has an invalid footer length: {length} bytes")));
    }
    if length + 8 > known.end - known.start {
        known = end - length - 8..end;
        bytes = inner.store.objects.get_range(data, known.clone()).await?;
    }
    let mut decoder =
        ParquetMetaDataPushDecoder::try_new(end)?.with_page_index_policy(PageIndexPolicy::Required);
    decoder.push_ranges(vec![known], vec![bytes])?;
    // Parsing a footer takes milliseconds for each million rows, and can panic on a malicious footer.
    loop {
        let (parsed, given) = blocking(move || Ok((decoder.try_decode()?, decoder))).await?;
        decoder = given;
        match parsed {
            DecodeResult::NeedsData(ranges) => {
                let wanted = ranges.iter().try_fold(0_u64, |sum, range| {
                    (range.start <= range.end && range.end <= end)
                        .then(|| sum.saturating_add(range.end - range.start))
                });
                if wanted.is_none_or(|wanted| wanted > most) {
                    return Err(Error::Altered(
                        "the position of the page index in the footer is not valid".into(),
                    ));
                }
                let parts: Vec<Bytes> = inner.store.objects.get_ranges(data, &ranges).await?;
                decoder.push_ranges(ranges, parts)?;
            }
            DecodeResult::Data(metadata) => return described(metadata).await,
            DecodeResult::Finished => return Err(Error::Altered("the stored file's footer is empty".into())),
        }
    }
}

/// Checks that a written file can be read, before the manifest of the file is written.
pub(super) async fn verify(inner: &Inner, data: &Path, manifest: &StoredManifest) -> Result<()> {
    let metadata = load(inner, data, manifest).await?;
    match starts(&inner.config, &metadata, manifest) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::Broken(format!("the written file cannot be read: {error}").into())),
    }
}

async fn described(metadata: ParquetMetaData) -> Result<ArrowReaderMetadata> {
    let leaves = metadata.file_metadata().schema_descr();
    let depth = leaves.columns().iter().map(|leaf| leaf.path().parts().len()).max().unwrap_or(0);
    if depth > MAX_DEPTH {
        return Err(Error::Altered(format!(
            "the stored file has columns with {depth} levels of nesting, which Antiphon does not write"
        )));
    }
    blocking(move || {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        Ok(ArrowReaderMetadata::try_new(Arc::new(metadata), options)?)
    })
    .await
}

/// Returns the row number at which each chunk starts, followed by the total number of rows. Returns an error if the
/// footer does not match the manifest.
pub(super) fn starts(
    config: &SnapshotConfig,
    metadata: &ArrowReaderMetadata,
    manifest: &StoredManifest,
) -> Result<Vec<u64>> {
    let fields = metadata.schema().fields().len();
    if fields != manifest.columns.len() {
        return Err(Error::Altered(format!(
            "the Parquet file is damaged: it has {fields} columns, but the manifest lists {} columns",
            manifest.columns.len()
        )));
    }
    let ours = i64::try_from(config.chunk_bytes.saturating_mul(2)).unwrap_or(MAX_CHUNK);
    let small = SMALL_CHUNK.max(ours).min(MAX_CHUNK);
    let mut starts = vec![0_u64];
    let mut rows = 0_u64;
    for group in metadata.metadata().row_groups() {
        let added = u64::try_from(group.num_rows()).ok().and_then(|count| rows.checked_add(count));
        rows = added.ok_or_else(|| Error::Altered("a stored chunk has a negative row count".into()))?;
        let sum = |of: fn(&ColumnChunkMetaData) -> i64| {
            group.columns().iter().fold(0_i64, |sum, column| sum.saturating_add(of(column).max(0)))
        };
        let size = sum(ColumnChunkMetaData::uncompressed_size).max(group.total_byte_size());
        let stored = sum(ColumnChunkMetaData::compressed_size);
        if size > stored.saturating_mul(MAX_GROWTH).clamp(small, MAX_CHUNK) {
            return Err(Error::Altered("a stored chunk declares a size that Antiphon does not write".into()));
        }
        starts.push(rows);
    }
    let claimed = metadata.metadata().file_metadata().num_rows();
    if rows != manifest.rows || u64::try_from(claimed) != Ok(rows) {
        return Err(Error::Altered(format!(
            "the Parquet file is damaged: its chunks have {rows} rows, its footer states {claimed} rows, and the manifest lists {} rows",
            manifest.rows
        )));
    }
    Ok(starts)
}
