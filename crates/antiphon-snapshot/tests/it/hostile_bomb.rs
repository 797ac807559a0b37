//! Files that are small as they are stored and unpack to more than anybody has room for: an error, and the memory of
//! the process stays what it was. The process itself is asked for that, so each of these tests needs one of its own.

use std::sync::Arc;

use antiphon_results::{
    DualResponseError,
    snapshot::{ExportFormat, ExportRequest, SnapshotPage, SnapshotStore as _},
};
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    basic::Encoding,
    column::{
        page::{CompressedPage, Page, PageWriter as _},
        writer::ColumnCloseResult,
    },
    file::{
        metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageIndexPolicy},
        page_index::offset_index::OffsetIndexMetaData,
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite},
    },
};

use crate::{
    hostile::forge,
    read_support::{Disk, bytes, id, numbered, write},
};

const MIB: usize = 1024 * 1024;

/// What reading may add to the memory of the process at its height.
const MOST: usize = 128 * MIB;

/// Few enough to be one page.
const ROWS: u32 = 200;

/// How long a page of so many numbers is.
const HONEST: usize = ROWS as usize * 8;

/// A frame of zstd that unpacks to so many zeros: four bytes for each 128 KiB.
fn zeros(length: usize) -> Vec<u8> {
    // A window of 8 MiB, and no word on how long the whole is.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68];
    let mut left = length;
    while left > 0 {
        let block = left.min(128 * 1024);
        left -= block;
        // One byte again and again; the lowest bit marks the last block.
        let header = u32::try_from((block << 3) | 0b10 | usize::from(left == 0)).unwrap();
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

/// The stored file with another first column: one page of this frame, which claims to unpack to so many bytes. Its
/// column claims the same.
fn armed(stored: &Bytes, frame: Vec<u8>, claimed: usize) -> Vec<u8> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let loaded = ArrowReaderMetadata::load(stored, options).unwrap();
    let metadata = loaded.metadata();
    let columns = metadata.row_group(0).columns();
    let indexes = &metadata.column_index().unwrap()[0];
    let offsets = &metadata.offset_index().unwrap()[0];
    let close =
        |leaf: usize, metadata: ColumnChunkMetaData, offsets: OffsetIndexMetaData| ColumnCloseResult {
            bytes_written: u64::try_from(metadata.compressed_size()).unwrap(),
            rows_written: u64::from(ROWS),
            metadata,
            bloom_filter: None,
            column_index: Some(indexes[leaf].clone()),
            offset_index: Some(offsets),
        };

    let page = Page::DataPage {
        buf: frame.into(),
        num_values: ROWS,
        encoding: Encoding::PLAIN,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let mut sink = TrackedWrite::new(Vec::<u8>::new());
    let spec = SerializedPageWriter::new(&mut sink).write_page(CompressedPage::new(page, claimed)).unwrap();
    let chunk = Bytes::from(sink.into_inner().unwrap());
    let mut places = OffsetIndexBuilder::new();
    places.append_offset_and_size(0, i32::try_from(spec.compressed_size).unwrap());
    places.append_row_count(i64::from(ROWS));
    let first = columns[0].clone().into_builder();
    let first = first
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
        .set_dictionary_page_offset(None)
        .set_data_page_offset(0)
        .set_total_compressed_size(i64::try_from(chunk.len()).unwrap())
        .set_total_uncompressed_size(i64::try_from(spec.uncompressed_size).unwrap())
        .clear_page_encoding_stats()
        .build()
        .unwrap();

    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::<u8>::new(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    group.append_column(&chunk, close(0, first, places.build())).unwrap();
    for (leaf, column) in columns.iter().enumerate().skip(1) {
        group.append_column(stored, close(leaf, column.clone(), offsets[leaf].clone())).unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

/// The most memory that this process has ever had.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Reads a file whose page unpacks to so much and claims so much, in every way that unpacks it.
async fn is_refused(unpacked: usize, claimed: usize) {
    let disk = Disk::new();
    write(&disk.snapshots, "rs_set", vec![numbered(0..i64::from(ROWS))]).await;
    let stored = Bytes::from(std::fs::read(disk.data("rs_set")).unwrap());
    let set = id("rs_set");
    // What is refused below is the bomb, and not how it was put in.
    forge(&disk, &armed(&stored, zeros(HONEST), HONEST));
    let rows = disk.replica().page(&set, &SnapshotPage::new(0, u64::MAX)).await.unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    assert!(rows.get(1).unwrap().starts_with(r#"{"id":0,"#), "{:?}", rows.get(1));

    let bomb = armed(&stored, zeros(unpacked), claimed);
    assert!(bomb.len() < MIB, "{} bytes are no bomb", bomb.len());
    forge(&disk, &bomb);
    let before = peak();
    let snapshots = disk.replica();
    let page = snapshots.page(&set, &SnapshotPage::new(0, u64::MAX)).await.map(drop);
    let stats = snapshots.stats(&set).await.map(drop);
    let mut answers = vec![("page", page), ("stats", stats)];
    for format in [ExportFormat::Ndjson, ExportFormat::Csv, ExportFormat::Arrow] {
        let answer = match snapshots.export(&set, &ExportRequest::new(format)).await {
            Ok(export) => bytes(export).await.map(drop),
            Err(error) => Err(error),
        };
        answers.push((format.name(), answer));
    }
    let grown = peak().saturating_sub(before);
    assert!(grown < MOST, "it took {} MiB", grown / MIB);
    for (way, answer) in answers {
        assert!(matches!(answer, Err(DualResponseError::Snapshot(_))), "{way}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_that_unpacks_to_more_than_it_claims_is_refused() {
    is_refused(1280 * MIB, HONEST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_and_column_that_claim_more_than_any_of_ours_are_refused() {
    is_refused(1280 * MIB, 1280 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_and_column_that_claim_nearly_as_much_as_they_may_are_refused() {
    is_refused(960 * MIB, 960 * MIB).await;
}
