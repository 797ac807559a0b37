//! The rows of a query, as a database gives them: as JSON, with what the database says of the columns.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::future::Future;

use antiphon_results::{BoxError, Rows, snapshot::Intake};
use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt as _},
};
use sqlx::{Database, pool::PoolConnection};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

#[cfg(feature = "mysql")]
pub use self::mysql::{MySqlQuery, from_mysql};
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresQuery, from_postgres};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteQuery, from_sqlite};
use super::json::JsonRows;
use crate::error::{Error, Result};

/// Asks the database what the columns are, and begins to read.
pub(super) type Opening = BoxFuture<'static, Result<JsonRows>>;

/// How many bytes of rows are handed over at once.
const PART_BYTES: usize = 256 * 1024;

/// How many rows.
const PART_ROWS: usize = 1024;

fn intake(opening: Opening) -> Intake {
    Intake::Own(Box::new(opening))
}

fn failed(error: impl Into<BoxError>) -> Error {
    Error::Source(error.into())
}

/// The statement without what would end it too soon.
fn statement(sql: &str) -> &str {
    sql.trim().trim_end_matches(|end: char| end == ';' || end.is_whitespace())
}

/// Rows from whoever reads the database. When nobody takes them any more, the reader is dropped.
fn rows<F>(read: impl FnOnce(Sink) -> F) -> BoxStream<'static, Result<Rows, BoxError>>
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(2);
    let reading = read(Sink { sender: sender.clone(), rows: Rows::new() });
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        let ended = tokio::select! {
            ended = reading => ended,
            () = sender.closed() => return,
        };
        if let Err(error) = ended {
            let _ = sender.send(Err(error)).await;
        }
    }));
    stream::unfold((receiver, Some(task)), |(mut receiver, task)| async move {
        if let Some(part) = receiver.recv().await {
            return Some((part, (receiver, task)));
        }
        // A reader that panicked has not said so, and what it gave is not the whole.
        let broken = task?.await.err()?;
        Some((Err(BoxError::from(broken)), (receiver, None)))
    })
    .boxed()
}

/// Where rows go.
#[derive(Debug)]
struct Sink {
    sender: mpsc::Sender<Result<Rows, BoxError>>,
    rows: Rows,
}

impl Sink {
    /// Takes the text of a row. Waits while nobody takes what there is.
    async fn push(&mut self, row: &str) -> Result<(), BoxError> {
        self.rows.push_json(row)?;
        // The first rows go at once: somebody waits for them.
        if self.rows.len() >= PART_ROWS || self.rows.bytes() >= PART_BYTES || self.sender.capacity() == 2 {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), BoxError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        Ok(self.sender.send(Ok(std::mem::take(&mut self.rows))).await.map_err(|_| "nobody takes the rows")?)
    }
}

/// A connection that goes back to its pool only when its answer was read to the end. Else it is closed, so that
/// neither side goes on with what nobody wants.
struct Lease<D: Database>(Option<PoolConnection<D>>);

impl<D: Database> Lease<D> {
    fn new(connection: PoolConnection<D>) -> Self {
        Self(Some(connection))
    }

    fn connection(&mut self) -> Result<&mut D::Connection, BoxError> {
        Ok(&mut **self.0.as_mut().ok_or("the connection is gone")?)
    }

    fn end(mut self) {
        drop(self.0.take());
    }
}

impl<D: Database> Drop for Lease<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

/// A row that is written member by member.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
fn object(
    names: &[String],
    mut value: impl FnMut(usize) -> Result<String, BoxError>,
) -> Result<String, BoxError> {
    let mut row = String::from("{");
    for (at, name) in names.iter().enumerate() {
        if at > 0 {
            row.push(',');
        }
        row.push_str(name);
        row.push(':');
        let value = value(at).map_err(|error| {
            format!("column {name} cannot be read: {error}; cast it to text in the query")
        })?;
        row.push_str(&value);
    }
    row.push('}');
    Ok(row)
}

/// Names as members are written.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>> {
    let quoted = names.into_iter().map(serde_json::to_string).collect::<Result<_, _>>();
    quoted.map_err(|error| Error::Broken(error.into()))
}

#[cfg(test)]
mod tests {
    use antiphon_results::Rows;
    use futures_util::StreamExt as _;

    use super::rows;

    #[tokio::test]
    async fn a_reader_that_panics_is_an_error_and_not_the_end() {
        let mut parts = rows(|mut sink| async move {
            sink.push("{\"a\":1}").await?;
            sink.flush().await?;
            panic!("the reader is broken");
        });
        assert_eq!(parts.next().await.unwrap().unwrap().len(), 1);
        assert!(parts.next().await.unwrap().is_err());
        assert!(parts.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_ends_is_the_end() {
        let parts = rows(|mut sink| async move {
            sink.push("{\"a\":1}").await?;
            sink.flush().await
        });
        let parts: Vec<Rows> = parts.map(Result::unwrap).collect().await;
        assert_eq!(parts.iter().map(Rows::len).sum::<usize>(), 1);
    }
}
