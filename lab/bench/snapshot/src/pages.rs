//! A hundred rows from anywhere.

use std::{fs::File, time::Instant};

use antiphon_results::snapshot::{SnapshotPage, SnapshotStore as _, View};
use anyhow::{Context as _, Result};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    file::metadata::PageIndexPolicy,
};
use serde_json::{Value, json};

use crate::{Figure, Measure, Options, sort};

const LIMIT: u64 = 100;

pub(crate) async fn ours(options: &Options) -> Result<Figure> {
    let snapshots = options.snapshots()?;
    let view = if options.measure == Measure::SortedPage { sort::view() } else { View::default() };
    let request = SnapshotPage::new(options.offset, LIMIT).with_view(view);
    let mut figure = Figure::default();
    for _ in 0..=options.repeat {
        let start = Instant::now();
        let rows = snapshots.page(&options.id(), &request).await?;
        figure.times.push(start.elapsed());
        figure.check = first(rows.get(0).context("the page is empty")?)?;
        figure.bytes = rows.bytes() as u64;
    }
    // The first reads the footer, once for all.
    figure.times.remove(0);
    Ok(figure)
}

/// The reader alone, with the footer read beforehand.
pub(crate) fn bare(options: &Options) -> Result<Figure> {
    let path = if options.measure == Measure::SortedPage { options.sorted() } else { options.data() };
    let wanted = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let metadata = ArrowReaderMetadata::load(&File::open(&path)?, wanted)?;
    let mut figure = Figure::default();
    for _ in 0..options.repeat {
        let start = Instant::now();
        let (mut groups, mut offset, mut found) = (Vec::new(), options.offset, 0);
        for (index, group) in metadata.metadata().row_groups().iter().enumerate() {
            let rows = u64::try_from(group.num_rows())?;
            if groups.is_empty() && offset >= rows {
                offset -= rows;
                continue;
            }
            found += rows;
            groups.push(index);
            if found >= offset + LIMIT {
                break;
            }
        }
        let columns = ProjectionMask::roots(metadata.parquet_schema(), 0..8);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(File::open(&path)?, metadata.clone())
            .with_row_groups(groups)
            .with_projection(columns)
            .with_offset(usize::try_from(offset)?)
            .with_limit(usize::try_from(LIMIT)?)
            .build()?;
        let mut writer = arrow::json::LineDelimitedWriter::new(Vec::new());
        for batch in reader {
            writer.write(&batch?)?;
        }
        writer.finish()?;
        let text = writer.into_inner();
        figure.times.push(start.elapsed());
        let line = text.split(|byte| *byte == b'\n').next().context("the page is empty")?;
        figure.check = first(std::str::from_utf8(line)?)?;
        figure.bytes = text.len() as u64;
    }
    Ok(figure)
}

/// What tells whether two sides read the same row.
fn first(row: &str) -> Result<Value> {
    let row: Value = serde_json::from_str(row)?;
    Ok(json!([row["id"], row["enrollment"]]))
}
