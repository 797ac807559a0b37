//! Rows into Parquet.

use std::{fs::File, time::Instant};

use antiphon_results::snapshot::{SnapshotStore as _, SnapshotWriteOptions};
use antiphon_snapshot::Batches;
use anyhow::Result;
use futures_util::stream;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
};
use serde_json::json;

use crate::{CHUNK_ROWS, COMPRESSION, Figure, Options, PAGE_ROWS, data};

pub(crate) async fn ours(options: &Options) -> Result<Figure> {
    let snapshots = options.snapshots()?;
    snapshots.delete(&options.id()).await?;
    let start = Instant::now();
    let rows = stream::iter(data::batches(options.rows).map(Ok));
    let row_source = Batches::new(data::schema(), rows).into();
    let begun = snapshots.begin(&options.id(), row_source, SnapshotWriteOptions::default()).await?;
    let preview = start.elapsed();
    let written = begun.rest.await?;
    let times = vec![start.elapsed(), preview];
    Ok(Figure { times, check: json!(written.rows), bytes: written.bytes })
}

/// The writer alone, told to write what ours writes.
pub(crate) fn bare(options: &Options) -> Result<Figure> {
    let path = options.folder.join("bare.parquet");
    let start = Instant::now();
    let mut writer = ArrowWriter::try_new(File::create(&path)?, data::schema(), Some(properties()?))?;
    let mut rows = 0;
    for batch in data::batches(options.rows) {
        rows += batch.num_rows();
        writer.write(&batch)?;
    }
    writer.close()?;
    let times = vec![start.elapsed()];
    let bytes = path.metadata()?.len();
    std::fs::remove_file(path)?;
    Ok(Figure { times, check: json!(rows), bytes })
}

/// As snapshots are written.
pub(crate) fn properties() -> Result<WriterProperties> {
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(COMPRESSION)?))
        .set_max_row_group_row_count(Some(CHUNK_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Page)
        .build())
}
