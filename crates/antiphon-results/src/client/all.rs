use std::fmt;

use serde::de::DeserializeOwned;

use super::{
    error::{DualResponseClientError, Result},
    page::FetchOptions,
    parsed::ParsedDualResponse,
};
use crate::{page::Sort, rows::Row};

/// How many rows are held in memory if nobody says.
const MAX_ROWS: u64 = 100_000;

type Progress<'a> = Box<dyn FnMut(u64, u64) + Send + 'a>;

/// How all rows are fetched.
#[non_exhaustive]
#[must_use]
pub struct FetchAllOptions<'a> {
    /// How many rows are asked for at once. Default: 500.
    pub batch_size: u64,
    /// Is told how many rows are there, and of how many, after each batch.
    pub on_progress: Option<Progress<'a>>,
    /// How many rows there may be. Default: 100 000. A set that has more is an error: it is better streamed.
    pub max_rows: u64,
    /// How they are sorted. Default: as the set is.
    pub sort: Option<Sort>,
}

impl<'a> FetchAllOptions<'a> {
    /// As the defaults are.
    pub fn new() -> Self {
        Self { batch_size: 500, on_progress: None, max_rows: MAX_ROWS, sort: None }
    }

    /// This many at once.
    pub fn with_batch_size(mut self, rows: u64) -> Self {
        self.batch_size = rows;
        self
    }

    /// Tells `progress` how many rows are there, and of how many.
    pub fn with_progress(mut self, progress: impl FnMut(u64, u64) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(progress));
        self
    }

    /// No more than this many.
    pub fn with_max_rows(mut self, rows: u64) -> Self {
        self.max_rows = rows;
        self
    }

    /// Sorted like this.
    pub fn with_sort(mut self, sort: Sort) -> Self {
        self.sort = Some(sort);
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
    /// For more rows than fit there is [`fetch_stream`](Self::fetch_stream).
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), when there are more rows than [`FetchAllOptions::max_rows`], and when
    /// pages do not follow on each other.
    pub async fn fetch_all(&self, options: FetchAllOptions<'_>) -> Result<Vec<Row>> {
        self.fetch_all_as(options).await
    }

    /// Fetches all rows, read as `T`.
    ///
    /// # Errors
    ///
    /// As for [`fetch_all`](Self::fetch_all), and when a row is no `T`.
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
                    "the result set has {expected} rows, and {} are the most that are fetched at once; use \
                     `fetch_stream`, or `with_max_rows` if they fit in memory",
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
