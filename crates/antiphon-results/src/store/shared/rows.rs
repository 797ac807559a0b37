//! Stores rows as a log with one entry for each row, so that a page is a range of the log.

use antiphon_store::{ENTRY_COST, MAX_VALUE, Retrying, Store};
use bytes::Bytes;
use chrono::TimeDelta;

use super::{Shared, record::Id, storage};
use crate::{
    error::{DualResponseError, Result},
    rows::Rows,
};

/// Maximum size of a row in bytes.
const MAX_ROW: usize = Retrying::<dyn Store>::MAX_VALUE;

/// Overhead of a row in an append, in bytes: the entry, and the stamp that makes retries safe.
const ROW_COST: usize = ENTRY_COST + 16;

/// Maximum number of rows in one read.
const PAGE: u64 = 2_000;

/// Maximum time to write the rows of a result set and to save the result set.
const MAKING: TimeDelta = TimeDelta::hours(1);

impl Shared {
    pub(super) async fn put_rows(&self, id: Id<'_>, rows: &Rows) -> Result<()> {
        if let Some((at, row)) = rows.iter().enumerate().find(|(_, row)| row.len() > MAX_ROW) {
            return Err(too_large(at, row.len()));
        }
        if rows.is_empty() {
            return Ok(());
        }
        // If the process stops before the set is saved, this alarm removes the rows.
        self.wake_by(id, self.now() + MAKING).await?;
        let log = id.rows();
        let mut written = 0;
        while written < rows.len() {
            let chunk = chunk(rows, written);
            // The append succeeds only if the log has exactly the rows of the previous chunks. So a chunk is not
            // written twice if the response to an append was lost.
            written += chunk.len();
            self.store.append(&log, (written - chunk.len()) as u64, chunk).await.map_err(storage)?;
        }
        Ok(())
    }

    pub(super) async fn rows(&self, id: Id<'_>, offset: u64, limit: u64) -> Result<Rows> {
        let log = id.rows();
        let mut rows = Rows::new();
        loop {
            let read = rows.len() as u64;
            let wanted = limit.saturating_sub(read).min(PAGE);
            let Some(from) = offset.checked_add(read).filter(|_| wanted > 0) else { return Ok(rows) };
            let wanted = usize::try_from(wanted).expect("a page is small");
            let entries = self.store.read(&log, from, wanted).await.map_err(storage)?;
            if entries.is_empty() {
                return Ok(rows);
            }
            for entry in entries {
                rows.push_json(std::str::from_utf8(&entry).map_err(storage)?).map_err(storage)?;
            }
        }
    }
}

/// Returns the rows from `start` on that fit in one append, but at least one row.
fn chunk(rows: &Rows, start: usize) -> Vec<Bytes> {
    let mut chunk = Vec::new();
    // For many small rows, the stamps need more bytes than the store's limit for one value leaves.
    let (mut bytes, mut cost) = (0, 0);
    for row in (start..rows.len()).map_while(|at| rows.get(at)) {
        bytes += row.len();
        cost += row.len() + ROW_COST;
        if !chunk.is_empty() && (bytes > MAX_ROW || cost > MAX_VALUE) {
            break;
        }
        chunk.push(Bytes::copy_from_slice(row.as_bytes()));
    }
    chunk
}

fn too_large(at: usize, bytes: usize) -> DualResponseError {
    DualResponseError::TooLarge(format!(
        "row {at} has {bytes} bytes, and the limit of a shared store is {MAX_ROW} bytes; omit the largest \
         column, or use a named query"
    ))
}
