//! Reads a page of rows.

use std::{ops::ControlFlow, sync::Arc};

use antiphon_results::{
    Rows,
    snapshot::{SnapshotId, SnapshotPage},
};

use super::{
    columns::Columns,
    decode::{Decoder, Wanted},
    json,
};
use crate::{
    error::{Error, Result},
    inner::{Inner, Opened},
};

/// The maximum number of rows that are decoded at a time.
const BATCH: usize = 1_024;

struct Page {
    rows: Rows,
    limit: usize,
    max_bytes: usize,
}

/// Reads a page of rows from a snapshot. The function reads only the chunks that contain rows of the requested page.
/// In these chunks, the function reads only the Parquet pages that contain requested rows.
pub(crate) async fn page(inner: &Arc<Inner>, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows> {
    let opened = inner.at_hand(id, &request.view).await?;
    match read(inner, &opened, request).await {
        Err(error) if error.is_missing() => {
            read(inner, &inner.reopened(id, &request.view).await?, request).await
        }
        page => page,
    }
}

async fn read(inner: &Arc<Inner>, opened: &Arc<Opened>, request: &SnapshotPage) -> Result<Rows> {
    let columns = Arc::new(Columns::named(opened, &request.columns)?);
    let first = request.offset.min(opened.manifest.rows);
    let last = first.saturating_add(request.limit).min(opened.manifest.rows);
    if first == last {
        return Ok(Rows::new());
    }
    // Invariant: `starts` begins with 0 and ends with the number of rows, so both searches find an index.
    let begin = opened.starts.partition_point(|&start| start <= first) - 1;
    let end = opened.starts.partition_point(|&start| start < last);
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limit = place(last - first);
    let wanted = Wanted {
        chunks: begin..end,
        offset: place(first - opened.starts[begin]),
        limit,
        batch: limit.min(BATCH),
    };
    let page = Page { rows: Rows::new(), limit, max_bytes: request.max_bytes };
    let decoder = Decoder::new(inner, opened, &columns, wanted).await?;
    let (unfinished, page) = decoder
        .drive(page, |page, batch| {
            let full = json::add(batch, &mut page.rows, page.limit, page.max_bytes)?;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .await?;
    if unfinished.is_none() && page.rows.len() != limit && page.rows.bytes() <= request.max_bytes {
        return Err(Error::Altered(format!(
            "the Parquet file is damaged: it has {} rows at this position, but the footer lists {limit} rows",
            page.rows.len()
        )));
    }
    Ok(page.rows)
}
