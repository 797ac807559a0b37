use bytes::Bytes;
use http::Method;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    error::{DualResponseClientError, FetchError, Result},
    exchange::{JSON, cursor},
    parsed::{Inner, ParsedDualResponse, read},
    wire::WirePage,
};
use crate::{
    page::{DEFAULT_LIMIT, Sort},
    rows::Row,
};

/// Which rows are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct FetchOptions {
    /// Where they begin. Default: with the first.
    pub offset: u64,
    /// How many they are at most. Default: 100. Servers have limits of their own.
    pub limit: u64,
    /// How they are sorted. Default: as the set is.
    pub sort: Option<Sort>,
    /// Where the page before ended, if its server said so.
    pub(super) cursor: Option<String>,
}

impl FetchOptions {
    /// The first rows, as the set is sorted.
    pub fn new() -> Self {
        Self { offset: 0, limit: DEFAULT_LIMIT, sort: None, cursor: None }
    }

    /// Begins here.
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// At most this many.
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Sorted like this.
    pub fn with_sort(mut self, sort: Sort) -> Self {
        self.sort = Some(sort);
        self
    }
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FetchResult<T = Row> {
    /// The rows.
    pub data: Vec<T>,
    /// How many the whole set has.
    pub total_count: u64,
    /// How many are here.
    pub returned_count: u64,
    /// Where they begin.
    pub offset: u64,
    /// Whether more come after them.
    pub has_next: bool,
    /// Whether others come before them.
    pub has_previous: bool,
    /// Where those that come after begin.
    pub next_offset: Option<u64>,
    /// As [`FetchOptions::cursor`] of the next page.
    pub(super) cursor: Option<String>,
}

impl ParsedDualResponse {
    /// Fetches a page of rows.
    ///
    /// # Errors
    ///
    /// When the URL is refused, the request fails or takes too long, or the set is gone.
    pub async fn fetch(&self, options: FetchOptions) -> Result<FetchResult> {
        self.fetch_as(options).await
    }

    /// Fetches a page of rows, read as `T`. With `Box<RawValue>` they stay the JSON they came as.
    ///
    /// # Errors
    ///
    /// As for [`fetch`](Self::fetch), and when a row is no `T`.
    pub async fn fetch_as<T: DeserializeOwned>(&self, options: FetchOptions) -> Result<FetchResult<T>> {
        let inner = &self.inner;
        let body = asked(&options, false)?;
        let mut patience = inner.patience();
        loop {
            let fetched = inner.within(async {
                let answer = inner.send(Method::POST, JSON, body.clone()).await?;
                let cursor = cursor(&answer);
                let page = inner.read_page(&inner.page(answer).await?, &options)?;
                Ok(FetchResult { cursor, ..page })
            });
            match fetched.await {
                Ok(page) => return Ok(page),
                Err(error) => patience.bear(error).await?,
            }
        }
    }
}

impl Inner {
    /// Reads a page, flat as the specification has it or with its numbers in `pagination`.
    pub(super) fn read_page<T: DeserializeOwned>(
        &self,
        body: &[u8],
        asked: &FetchOptions,
    ) -> Result<FetchResult<T>> {
        let (data, paging) = read::<WirePage<T>>(body)?.into_parts();
        let returned_count = data.len() as u64;
        if let Some(said) = paging.returned_count.filter(|said| *said != returned_count) {
            return Err(contradiction(format!("the page says it has {said} rows, and has {returned_count}")));
        }
        let offset = paging.offset.unwrap_or(asked.offset);
        let total_count = paging.total_count.unwrap_or(self.content.total_count);
        let end = offset.saturating_add(returned_count);
        let has_next = paging.has_next.unwrap_or(returned_count > 0 && end < total_count);
        let next = paging.next_offset.or(Some(end));
        Ok(FetchResult {
            data,
            total_count,
            returned_count,
            offset,
            has_next,
            has_previous: offset > 0,
            next_offset: next.filter(|_| has_next),
            cursor: None,
        })
    }
}

impl<T> FetchResult<T> {
    /// Where the next page begins, for whoever fetches them all. Pages that overlap, leave rows out or never
    /// end are an error: nobody could tell from the rows.
    pub(super) fn follow(&self, asked: u64) -> Result<Option<u64>> {
        if self.offset != asked {
            let begins = self.offset;
            return Err(contradiction(format!("the page begins with row {begins}, not {asked}")));
        }
        if !self.has_next {
            return Ok(None);
        }
        if self.data.is_empty() {
            return Err(contradiction(format!("the page at row {asked} is empty, and says that more come")));
        }
        let end = asked.saturating_add(self.returned_count);
        match self.next_offset {
            Some(next) if next == end => Ok(Some(next)),
            next => {
                let next = next.map_or("nowhere".to_owned(), |next| format!("with row {next}"));
                Err(contradiction(format!("the page ends before row {end}, and the next begins {next}")))
            }
        }
    }
}

fn contradiction(message: String) -> DualResponseClientError {
    DualResponseClientError::Fetch(FetchError::new(message))
}

/// The body of a request for rows: so many, or all that the server gives at once.
pub(super) fn asked(options: &FetchOptions, all: bool) -> Result<Bytes> {
    let FetchOptions { offset, limit, sort, cursor } = options;
    let (limit, sort, cursor) = ((!all).then_some(*limit), sort.as_ref(), cursor.as_deref());
    let offset = cursor.is_none().then_some(*offset);
    let body = serde_json::to_vec(&Asked { offset, limit, sort, cursor });
    Ok(body.map_err(|error| DualResponseClientError::Config(error.to_string()))?.into())
}

#[derive(Serialize)]
struct Asked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sort: Option<&'a Sort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}
