use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::{
    error::{DualResponseClientError, FetchError, Result},
    exchange::{failed, length, uncompressed},
    fetch::{FetchBody, FetchRequest, FetchResponse},
    guard::Target,
    parsed::{Inner, ParsedDualResponse},
};
use crate::{
    page::{Order, Sort},
    snapshot::{ExportFormat, Filter},
};

/// Maximum number of consecutive connection failures if no new bytes arrive between the failures.
const TRIES: u32 = 6;

/// Maximum pause that a server can request before a retry.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The options of [`export`](super::ParsedDualResponse::export).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct ExportOptions {
    sort: Vec<Sort>,
    filter: Vec<Filter>,
    columns: Vec<String>,
    csv_safe: bool,
    /// Number of bytes that the caller already has from an earlier download, and the tag of that download.
    resume: Option<(u64, String)>,
    restart: bool,
}

impl ExportOptions {
    /// Creates options for an export of the whole result set.
    pub fn new() -> Self {
        Self {
            sort: Vec::new(),
            filter: Vec::new(),
            columns: Vec::new(),
            csv_safe: true,
            resume: None,
            restart: false,
        }
    }

    /// Sets the sort columns, the most significant first. Default: none.
    pub fn with_sort(mut self, sort: impl IntoIterator<Item = Sort>) -> Self {
        self.sort = sort.into_iter().collect();
        self
    }

    /// Sets the filters of the exported rows. Each exported row matches all filters. Default: none.
    pub fn with_filter(mut self, filter: impl IntoIterator<Item = Filter>) -> Self {
        self.filter = filter.into_iter().collect();
        self
    }

    /// Sets the columns to export, in this order. Default: all columns.
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether CSV cells that a spreadsheet would run as a formula are escaped. Default: `true`.
    pub fn with_csv_safe(mut self, csv_safe: bool) -> Self {
        self.csv_safe = csv_safe;
        self
    }

    /// Resumes an earlier download after its first `bytes` bytes. `tag` is the [`tag`](Download::tag) of the earlier
    /// download.
    pub fn resuming(mut self, bytes: u64, tag: impl Into<String>) -> Self {
        self.resume = Some((bytes, tag.into()));
        self
    }

    /// If the file on the server has changed, starts a resumed download again at the first byte. If the download
    /// starts again, [`Download::start`] returns 0. Default: the export returns an error if the file has changed.
    pub fn or_restart(mut self) -> Self {
        self.restart = true;
        self
    }
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes of an exported file, as a stream. The stream of bytes ends after an error. If the stream ends without an
/// error, the file is complete.
///
/// If the connection breaks, the client connects again and continues at the same position.
#[must_use = "a download does nothing unless it is polled"]
pub struct Download {
    total: Option<u64>,
    start: u64,
    tag: Option<String>,
    truncated: Option<String>,
    body: Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>,
}

impl Download {
    /// Returns the size of the whole file in bytes, if the server reports the size.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Returns the position in the file at which the download starts, in bytes.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the tag of the file. To resume the download later, pass the tag to [`ExportOptions::resuming`].
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the limit that caused the server to omit the last rows: `row_limit` or `byte_limit`. Returns `None` if
    /// the file contains all rows.
    pub fn truncated(&self) -> Option<&str> {
        self.truncated.as_deref()
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("total", &self.total)
            .field("start", &self.start)
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

impl Stream for Download {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        self.body.as_mut().poll_next(context)
    }
}

impl ParsedDualResponse {
    /// Downloads the whole result set as a file in this format. The call returns when the first response of the server
    /// arrives. If the server redirects to an object store with an allowed origin, the client follows the redirect
    /// without credentials.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fetch`](Self::fetch). Also returns an error if the server does not support the format.
    pub async fn export(&self, format: ExportFormat, options: &ExportOptions) -> Result<Download> {
        let inner = &self.inner;
        let mut target = inner.below(&["export"])?;
        write_query(&mut target, format, options)?;
        let (at, tag) = options.resume.clone().map_or((0, None), |(at, tag)| (at, Some(tag)));
        let mut flow = Flow {
            inner: Arc::clone(inner),
            target,
            at,
            tag,
            total: None,
            body: None,
            skip: 0,
            broken: 0,
            restart: options.restart,
        };
        let truncated = match flow.connect().await {
            Err(DualResponseClientError::Changed) if flow.restart => {
                (flow.at, flow.tag, flow.total) = (0, None, None);
                flow.connect().await?
            }
            connected => connected?,
        };
        // Only the first response can restart the download, because later the caller already has bytes.
        flow.restart = false;
        let (total, start, tag) = (flow.total, flow.at, flow.tag.clone());
        let body =
            stream::try_unfold(flow, async |mut flow| Ok(flow.next().await?.map(|bytes| (bytes, flow))));
        Ok(Download { total, start, tag, truncated, body: Box::pin(body) })
    }
}

fn write_query(target: &mut Target, format: ExportFormat, options: &ExportOptions) -> Result<()> {
    let mut query = target.url.query_pairs_mut();
    query.append_pair("format", format.name());
    match &options.sort[..] {
        [] => {}
        [Sort { field, order }] => {
            let order = if *order == Order::Asc { "asc" } else { "desc" };
            query.append_pair("sort", field).append_pair("order", order);
        }
        sorts => {
            let names = sorts.iter().map(|sort| match sort.order {
                Order::Asc => sort.field.clone(),
                Order::Desc => format!("-{}", sort.field),
            });
            query.append_pair("sort", &names.collect::<Vec<_>>().join(","));
        }
    }
    if !options.filter.is_empty() {
        let filter = serde_json::to_string(&options.filter);
        let filter = filter.map_err(|error| DualResponseClientError::Config(error.to_string()))?;
        query.append_pair("filter", &filter);
    }
    if !options.columns.is_empty() {
        query.append_pair("columns", &options.columns.join(","));
    }
    if !options.csv_safe {
        query.append_pair("csv_safe", "false");
    }
    Ok(())
}

/// A download in progress.
struct Flow {
    inner: Arc<Inner>,
    target: Target,
    /// Number of bytes that the caller has received, including the bytes of an earlier download.
    at: u64,
    tag: Option<String>,
    total: Option<u64>,
    body: Option<(FetchBody, bool)>,
    /// Number of bytes to skip at the start of the body, because the caller already has these bytes. `skip` is greater
    /// than 0 only if the server sends the whole file again.
    skip: u64,
    /// Number of consecutive connection failures.
    broken: u32,
    /// Whether to start the download again if the file has changed.
    restart: bool,
}

impl Flow {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let Some((body, framed)) = &mut self.body else {
                match self.connect().await {
                    Ok(_) => {}
                    // A server that restarts or is overloaded counts as a connection failure.
                    Err(error) if passes(&error) => self.pause(error).await?,
                    Err(error) => return Err(error),
                }
                continue;
            };
            let limit = self.inner.setup.timeout;
            let error = match tokio::time::timeout(limit, body.next()).await {
                Ok(Some(Ok(mut bytes))) => {
                    let known = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
                    self.skip -= known as u64;
                    let bytes = bytes.split_off(known);
                    if bytes.is_empty() {
                        continue;
                    }
                    self.at += bytes.len() as u64;
                    self.broken = 0;
                    if let Some(total) = self.total
                        && self.at > total
                    {
                        let message = format!("the server sent more than the {total} announced bytes");
                        return Err(DualResponseClientError::Fetch(FetchError::new(message)));
                    }
                    return Ok(Some(bytes));
                }
                Ok(None) if self.skip == 0 && self.total.map_or(*framed, |total| total == self.at) => {
                    return Ok(None);
                }
                Ok(None) => DualResponseClientError::Fetch(FetchError::new(format!(
                    "the response ended early, after {} bytes",
                    self.at
                ))),
                Ok(Some(Err(error))) => failed("the connection was lost during the response", error),
                Err(_) => DualResponseClientError::Timeout { limit },
            };
            self.body = None;
            self.pause(error).await?;
        }
    }

    /// Waits before the next attempt to download. Returns `error` if no further attempt is allowed.
    async fn pause(&mut self, error: DualResponseClientError) -> Result<()> {
        self.broken += 1;
        // Without a validator, the client cannot check that the next bytes belong to the same version of the file.
        if self.broken >= TRIES || (self.tag.is_none() && self.at > 0) {
            return Err(error);
        }
        let wanted = error.fetch_error().and_then(|error| error.retry_after).unwrap_or_default();
        let wait = Duration::from_millis(100) * 2_u32.pow(self.broken);
        tokio::time::sleep(wait.max(wanted.min(LONGEST_PAUSE))).await;
        Ok(())
    }

    /// Requests the remaining bytes of the file. If the file omits the last rows of the result set, returns the
    /// reason.
    async fn connect(&mut self) -> Result<Option<String>> {
        let inner = Arc::clone(&self.inner);
        let range = self.range()?;
        let mut patience = inner.patience();
        let answer = loop {
            match inner.within(inner.begin(&self.target, range.clone())).await {
                Ok(answer) => break answer,
                Err(error) => patience.bear(error).await?,
            }
        };
        let text = |name| {
            let value: Option<&HeaderValue> = answer.headers.get(name);
            value.and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let truncated = text("antiphon-truncated");
        let tag = text("etag").filter(|tag| !tag.starts_with("W/"));
        // A response with status 416 can omit the validator, because the total length is sufficient.
        let ended = answer.status == StatusCode::RANGE_NOT_SATISFIABLE;
        if self.at > 0 && tag != self.tag && !(ended && tag.is_none()) {
            if !self.restart || answer.status != StatusCode::OK {
                return Err(DualResponseClientError::Changed);
            }
            // The response contains the whole new file.
            self.at = 0;
        }
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                let (start, total) = text("content-range")
                    .as_deref()
                    .and_then(content_range)
                    .ok_or(DualResponseClientError::Changed)?;
                if start != self.at {
                    return Err(DualResponseClientError::Changed);
                }
                self.total = total.or(self.total);
                self.skip = 0;
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let total: Option<u64> =
                    text("content-range").and_then(|range| range.strip_prefix("bytes */")?.parse().ok());
                // If the validator has not changed, the download is complete, even if the server does not report the
                // total length.
                if total.map_or(tag.is_none(), |total| total != self.at) {
                    return Err(DualResponseClientError::Changed);
                }
                self.total = Some(self.at);
                self.skip = 0;
                self.body = Some((Box::pin(stream::empty()), true));
                return Ok(truncated);
            }
            _ => {
                self.total = length(&answer).or(self.total);
                self.skip = self.at;
            }
        }
        self.tag = tag;
        self.body = Some((answer.body, answer.framed));
        Ok(truncated)
    }

    fn range(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let (true, Some(tag)) = (self.at > 0, &self.tag) else { return Ok(headers) };
        let value = |text: String| {
            HeaderValue::try_from(text)
                .map_err(|_| DualResponseClientError::Config("the ETag is not a valid header".to_owned()))
        };
        headers.insert(header::RANGE, value(format!("bytes={}-", self.at))?);
        headers.insert(header::IF_RANGE, value(tag.clone())?);
        Ok(headers)
    }
}

impl Inner {
    /// Requests bytes of the file. If the signed URL of the object store has expired, requests a new signed URL once.
    async fn begin(&self, target: &Target, range: HeaderMap) -> Result<FetchResponse> {
        let (mut answer, redirected) = self.follow(target, range.clone()).await?;
        if redirected && answer.status == StatusCode::FORBIDDEN {
            (answer, _) = self.follow(target, range).await?;
        }
        let ended = answer.status == StatusCode::RANGE_NOT_SATISFIABLE
            && (answer.headers.contains_key(header::CONTENT_RANGE)
                || answer.headers.contains_key(header::ETAG));
        if ended {
            return Ok(answer);
        }
        uncompressed(self.accepted(target, answer).await?)
    }

    /// Sends a request for bytes, and follows at most one redirect to an allowed origin. Returns the response, and
    /// whether the client followed a redirect.
    async fn follow(&self, target: &Target, range: HeaderMap) -> Result<(FetchResponse, bool)> {
        let mut request = FetchRequest::new(Method::GET, target.url.clone(), target.reach);
        request.headers = self.setup.headers(&target.url);
        request.headers.extend(range.clone());
        let answer = self.exchange(request).await?;
        if answer.status.is_redirection()
            && let Some(place) = answer.headers.get(header::LOCATION).and_then(|place| place.to_str().ok())
            && let Ok(url) = target.url.join(place)
        {
            let origin = url.origin().ascii_serialization();
            let refused =
                |reason| DualResponseClientError::RedirectRefused { origin: origin.clone(), reason };
            let storage = self.setup.policy.admit_redirect(url).map_err(refused)?;
            // At the redirect target, the URL is the credential, so the headers of the application are not sent.
            let mut request = FetchRequest::new(Method::GET, storage.url, storage.reach);
            request.headers = range;
            return match self.exchange(request).await {
                Err(DualResponseClientError::UrlRefused(reason)) => Err(refused(reason)),
                answer => Ok((answer?, true)),
            };
        }
        Ok((answer, false))
    }
}

/// Parses a `Content-Range` header such as `bytes 5-9/10`. Returns the position of the first byte, and the size of the
/// whole file.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.parse().ok()?, total.parse().ok()))
}

/// Returns whether a retry can succeed: `true` if no response arrived, or if the status of the response is a temporary
/// error.
fn passes(error: &DualResponseClientError) -> bool {
    match error {
        DualResponseClientError::Timeout { .. } => true,
        DualResponseClientError::Fetch(said) => match said.status {
            Some(status) => matches!(status, 429 | 500 | 502 | 503 | 504),
            None => std::error::Error::source(said).is_some(),
        },
        _ => false,
    }
}
