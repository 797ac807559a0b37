use std::sync::Arc;

use futures_util::{Stream, stream};
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::{sync::mpsc, task::AbortHandle};

use super::{
    error::{DualResponseClientError, FetchError, Result},
    exchange::{JSON, NDJSON, content_type, cursor},
    lines::{Lines, wrong},
    page::{FetchOptions, FetchResult, asked},
    parsed::{Inner, ParsedDualResponse},
};
use crate::{
    page::{DEFAULT_PAGE_SIZE, Sort},
    rows::{Row, Rows},
};

/// Maximum number of prefetched batches.
const MAX_PREFETCH: usize = 1024;

/// The options of [`fetch_stream`](super::ParsedDualResponse::fetch_stream).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct StreamOptions {
    batch_size: u64,
    prefetch: usize,
    offset: u64,
    sort: Option<Sort>,
}

impl StreamOptions {
    /// Creates options with the default values.
    pub fn new() -> Self {
        Self { batch_size: DEFAULT_PAGE_SIZE, prefetch: 1, offset: 0, sort: None }
    }

    /// Sets the number of rows in a batch. Default: [`DEFAULT_PAGE_SIZE`].
    ///
    /// The last batch can have fewer rows than the other batches. If the server returns fewer rows than requested, all
    /// batches can have fewer rows.
    pub fn with_batch_size(mut self, rows: u64) -> Self {
        self.batch_size = rows;
        self
    }

    /// Sets the number of batches that the client fetches in advance. With 0, the client fetches no batch in advance.
    /// The maximum is 1024 batches. Default: 1.
    pub fn with_prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }

    /// Sets the position of the first row. Default: 0.
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets the sort column and direction. Default: the order in which the result set returns its rows.
    pub fn with_sort(mut self, sort: impl Into<Option<Sort>>) -> Self {
        self.sort = sort.into();
        self
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ParsedDualResponse {
    /// Streams all rows in batches.
    ///
    /// The first poll of the stream sends the first request. If the server supports streaming, one response contains
    /// all rows. The client reads a response with all rows only as fast as you consume the stream. If the server does
    /// not support streaming, the client fetches the rows page by page. After you drop the stream, the client sends no
    /// more requests.
    ///
    /// The stream ends after an error. Missing rows are an error, so a stream that ends without an error has all
    /// rows.
    ///
    /// # Errors
    ///
    /// The stream returns the errors of [`fetch`](Self::fetch). The stream also returns an error if the server's pages
    /// have gaps or overlaps, or if the response is interrupted.
    pub fn fetch_stream(
        &self,
        options: StreamOptions,
    ) -> impl Stream<Item = Result<Vec<Row>>> + Send + Unpin + use<> {
        self.fetch_stream_as(options)
    }

    /// Streams all rows in batches, and deserializes each row as `T`. If `T` is `Box<RawValue>`, each row stays in its
    /// original JSON form.
    ///
    /// # Errors
    ///
    /// The stream returns the errors of [`fetch_stream`](Self::fetch_stream). The stream also returns an error if a
    /// row cannot be deserialized as `T`.
    pub fn fetch_stream_as<T: DeserializeOwned + Send + 'static>(
        &self,
        options: StreamOptions,
    ) -> impl Stream<Item = Result<Vec<T>>> + Send + Unpin + use<T> {
        batches(Arc::clone(&self.inner), options, |rows| rows.read().map_err(|error| wrong(error.into())))
    }

    /// Streams all rows in batches, as JSON text. The client does not parse the rows, so this method is the fastest
    /// way to forward rows.
    ///
    /// The client checks only that each row starts and ends like a JSON object.
    ///
    /// # Errors
    ///
    /// The stream returns the errors of [`fetch_stream`](Self::fetch_stream).
    pub fn fetch_stream_text(
        &self,
        options: StreamOptions,
    ) -> impl Stream<Item = Result<Rows>> + Send + Unpin + use<> {
        batches(Arc::clone(&self.inner), options, Ok)
    }
}

/// Creates a stream of batches. Batches are prefetched as text, and parsed when the stream is read. So parsed rows are
/// allocated and freed in the same thread, which is faster.
fn batches<T: Send + 'static>(
    inner: Arc<Inner>,
    options: StreamOptions,
    read: fn(Rows) -> Result<T>,
) -> impl Stream<Item = Result<T>> + Send + Unpin {
    let prefetch = options.prefetch.min(MAX_PREFETCH);
    let source = Source::new(inner, options);
    let supply = if prefetch == 0 { Supply::Here(source) } else { Supply::Idle(source, prefetch) };
    Box::pin(stream::unfold(supply, move |supply| async move {
        match supply.next().await {
            Ok((Some(batch), supply)) => match read(batch) {
                Ok(batch) => Some((Ok(batch), supply)),
                Err(error) => Some((Err(error), Supply::Done)),
            },
            Ok((None, _)) => None,
            Err(error) => Some((Err(error), Supply::Done)),
        }
    }))
}

/// The way in which batches are fetched.
enum Supply {
    /// The reader of the stream fetches the batches.
    Here(Source),
    /// A task will fetch the batches, but has not started.
    Idle(Source, usize),
    /// A task fetches the batches. The task sends `None` after the last batch. So the reader can distinguish the end of
    /// the rows from a task that stopped early.
    Ahead(mpsc::Receiver<Result<Option<Rows>>>, Task),
    Done,
}

impl Supply {
    async fn next(self) -> Result<(Option<Rows>, Self)> {
        match self {
            Self::Here(mut source) => Ok((source.batch().await?, Self::Here(source))),
            Self::Idle(source, prefetch) => {
                let (tx, rx) = mpsc::channel(prefetch);
                let task = Task(tokio::spawn(ahead(source, tx)).abort_handle());
                Self::receive(rx, task).await
            }
            Self::Ahead(rx, task) => Self::receive(rx, task).await,
            Self::Done => Ok((None, Self::Done)),
        }
    }

    async fn receive(
        mut rx: mpsc::Receiver<Result<Option<Rows>>>,
        task: Task,
    ) -> Result<(Option<Rows>, Self)> {
        match rx.recv().await {
            Some(batch) => Ok((batch?, Self::Ahead(rx, task))),
            None => Err(broken("the background task that fetches the rows has ended unexpectedly")),
        }
    }
}

/// Fetches batches while the channel has room. The task reserves a place in the channel before it fetches a batch.
async fn ahead(mut source: Source, tx: mpsc::Sender<Result<Option<Rows>>>) {
    while let Ok(place) = tx.reserve().await {
        let batch = source.batch().await;
        let more = matches!(batch, Ok(Some(_)));
        place.send(batch);
        if !more {
            return;
        }
    }
}

/// A task that is aborted when its stream is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The source from which a stream gets its batches.
struct Source {
    inner: Arc<Inner>,
    /// Options of the next request for rows.
    asked: FetchOptions,
    /// Media types that the client accepts in a response.
    accept: &'static str,
    state: State,
}

enum State {
    /// The next step is a request for rows.
    Ask,
    /// A response with all rows is being read. The `u64` is the number of rows read so far.
    Lines(Box<Lines>, u64),
    Done,
}

impl Source {
    fn new(inner: Arc<Inner>, options: StreamOptions) -> Self {
        let asked = FetchOptions {
            offset: options.offset,
            limit: options.batch_size.max(1),
            sort: options.sort,
            cursor: None,
        };
        Self { inner, asked, accept: NDJSON, state: State::Ask }
    }

    /// Returns the next rows of the stream, or `None` at the end of the stream.
    async fn batch(&mut self) -> Result<Option<Rows>> {
        loop {
            match &mut self.state {
                State::Ask => {
                    if let Some(page) = self.ask().await? {
                        self.state = match page.follow(self.asked.offset)? {
                            Some(next) => {
                                self.asked.offset = next;
                                self.asked.cursor.clone_from(&page.cursor);
                                State::Ask
                            }
                            None => State::Done,
                        };
                        let mut rows = Rows::new();
                        for row in &page.data {
                            rows.push_json(row.get()).map_err(|error| wrong(error.into()))?;
                        }
                        return Ok((!rows.is_empty()).then_some(rows));
                    }
                }
                State::Lines(lines, read) => {
                    let size = usize::try_from(self.asked.limit).unwrap_or(usize::MAX);
                    let rows = lines.batch(&self.inner, size).await?;
                    *read += rows.len() as u64;
                    if !rows.is_empty() {
                        return Ok(Some(rows));
                    }
                    self.asked.offset = self.asked.offset.saturating_add(*read);
                    // There are fewer rows than the dual response counted. Either rows were removed, or the server
                    // limits the number of rows in a response. The next page shows which of the two is the case,
                    // because a page contains its position and whether more rows follow.
                    let short = self.asked.offset < self.inner.content.total_count;
                    self.accept = JSON;
                    self.state = if short { State::Ask } else { State::Done };
                }
                State::Done => return Ok(None),
            }
        }
    }

    /// Requests rows from the server. Returns a page, or stores a response with all rows in `state`.
    async fn ask(&mut self) -> Result<Option<FetchResult<Box<RawValue>>>> {
        // The request has no limit, because a limit would omit lines. A server that does not support NDJSON chooses the
        // page size itself.
        let body = asked(&self.asked, self.accept == NDJSON)?;
        let inner = &self.inner;
        let mut patience = inner.patience();
        let answer = loop {
            match inner.within(inner.send(Method::POST, self.accept, body.clone())).await {
                Ok(answer) => break answer,
                Err(error) => patience.bear(error).await?,
            }
        };
        let kind = content_type(&answer);
        let lines = matches!(&*kind, "application/x-ndjson" | "application/ndjson" | "application/jsonl");
        if lines && self.accept == NDJSON {
            self.state = State::Lines(Box::new(Lines::new(answer)?), 0);
            return Ok(None);
        }
        self.accept = JSON;
        let cursor = cursor(&answer);
        let body = inner.within(inner.page(answer)).await?;
        Ok(Some(FetchResult { cursor, ..inner.read_page(&body, &self.asked)? }))
    }
}

fn broken(message: &str) -> DualResponseClientError {
    DualResponseClientError::Fetch(FetchError::new(message))
}
