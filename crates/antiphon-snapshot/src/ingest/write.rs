use std::sync::Arc;

use antiphon_results::snapshot::{Progress, SnapshotWriteOptions, Truncation, Written};
use arrow::record_batch::RecordBatch;
use tokio::sync::watch;

use super::{Claim, Feed, claim::taken, parts::Parts};
use crate::{
    error::{Error, Result},
    inner::{Inner, StoredManifest},
    layout::data_name,
    writer::slices,
};

/// The write of one snapshot. If the write is dropped or cancelled, the files of the snapshot are removed.
pub(super) struct Write {
    inner: Arc<Inner>,
    /// The claim on the snapshot, or `None` after the write has ended.
    claim: Option<Claim>,
    parts: Option<Parts>,
}

/// The number of rows and bytes that a snapshot write has stored so far, and the limits of the write.
struct Count<'a> {
    rows: u64,
    options: &'a SnapshotWriteOptions,
    progress: &'a watch::Sender<Progress>,
}

impl Write {
    pub(super) fn new(inner: &Arc<Inner>, claim: Claim) -> Self {
        let parts = Parts::new(inner, claim.place.clone(), &claim.nonce);
        Self { inner: Arc::clone(inner), claim: Some(claim), parts: Some(parts) }
    }

    /// Writes all rows of the source.
    pub(super) async fn run(
        &mut self,
        mut feed: Feed,
        options: &SnapshotWriteOptions,
        progress: &watch::Sender<Progress>,
    ) -> Result<Written> {
        let over = || Error::Broken("the snapshot was cancelled".into());
        let parts = self.parts.as_mut().ok_or_else(over)?;
        let mut count = Count { rows: 0, options, progress };
        let mut truncated = None;
        while truncated.is_none()
            && let Some(batch) = feed.next().await?
        {
            truncated = count.add(parts, &batch, self.inner.config.chunk_bytes).await?;
        }
        let (schema, columns) = (feed.schema(), feed.columns());
        // Release the resources of the source before the end of the file is written.
        drop(feed);
        let stored = parts.finish(schema).await?;
        // Parquet cannot store rows that have no columns, so these rows would be lost.
        if stored.rows != count.rows {
            return Err(Error::Invalid(
                "the rows have no columns; add a column to each row, or declare the columns".into(),
            ));
        }
        progress.send_replace(Progress { rows: stored.rows, bytes: stored.bytes });
        let claim = self.claim.as_ref().ok_or_else(over)?;
        claim.confirm().await?;
        let manifest = StoredManifest::new(&stored, columns.clone(), truncated, data_name(&claim.nonce));
        if !self.inner.publish(&claim.place, &manifest).await? {
            return Err(taken());
        }
        // If the snapshot was removed just before the manifest was written, the deletion did not see the manifest. In
        // this case, this check fails, and the write is undone.
        claim.confirm().await?;
        // From here on the snapshot exists, even if this future is dropped.
        let claim = self.claim.take().ok_or_else(over)?;
        self.parts = None;
        claim.release().await;
        let mut written = Written::new(stored.rows, stored.bytes, stored.digest, columns);
        written.truncated = truncated;
        Ok(written)
    }

    /// Removes all files of the snapshot.
    pub(super) async fn give_up(&mut self) {
        undo(self.parts.take(), self.claim.take()).await;
    }
}

async fn undo(parts: Option<Parts>, claim: Option<Claim>) {
    // The writers stop first. Otherwise, the writers could still write during the removal.
    if let Some(parts) = parts {
        parts.give_up().await;
    }
    if let Some(claim) = claim {
        claim.undo().await;
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let (parts, claim) = (self.parts.take(), self.claim.take());
        if claim.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(undo(parts, claim));
        }
    }
}

impl Count<'_> {
    /// Writes as many rows of a batch as the limits allow. Returns the reason for a truncation if rows were omitted.
    async fn add(
        &mut self,
        parts: &mut Parts,
        batch: &RecordBatch,
        chunk_bytes: usize,
    ) -> Result<Option<Truncation>> {
        for slice in slices(batch, chunk_bytes) {
            if parts.made() >= self.options.max_bytes {
                return Ok(Some(Truncation::ByteLimit));
            }
            let room = self.options.max_rows - self.rows;
            let rows = slice.num_rows().min(usize::try_from(room).unwrap_or(usize::MAX));
            let more = rows < slice.num_rows();
            if rows > 0 {
                parts.write(if more { slice.slice(0, rows) } else { slice }).await?;
                self.rows += rows as u64;
                self.progress.send_replace(Progress { rows: self.rows, bytes: parts.sent() });
            }
            if more {
                return Ok(Some(Truncation::RowLimit));
            }
        }
        Ok(None)
    }
}
