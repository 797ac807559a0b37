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
    page::{DEFAULT_PAGE_SIZE, Sort},
    rows::Row,
};

/// The options of [`fetch`](super::ParsedDualResponse::fetch): position, number of rows and sort.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct FetchOptions {
    pub(super) offset: u64,
    pub(super) limit: u64,
    pub(super) sort: Option<Sort>,
    /// Cursor of the previous page, if the server returned a cursor.
    pub(super) cursor: Option<String>,
}

impl FetchOptions {
    /// Creates options for the first page, without a sort.
    pub fn new() -> Self {
        Self { offset: 0, limit: DEFAULT_PAGE_SIZE, sort: None, cursor: None }
    }

    /// Sets the position of the first row. Default: 0.
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets the maximum number of rows. The server can return fewer rows. Default: [`DEFAULT_PAGE_SIZE`].
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the sort column and direction. Default: the order in which the result set returns its rows.
    pub fn with_sort(mut self, sort: impl Into<Option<Sort>>) -> Self {
        self.sort = sort.into();
        self
    }
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A page of rows, and its position in the result set.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FetchResult<T = Row> {
    /// Rows of this page.
    pub data: Vec<T>,
    /// Number of rows in the whole result set.
    pub total_count: u64,
    /// Number of rows in this page.
    pub returned_count: u64,
    /// Position of the first row of this page in the result set.
    pub offset: u64,
    /// Whether the result set has rows after this page.
    pub has_next: bool,
    /// Whether the result set has rows before this page.
    pub has_previous: bool,
    /// Position of the first row of the next page, if a next page exists.
    pub next_offset: Option<u64>,
    /// Cursor that requests the next page, for [`FetchOptions::cursor`].
    pub(super) cursor: Option<String>,
}

impl ParsedDualResponse {
    /// Fetches a page of rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is not allowed, or if the request fails or times out. Also returns an error if the
    /// result set no longer exists.
    pub async fn fetch(&self, options: FetchOptions) -> Result<FetchResult> {
        self.fetch_as(options).await
    }

    /// Fetches a page of rows, and deserializes each row as `T`. If `T` is `Box<RawValue>`, each row stays in its
    /// original JSON form.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch). Also returns an error if a row cannot be deserialized as `T`.
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
    /// Parses a page. A server sends the counts and positions of a page next to the rows, as the specification
    /// requires, or in the member `pagination`.
    pub(super) fn read_page<T: DeserializeOwned>(
        &self,
        body: &[u8],
        asked: &FetchOptions,
    ) -> Result<FetchResult<T>> {
        let (data, paging) = read::<WirePage<T>>(body)?.into_parts();
        let returned_count = data.len() as u64;
        if let Some(said) = paging.returned_count.filter(|said| *said != returned_count) {
            return Err(contradiction(format!(
                "the server returned an invalid page: the page states {said} rows, but contains {returned_count} rows"
            )));
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
    /// Returns the position at which the next page starts, for callers that fetch all pages. Returns an error if pages
    /// overlap, skip rows or never end. A caller could not detect overlaps and gaps between pages from the rows.
    pub(super) fn follow(&self, asked: u64) -> Result<Option<u64>> {
        if self.offset != asked {
            let begins = self.offset;
            return Err(contradiction(format!(
                "the server returned an invalid page: the page starts at row {begins}, but row {asked} was requested"
            )));
        }
        if !self.has_next {
            return Ok(None);
        }
        if self.data.is_empty() {
            return Err(contradiction(format!(
                "the server returned an invalid page: the page at row {asked} is empty, but states that more rows follow"
            )));
        }
        let end = asked.saturating_add(self.returned_count);
        match self.next_offset {
            Some(next) if next == end => Ok(Some(next)),
            next => {
                let next = next.map_or("at an unknown row".to_owned(), |next| format!("at row {next}"));
                Err(contradiction(format!(
                    "the server returned an invalid page: the page ends before row {end}, but the next page \
                     starts {next}"
                )))
            }
        }
    }
}

fn contradiction(message: String) -> DualResponseClientError {
    DualResponseClientError::Fetch(FetchError::new(message))
}

/// Returns the body of a request for `limit` rows, or for all rows that the server returns at once.
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
