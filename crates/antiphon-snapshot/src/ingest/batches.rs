use std::{collections::VecDeque, fmt, sync::Arc};

use antiphon_results::{BoxError, snapshot::RowSource};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use futures_util::stream::{BoxStream, Stream, StreamExt as _};

use super::{First, columns, normal::Normal};
use crate::error::{Error, Result};

/// Arrow record batches as the source of a snapshot's rows.
///
/// String views and binary views are stored as plain strings and bytes. Dictionary columns are stored as the values
/// that they refer to. Unions, run-end encoded columns, and two columns with the same name are rejected. All other
/// Arrow types are stored unchanged. Each batch must have the schema that was passed to [`new`](Self::new).
///
/// The writer reads batches from the stream only as fast as it can store the rows. If the stream returns an error, the
/// write fails and no snapshot remains.
///
/// ```
/// use std::sync::Arc;
///
/// use antiphon_results::Source;
/// use antiphon_snapshot::{
///     Batches,
///     arrow::{
///         array::{Int64Array, RecordBatch},
///         datatypes::{DataType, Field, Schema},
///     },
/// };
/// use futures_util::stream;
///
/// let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
/// let ids = Int64Array::from_iter_values(1..=1000);
/// let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids)])?;
/// let source = Source::snapshot(Batches::new(schema, stream::iter([Ok(batch)])));
/// # let _ = source;
/// # Ok::<(), antiphon_snapshot::arrow::error::ArrowError>(())
/// ```
pub struct Batches {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: BoxStream<'static, Result<RecordBatch, BoxError>>,
}

impl Batches {
    /// Creates a source from a stream of batches with this schema.
    pub fn new(
        schema: SchemaRef,
        batches: impl Stream<Item = Result<RecordBatch, BoxError>> + Send + 'static,
    ) -> Self {
        Self { schema, batches: batches.boxed() }
    }

    /// Returns the stream of batches. Use this method to read the rows without storing them.
    pub fn into_stream(self) -> BoxStream<'static, Result<RecordBatch, BoxError>> {
        self.batches
    }
}

impl From<Batches> for RowSource {
    fn from(batches: Batches) -> Self {
        Self::Own(Box::new(batches))
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// A feed that converts incoming batches to types that can be stored.
pub(super) struct BatchFeed {
    normal: Normal,
    batches: BoxStream<'static, Result<RecordBatch, BoxError>>,
    /// Batches that were read for the sample and are not returned yet.
    seen: VecDeque<RecordBatch>,
}

impl BatchFeed {
    pub(super) fn new(Batches { schema, batches }: Batches) -> Result<Self> {
        Ok(Self { normal: Normal::new(schema)?, batches, seen: VecDeque::new() })
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(self.normal.schema())
    }

    pub(super) async fn first(&mut self, rows: usize) -> Result<First> {
        let mut taken = 0;
        while taken < rows {
            let Some(batch) = self.pull().await? else { break };
            taken += batch.num_rows();
            self.seen.push_back(batch);
        }
        Ok(First { batches: self.seen.iter().cloned().collect(), columns: columns(&self.schema()) })
    }

    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.seen.pop_front() {
            Some(batch) => Ok(Some(batch)),
            None => self.pull().await,
        }
    }

    async fn pull(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.batches.next().await else { return Ok(None) };
        let batch = batch.map_err(Error::Source)?;
        if !self.normal.changes() {
            return self.normal.take(&batch).map(Some);
        }
        let normal = self.normal.clone();
        let work = tokio::task::spawn_blocking(move || normal.take(&batch));
        work.await.map_err(|error| Error::Broken(error.into()))?.map(Some)
    }
}
