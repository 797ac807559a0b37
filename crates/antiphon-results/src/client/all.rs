use std::fmt;

use serde::de::DeserializeOwned;

use super::{
    error::{DualResponseClientError, Result},
    page::FetchOptions,
    parsed::ParsedDualResponse,
};
use crate::{page::Sort, rows::Row};

/// The default maximum number of rows that `fetch_all` keeps in memory.
const MAX_ROWS: u64 = 100_000;

type Progress<'a> = Box<dyn FnMut(u64, u64) + Send + 'a>;

/// The options of [`fetch_all`](ParsedDualResponse::fetch_all).
#[must_use]
pub struct FetchAllOptions<'a> {
    batch_size: u64,
    on_progress: Option<Progress<'a>>,
    max_rows: u64,
    sort: Option<Sort>,
}

impl<'a> FetchAllOptions<'a> {
    /// Creates options with the default values.
    pub fn new() -> Self {
        Self { batch_size: 500, on_progress: None, max_rows: MAX_ROWS, sort: None }
    }

    /// Sets the number of rows in each request. Default: 500.
    pub fn with_batch_size(mut self, rows: u64) -> Self {
        self.batch_size = rows;
        self
    }

    /// Sets a callback that is called after each batch, with the number of fetched rows and the total number of rows.
    /// Default: none.
    pub fn with_progress(mut self, progress: impl FnMut(u64, u64) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(progress));
        self
    }

    /// Sets the maximum number of rows. If the result set has more rows than this maximum, the call returns an error.
    /// To read a larger result set, use [`fetch_stream`](ParsedDualResponse::fetch_stream). Default: 100 000.
    pub fn with_max_rows(mut self, rows: u64) -> Self {
        self.max_rows = rows;
        self
    }

    /// Sets the sort column and direction. Default: the order in which the result set returns its rows.
    pub fn with_sort(mut self, sort: impl Into<Option<Sort>>) -> Self {
        self.sort = sort.into();
        self
    }
}

impl Default for FetchAllOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FetchAllOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchAllOptions")
            .field("batch_size", &self.batch_size)
            .field("on_progress", &self.on_progress.is_some())
            .field("max_rows", &self.max_rows)
            .field("sort", &self.sort)
            .finish()
    }
}

impl ParsedDualResponse {
    /// Fetches all rows, page by page, into memory.
    ///
    /// If the rows do not fit in memory, use [`fetch_stream`](Self::fetch_stream).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch). Also returns an error if the result set has more rows than
    /// [`FetchAllOptions::with_max_rows`] allows, or if the server's pages have gaps or overlaps.
    pub async fn fetch_all(&self, options: FetchAllOptions<'_>) -> Result<Vec<Row>> {
        self.fetch_all_as(options).await
    }

    /// Fetches all rows into memory, and deserializes each row as `T`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch_all`](Self::fetch_all). Also returns an error if a row cannot be deserialized as
    /// `T`.
    pub async fn fetch_all_as<T: DeserializeOwned>(
        &self,
        mut options: FetchAllOptions<'_>,
    ) -> Result<Vec<T>> {
        let mut asked = FetchOptions::new().with_limit(options.batch_size.max(1));
        asked.sort = options.sort.take();
        let mut rows = Vec::new();
        loop {
            let page = self.fetch_as::<T>(asked.clone()).await?;
            let next = page.follow(asked.offset)?;
            let total = page.total_count;
            asked.cursor = page.cursor;
            rows.extend(page.data);
            let fetched = rows.len() as u64;
            let expected = if next.is_some() { total.max(fetched + 1) } else { fetched };
            if expected > options.max_rows {
                return Err(DualResponseClientError::TooLarge(format!(
                    "the result set has {expected} rows, and `fetch_all` returns at most {}; use \
                     `fetch_stream`, or raise `with_max_rows` if the rows fit in memory",
                    options.max_rows
                )));
            }
            if let Some(progress) = &mut options.on_progress {
                progress(fetched, total);
            }
            match next {
                Some(next) => asked.offset = next,
                None => return Ok(rows),
            }
        }
    }
}
