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
    page::Sort,
    rows::{Row, Rows},
};

/// The most batches that are fetched ahead.
const MAX_PREFETCH: usize = 1024;

/// How rows are streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct StreamOptions {
    /// How many rows a batch has; the last may have fewer, and others where a server gives fewer. Default: 100.
    pub batch_size: u64,
    /// How many batches are fetched before they are asked for. Default: 1. With 0 nothing is. At most 1024.
    pub prefetch: usize,
    /// Where they begin. Default: with the first.
    pub offset: u64,
    /// How they are sorted. Default: as the set is.
    pub sort: Option<Sort>,
}

impl StreamOptions {
    /// As the defaults are.
    pub fn new() -> Self {
        Self { batch_size: 100, prefetch: 1, offset: 0, sort: None }
    }

    /// This many rows a batch.
    pub fn with_batch_size(mut self, rows: u64) -> Self {
        self.batch_size = rows;
        self
    }

    /// This many batches ahead.
    pub fn with_prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }

    /// Begins here.
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sorted like this.
    pub fn with_sort(mut self, sort: Sort) -> Self {
        self.sort = Some(sort);
        self
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ParsedDualResponse {
    /// All rows, a batch at a time.
    ///
    /// Nothing is requested before the stream is first polled. A server that can sends all rows in one answer,
    /// which is read as fast as the stream is; from others they are fetched page by page. Dropping the stream
    /// ends it: no more is requested than was fetched ahead.
    ///
    /// The stream ends after an error. That rows are missing is an error: as long as there is none, they are
    /// all there.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), and when pages do not follow on each other, or the answer breaks off.
    pub fn fetch_stream(
        &self,
        options: StreamOptions,
    ) -> impl Stream<Item = Result<Vec<Row>>> + Send + Unpin + use<> {
        self.fetch_stream_as(options)
    }

    /// All rows, read as `T`, a batch at a time. With `Box<RawValue>` they stay the JSON they came as.
    ///
    /// # Errors
    ///
    /// As for [`fetch_stream`](Self::fetch_stream), and when a row is no `T`.
    pub fn fetch_stream_as<T: DeserializeOwned + Send + 'static>(
        &self,
        options: StreamOptions,
    ) -> impl Stream<Item = Result<Vec<T>>> + Send + Unpin + use<T> {
        batches(Arc::clone(&self.inner), options, |rows| rows.read().map_err(|error| wrong(error.into())))
    }

    /// All rows as JSON that nobody has looked into, a batch at a time: the fastest way to pass them on.
    ///
    /// That each is a JSON object is taken from the server; what is inside is as good as it is.
    ///
    /// # Errors
    ///
    /// As for [`fetch_stream`](Self::fetch_stream).
    pub fn fetch_stream_text(
        &self,
        options: StreamOptions,
    ) -> impl Stream<Item = Result<Rows>> + Send + Unpin + use<> {
        batches(Arc::clone(&self.inner), options, Ok)
    }
}

/// Batches, fetched ahead as text and read where they are asked for: what a row is read into is then made and dropped
/// by one thread, which an allocator likes.
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

/// Who fetches batches.
enum Supply {
    /// Whoever asks for them.
    Here(Source),
    /// A task that is not there yet.
    Idle(Source, usize),
    /// A task. It sends `None` at the end, so that its own end cannot be mistaken for that of the rows.
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
            None => Err(broken("the task that fetches rows has died")),
        }
    }
}

/// Fetches batches as long as there is room for them: a batch is begun when it has a place.
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

/// A task that ends with its stream.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where batches come from.
struct Source {
    inner: Arc<Inner>,
    /// What is asked for next.
    asked: FetchOptions,
    /// What it may come as.
    accept: &'static str,
    state: State,
}

enum State {
    /// A request is due.
    Ask,
    /// An answer with all rows is being read, of which so many were.
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

    /// The next rows; `None` at the end.
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
                    // Fewer rows than the response counted: some are gone since, or the server gives only so
                    // many at once. A page tells which, since it says where it begins and whether more come.
                    let short = self.asked.offset < self.inner.content.total_count;
                    self.accept = JSON;
                    self.state = if short { State::Ask } else { State::Done };
                }
                State::Done => return Ok(None),
            }
        }
    }

    /// Asks for rows: a page is returned, lines are gone on with.
    async fn ask(&mut self) -> Result<Option<FetchResult<Box<RawValue>>>> {
        // A limit would be one of the lines; a server that knows none of them gives a page as large as it likes.
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
