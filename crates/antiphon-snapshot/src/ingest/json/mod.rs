//! Reads rows of JSON text, and converts them to Arrow batches.

mod kind;
mod number;
mod table;
mod widen;

use std::collections::VecDeque;

use antiphon_results::{BoxError, ColumnDefinition, Rows, snapshot::ColumnHint};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use futures_util::stream::{BoxStream, StreamExt as _};

use self::table::Table;
pub(super) use self::widen::widen;
use super::First;
use crate::error::{Error, Result};

/// The maximum number of rows that are converted to one batch.
const CHUNK_ROWS: usize = 8192;

/// The maximum number of bytes of JSON that are converted to one batch.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Rows as JSON text, with the columns that are known before the rows are read.
pub(crate) struct JsonRows {
    pub(crate) columns: Vec<(ColumnDefinition, ColumnHint)>,
    pub(crate) parts: BoxStream<'static, Result<Rows, BoxError>>,
}

impl JsonRows {
    pub(super) fn declared(
        columns: Option<Vec<ColumnDefinition>>,
        parts: BoxStream<'static, Result<Rows, BoxError>>,
    ) -> Self {
        let hinted = |column: ColumnDefinition| {
            let hint = ColumnHint::of(&column);
            (column, hint)
        };
        Self { columns: columns.unwrap_or_default().into_iter().map(hinted).collect(), parts }
    }
}

/// A feed that converts incoming rows to batches. The schema of each batch can store all rows that have arrived so
/// far.
pub(super) struct JsonFeed {
    parts: BoxStream<'static, Result<Rows, BoxError>>,
    /// Rows that have arrived but are not converted yet.
    waiting: VecDeque<Rows>,
    table: Table,
    ended: bool,
}

impl JsonFeed {
    pub(super) fn new(JsonRows { columns, parts }: JsonRows) -> Result<Self> {
        Ok(Self { parts, waiting: VecDeque::new(), table: Table::new(columns)?, ended: false })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    pub(super) fn columns(&self) -> Vec<ColumnDefinition> {
        self.table.columns()
    }

    /// Converts the first rows, and keeps them for a second conversion, because later rows can change the types of the
    /// columns.
    pub(super) async fn first(&mut self, rows: usize) -> Result<First> {
        self.gather(rows, usize::MAX).await?;
        let mut left = rows;
        let mut first = Vec::new();
        for part in &self.waiting {
            let some = part.slice(0, left);
            left -= some.len();
            first.push(some);
        }
        let (mut table, batch) = take(self.table.clone(), first).await?;
        if batch.num_rows() == 0 {
            table = self.table.clone();
        }
        Ok(First { batches: vec![batch], columns: table.columns() })
    }

    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.gather(CHUNK_ROWS, CHUNK_BYTES).await?;
        let chunk = self.chunk();
        if chunk.is_empty() {
            return Ok(None);
        }
        let batch;
        (self.table, batch) = take(std::mem::take(&mut self.table), chunk).await?;
        Ok(Some(batch))
    }

    /// Waits until `rows` rows or `bytes` bytes have arrived, or until the source has ended.
    async fn gather(&mut self, rows: usize, bytes: usize) -> Result<()> {
        let enough = |waiting: &VecDeque<Rows>| {
            waiting.iter().map(Rows::len).sum::<usize>() >= rows
                || waiting.iter().map(Rows::bytes).sum::<usize>() >= bytes
        };
        while !self.ended && !enough(&self.waiting) {
            match self.parts.next().await {
                Some(part) => {
                    let part = part.map_err(Error::Source)?;
                    if !part.is_empty() {
                        self.waiting.push_back(part);
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }

    /// Takes as many waiting rows as fit in one batch.
    fn chunk(&mut self) -> Vec<Rows> {
        let mut chunk = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while rows < CHUNK_ROWS
            && bytes < CHUNK_BYTES
            && let Some(part) = self.waiting.pop_front()
        {
            let average = part.bytes() / part.len().max(1) + 1;
            let room = (CHUNK_ROWS - rows).min((CHUNK_BYTES - bytes) / average + 1);
            if part.len() > room {
                self.waiting.push_front(part.slice(room, usize::MAX));
            }
            let part = if part.len() > room { part.slice(0, room) } else { part };
            rows += part.len();
            bytes += part.bytes();
            chunk.push(part);
        }
        chunk
    }
}

/// Converts rows on a blocking thread.
async fn take(mut table: Table, chunk: Vec<Rows>) -> Result<(Table, RecordBatch)> {
    let work = tokio::task::spawn_blocking(move || {
        let batch = table.take(&chunk)?;
        Ok((table, batch))
    });
    work.await.map_err(|error| Error::Broken(error.into()))?
}
