//! Computes and stores the statistics of columns.

mod column;
mod histogram;
mod range;
mod sketch;

use std::{ops::ControlFlow, sync::Arc};

use antiphon_results::snapshot::{ColumnStats, SnapshotId, View};
use arrow::record_batch::RecordBatch;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use self::column::Profile;
use super::{
    columns::Columns,
    decode::{Decoder, Wanted},
};
use crate::{
    error::{Error, Result},
    inner::{Inner, Opened, blocking},
};

/// The maximum number of columns whose values are read for statistics. For all other columns, the statistics come only
/// from the footer of the file.
const PROFILED: usize = 200;

/// The maximum size of stored statistics in bytes.
const MAX_KEPT: u64 = 16 * 1024 * 1024;

/// Returns the statistics of a snapshot's columns. The statistics are computed once and then stored. Concurrent
/// callers wait for the same computation of the statistics.
pub(crate) async fn stats(inner: &Arc<Inner>, id: &SnapshotId) -> Result<Vec<ColumnStats>> {
    let opened = inner.opened(id, &View::default()).await?;
    match of(inner, &opened).await {
        Err(error) if error.is_missing() => of(inner, &inner.reopened(id, &View::default()).await?).await,
        stats => stats,
    }
}

async fn of(inner: &Arc<Inner>, opened: &Arc<Opened>) -> Result<Vec<ColumnStats>> {
    let stats = opened.stats.get_or_try_init(|| async {
        if let Some(kept) = kept(inner, opened).await? {
            return Ok::<_, Error>(kept);
        }
        let found = profile(inner, opened).await?;
        keep(inner, opened, &found).await?;
        Ok(found)
    });
    Ok(stats.await?.clone())
}

/// Returns the stored statistics of a snapshot, unless they belong to other columns.
async fn kept(inner: &Inner, opened: &Opened) -> Result<Option<Vec<ColumnStats>>> {
    let found = match inner.store.objects.get(&opened.place.stats()).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        found => found?,
    };
    if found.meta.size > MAX_KEPT {
        return Ok(None);
    }
    let bytes = found.bytes().await?;
    let stats: Option<Vec<ColumnStats>> = serde_json::from_slice(&bytes).ok();
    let names = opened.manifest.columns.iter().map(|column| &column.name);
    Ok(stats.filter(|stats| stats.iter().map(|column| &column.name).eq(names)))
}

/// Stores the statistics of a snapshot. If another process has already stored statistics, the stored statistics stay
/// unchanged.
async fn keep(inner: &Inner, opened: &Opened, stats: &[ColumnStats]) -> Result<()> {
    let text = serde_json::to_vec(stats).map_err(Error::Manifest)?;
    let options = PutOptions::from(PutMode::Create);
    match inner.store.objects.put_opts(&opened.place.stats(), PutPayload::from(text), options).await {
        Ok(_) | Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
        }
        // The computed statistics are still valid. The next request tries to store them again.
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "column statistics could not be stored; the next request computes them again"
            );
        }
    }
    Ok(())
}

async fn profile(inner: &Arc<Inner>, opened: &Arc<Opened>) -> Result<Vec<ColumnStats>> {
    let described = Arc::clone(opened);
    let ranges = blocking(move || range::of_columns(&described)).await?;
    let looked: Vec<usize> = (0..ranges.len().min(PROFILED)).collect();
    let columns = Arc::new(Columns::at(opened, &looked)?);
    let mut profiles: Box<[Profile]> = columns
        .schema()
        .fields()
        .iter()
        .zip(&ranges)
        .map(|(field, range)| Profile::new(field, range))
        .collect();
    for chunk in 0..opened.starts.len() - 1 {
        let decoder = Decoder::new(inner, opened, &columns, Wanted::chunk(chunk)).await?;
        (_, profiles) = decoder.drive(profiles, look).await?;
    }
    let mut stats: Vec<ColumnStats> = profiles.into_iter().map(Profile::finish).collect();
    for (field, range) in opened.schema().fields().iter().zip(ranges).skip(stats.len()) {
        stats.push(range.alone(field));
    }
    Ok(stats)
}

fn look(profiles: &mut Box<[Profile]>, batch: &RecordBatch) -> Result<ControlFlow<()>> {
    for (profile, array) in profiles.iter_mut().zip(batch.columns()) {
        profile.add(array)?;
    }
    Ok(ControlFlow::Continue(()))
}
