use std::{collections::VecDeque, fmt, sync::Arc};

use antiphon_results::{BoxError, snapshot::RowSource};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use futures_util::stream::{BoxStream, Stream, StreamExt as _};

use super::{First, columns, normal::Normal};
use crate::error::{Error, Result};

/// Arrow batches on their way into a snapshot.
///
/// Views and dictionaries are written as what they stand for; all else is kept as it is. Unions and runs are refused,
/// and so are two columns of one name. Each batch must have the schema that was announced.
///
/// The stream is read as fast as rows are stored, and no faster. An error in it is the end of the snapshot: nothing of
/// it will be there.
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
    /// Batches of this schema.
    pub fn new(
        schema: SchemaRef,
        batches: impl Stream<Item = Result<RecordBatch, BoxError>> + Send + 'static,
    ) -> Self {
        Self { schema, batches: batches.boxed() }
    }

    /// The batches, for whoever wants a query's answer without saving it.
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

/// Batches that come, as they are written.
pub(super) struct BatchFeed {
    normal: Normal,
    batches: BoxStream<'static, Result<RecordBatch, BoxError>>,
    /// Those that were looked at already.
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
