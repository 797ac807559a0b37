//! Writes rows into a snapshot.

mod batches;
mod claim;
mod columns;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod database;
mod json;
mod normal;
mod parts;
mod write;

use std::sync::Arc;

use antiphon_results::{
    ColumnDefinition, Rows,
    snapshot::{Progress, RowSource, SnapshotId, SnapshotWrite, SnapshotWriteOptions},
};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use futures_util::FutureExt as _;
use tokio::sync::watch;

pub use self::batches::Batches;
pub(crate) use self::columns::{MAX_COLUMNS, columns, is_json};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use self::database::*;
use self::{
    batches::BatchFeed,
    claim::Claim,
    json::{JsonFeed, JsonRows},
    write::Write,
};
use crate::{
    error::{Error, Result},
    inner::Inner,
};

/// Starts to write the rows of a snapshot, and returns when the sample rows have arrived.
pub(crate) async fn begin(
    inner: &Arc<Inner>,
    id: &SnapshotId,
    row_source: RowSource,
    options: SnapshotWriteOptions,
) -> Result<SnapshotWrite> {
    if id.place.is_empty() || id.set.is_empty() {
        return Err(Error::Invalid("the ID of the snapshot is empty".into()));
    }
    let mut feed = Feed::open(row_source).await?;
    let claim = Claim::take(inner, id).await?;
    let mut write = Write::new(inner, claim);
    let first = match feed.first(options.sample).await {
        Ok(first) => first,
        Err(error) => {
            write.give_up().await;
            return Err(error);
        }
    };
    let mut sample = Rows::new();
    for batch in &first.batches {
        crate::read::rows(batch, &mut sample, options.sample)?;
    }
    let (progress, watched) = watch::channel(Progress::default());
    let rest = async move {
        match write.run(feed, &options, &progress).await {
            Ok(written) => Ok(written),
            Err(error) => {
                write.give_up().await;
                Err(error.of_writing().into())
            }
        }
    };
    Ok(SnapshotWrite::new(sample, first.columns, watched, rest.boxed()))
}

/// A source of batches. A later batch can have a wider schema than an earlier batch.
enum Feed {
    Batches(BatchFeed),
    Json(JsonFeed),
}

/// The first rows of a source, and the columns that occur in these rows.
struct First {
    batches: Vec<RecordBatch>,
    columns: Vec<ColumnDefinition>,
}

impl Feed {
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
        expect(clippy::unused_async, reason = "a database is waited for")
    )]
    async fn open(row_source: RowSource) -> Result<Self> {
        let own = match row_source {
            RowSource::Rows { columns, parts } => {
                return Ok(Self::Json(JsonFeed::new(JsonRows::declared(columns, parts))?));
            }
            RowSource::Own(own) => own,
            _ => return Err(foreign()),
        };
        let own = match own.downcast::<Batches>() {
            Ok(batches) => return Ok(Self::Batches(BatchFeed::new(*batches)?)),
            Err(own) => own,
        };
        #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
        let own = match own.downcast::<database::Opening>() {
            Ok(opening) => return Ok(Self::Json(JsonFeed::new(opening.await?)?)),
            Err(own) => own,
        };
        drop(own);
        Err(foreign())
    }

    /// Waits until `rows` rows have arrived, or until the source has ended. `next` returns the first rows again.
    async fn first(&mut self, rows: usize) -> Result<First> {
        match self {
            Self::Batches(feed) => feed.first(rows).await,
            Self::Json(feed) => feed.first(rows).await,
        }
    }

    /// Returns the next batch of rows, or `None` at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Batches(feed) => feed.next().await,
            Self::Json(feed) => feed.next().await,
        }
    }

    /// Returns a schema that can store all rows that have arrived so far.
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Batches(feed) => feed.schema(),
            Self::Json(feed) => feed.schema(),
        }
    }

    /// Returns the definitions of all columns that have occurred so far, for responses.
    fn columns(&self) -> Vec<ColumnDefinition> {
        match self {
            Self::Batches(feed) => columns(&feed.schema()),
            Self::Json(feed) => feed.columns(),
        }
    }
}

fn foreign() -> Error {
    Error::Invalid("the snapshot store does not support the row source; use JSON or Arrow batches".into())
}
