//! Checks the sizes that a stored file claims, before memory of these sizes is allocated.

use std::ops::Range;

use bytes::Bytes;
use parquet::{
    arrow::ProjectionMask,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};

use crate::{
    error::{Error, Result},
    inner::Opened,
};

/// The approximate number of bytes that one decoded batch takes in memory.
const BATCH_BYTES: u64 = 16 * 1024 * 1024;

/// Checks the header of every page in these bytes. Returns an error if a page claims to be larger than its column. The
/// size of each column was checked when the file was opened.
pub(super) fn pages(
    metadata: &ParquetMetaData,
    chunks: &Range<usize>,
    ranges: &[Range<u64>],
    parts: &[Bytes],
) -> Result<()> {
    for chunk in chunks.clone() {
        for (leaf, column) in metadata.row_group(chunk).columns().iter().enumerate() {
            let (begin, length) = place(column)?;
            let end = begin.saturating_add(length);
            if !ranges.iter().any(|range| range.start < end && begin < range.end) {
                continue;
            }
            let index = metadata.offset_index().and_then(|index| index.get(chunk)?.get(leaf));
            let pages = index.map(|index| index.page_locations().as_slice()).unwrap_or_default();
            let starts = pages.iter().map(|page| page.offset).chain(column.dictionary_page_offset());
            for start in starts.filter_map(|start| u64::try_from(start).ok()) {
                let Some(header) = at(start, ranges, parts) else { continue };
                let claimed = claimed(header).filter(|&claimed| claimed <= column.uncompressed_size());
                if claimed.is_none() {
                    return Err(Error::Altered(
                        "a stored page declares a larger size than its column".into(),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns the position of the first byte and the length of a column in the file.
fn place(column: &ColumnChunkMetaData) -> Result<(u64, u64)> {
    let begin = column
        .dictionary_page_offset()
        .map_or(column.data_page_offset(), |dictionary| dictionary.min(column.data_page_offset()));
    match (u64::try_from(begin), u64::try_from(column.compressed_size())) {
        (Ok(begin), Ok(length)) => Ok((begin, length)),
        _ => Err(Error::Altered("a stored column has a negative position or size".into())),
    }
}

/// Returns the bytes from the position `start` on, if one of `ranges` contains this position.
fn at<'a>(start: u64, ranges: &[Range<u64>], parts: &'a [Bytes]) -> Option<&'a [u8]> {
    let (range, part) = ranges.iter().zip(parts).find(|(range, _)| range.contains(&start))?;
    part.get(usize::try_from(start - range.start).ok()?..)
}

/// Returns the uncompressed size that a page header claims. The page header uses Thrift's compact protocol. The
/// uncompressed size is the second field of the page header. The first and the second field of the page header are
/// numbers.
fn claimed(header: &[u8]) -> Option<i64> {
    let mut bytes = header.iter().copied();
    let mut number = || {
        // The Thrift header of the next field, which is a 32-bit number.
        if bytes.next()? != 0x15 {
            return None;
        }
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                // Zigzag encoding: the sign is in the lowest bit.
                return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        None
    };
    number()?;
    number().filter(|&size| size >= 0)
}

/// Returns the number of rows to decode at a time, at most `most`. If the rows of these chunks are large, the returned
/// number is smaller than `most`. The returned number depends only on the stored file and `most`.
pub(super) fn batch(opened: &Opened, chunks: &Range<usize>, most: usize) -> usize {
    batch_of(opened, chunks, &ProjectionMask::all(), most)
}

/// Returns the number of rows to decode at a time if only the columns in `mask` are read. See [`batch`].
pub(crate) fn batch_of(opened: &Opened, chunks: &Range<usize>, mask: &ProjectionMask, most: usize) -> usize {
    let group = |chunk: usize| {
        let group = opened.metadata.metadata().row_group(chunk);
        let columns = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let sizes = columns.map(|(_, column)| {
            // The file stores a repeated text once, but the decoded batch contains each repetition.
            column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0))
        });
        let bytes = sizes.fold(0_u64, |sum, size| sum.saturating_add(u64::try_from(size).unwrap_or(0)));
        let rows = opened.starts[chunk + 1] - opened.starts[chunk];
        BATCH_BYTES.saturating_mul(rows.max(1)) / bytes.max(1)
    };
    let fit = chunks.clone().map(group).min().unwrap_or(u64::MAX);
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::claimed;

    #[test]
    fn size_is_read_from_the_header_and_nothing_else_is() {
        assert_eq!(claimed(&[0x15, 0x00, 0x15, 0x80, 0x02, 0x15, 0x10]), Some(128));
        assert_eq!(claimed(&[0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f]), Some(i64::from(i32::MAX)));
        assert_eq!(claimed(&[0x15, 0x00, 0x15, 0x01]), None);
        assert_eq!(claimed(&[0x15, 0x00, 0x25, 0x02]), None);
        assert_eq!(claimed(&[0x15, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]), None);
        assert_eq!(claimed(&[]), None);
    }
}
