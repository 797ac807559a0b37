//! Sends an HTTP request and reads the response, within the limits of the client.

use std::{error::Error, future::Future, io, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    error::{DualResponseClientError, FetchError, Result, words},
    fetch::{FetchRequest, FetchResponse},
    guard::{self, AddressRefused, Target},
    options::WaitObserver,
    parsed::Inner,
};
use crate::error::BoxError;

/// Maximum number of bytes that are read from an error response.
const MAX_ERROR: usize = 16 << 10;

/// Time that the client waits before a retry if the server does not specify a time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum time that the client waits before a retry.
const LATE: Duration = Duration::from_secs(10);

pub(super) const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson, application/json;q=0.9";

impl Inner {
    /// Sends a request, and reads the whole response within the timeout.
    pub(super) async fn ask(&self, method: Method, body: Bytes) -> Result<Bytes> {
        self.ask_at(self.target()?, method, body).await
    }

    /// Sends a request to a URL that the options of the client allow, and reads the whole response within the timeout.
    pub(super) async fn ask_at(&self, target: &Target, method: Method, body: Bytes) -> Result<Bytes> {
        let mut patience = self.patience();
        loop {
            let asked = self.within(async {
                let answer = self.send_to(target, method.clone(), JSON, body.clone()).await?;
                self.page(answer).await
            });
            match asked.await {
                Ok(answer) => return Ok(answer),
                Err(error) => patience.bear(error).await?,
            }
        }
    }

    /// Returns the time that the client still waits for rows that are not ready. The waiting time starts now.
    pub(super) fn patience(&self) -> Patience {
        Patience {
            end: Instant::now() + self.setup.patience,
            observer: self.setup.wait_observer.clone(),
            observed: false,
        }
    }

    /// Reads the body of a JSON response.
    pub(super) async fn page(&self, answer: FetchResponse) -> Result<Bytes> {
        let kind = content_type(&answer);
        if !(kind.is_empty() || kind == JSON || kind.ends_with("+json")) {
            let message = format!("the content type is `{}`, not JSON", words(&kind));
            return Err(DualResponseClientError::answer(answer.status.as_u16(), message));
        }
        whole(answer, self.setup.max_body).await
    }

    /// Sends a request, and returns when the headers of a successful response arrive.
    pub(super) async fn send(
        &self,
        method: Method,
        accept: &'static str,
        body: Bytes,
    ) -> Result<FetchResponse> {
        self.send_to(self.target()?, method, accept, body).await
    }

    /// Sends a request to a URL that the options of the client allow, and returns when the headers of a successful
    /// response arrive.
    pub(super) async fn send_to(
        &self,
        target: &Target,
        method: Method,
        accept: &'static str,
        body: Bytes,
    ) -> Result<FetchResponse> {
        let mut request = FetchRequest::new(method, target.url.clone(), target.reach);
        request.headers = self.setup.headers(&target.url);
        request.headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if !body.is_empty() {
            request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        request.body = body;
        let answer = self.exchange(request).await?;
        uncompressed(self.accepted(target, answer).await?)
    }

    /// Sends a request, and returns the response even if its status is an error.
    pub(super) async fn exchange(&self, request: FetchRequest) -> Result<FetchResponse> {
        let answer = self.setup.fetch.fetch(request).await;
        answer.map_err(|error| failed("the request failed", error))
    }

    /// Returns the response if its status is a success. A response with status 202 and `Retry-After` means that the
    /// data is not ready.
    pub(super) async fn accepted(&self, target: &Target, answer: FetchResponse) -> Result<FetchResponse> {
        let early = answer.status == StatusCode::ACCEPTED && answer.headers.contains_key(header::RETRY_AFTER);
        if answer.status.is_success() && !early {
            return Ok(answer);
        }
        Err(self.refusal(target, answer).await)
    }

    /// Applies the timeout of the client to `work`.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.setup.timeout;
        tokio::time::timeout(limit, work).await.unwrap_or(Err(DualResponseClientError::Timeout { limit }))
    }

    /// Returns the error for a response whose status is not a success.
    async fn refusal(&self, target: &Target, answer: FetchResponse) -> DualResponseClientError {
        let status = answer.status;
        let header = |name| answer.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if status.is_redirection() {
            let place = header(header::LOCATION).and_then(|place| target.url.join(place).ok());
            let place = place.map_or("an unknown URL".to_owned(), |url| guard::show(&url.origin()));
            let message = format!("the response redirects to {place}, and the client follows no redirects");
            return DualResponseClientError::answer(status.as_u16(), message);
        }
        let retry_after = header(header::RETRY_AFTER).and_then(|text| text.parse().ok());
        let said = match whole(answer, MAX_ERROR).await {
            Ok(body) => serde_json::from_slice::<Said>(&body).unwrap_or_default(),
            Err(_) => Said::default(),
        };
        let plain = status.canonical_reason().unwrap_or("the response contains no reason");
        let message = said.message.as_deref().map_or(plain.to_owned(), words);
        let mut error = FetchError::new(match said.rule.as_deref() {
            Some(rule) => format!("{message} (rule `{}`)", words(rule)),
            None => message,
        });
        error.status = Some(status.as_u16());
        error.code = said.code.as_deref().map(words);
        error.retry_after = retry_after.map(Duration::from_secs);

        let expired = match error.code.as_deref() {
            Some("RESOURCE_EXPIRED") => true,
            Some("RESOURCE_NOT_FOUND") => false,
            _ => status == StatusCode::GONE || self.is_expired(),
        };
        match status {
            StatusCode::ACCEPTED => DualResponseClientError::NotReady(error),
            StatusCode::NOT_FOUND | StatusCode::GONE if expired => DualResponseClientError::Expired(error),
            StatusCode::NOT_FOUND | StatusCode::GONE => DualResponseClientError::NotFound(error),
            _ => DualResponseClientError::Fetch(error),
        }
    }
}

/// The remaining time that the client waits for rows that are not ready.
pub(super) struct Patience {
    end: Instant,
    observer: Option<WaitObserver>,
    /// Whether the observer was called at the start of a wait.
    observed: bool,
}

impl Patience {
    /// Waits if `error` means that the data is not ready, and if waiting time is left. If the client cannot wait,
    /// returns `error`.
    pub(super) async fn bear(&mut self, error: DualResponseClientError) -> Result<()> {
        let DualResponseClientError::NotReady(said) = &error else { return Err(error) };
        let wait = said.retry_after.unwrap_or(RETRY_AFTER).clamp(RETRY_AFTER / 10, LATE);
        if Instant::now() + wait >= self.end {
            return Err(error);
        }
        if let (Some(observer), false) = (&self.observer, self.observed) {
            observer(true);
            self.observed = true;
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if let (Some(observer), true) = (&self.observer, self.observed) {
            observer(false);
        }
    }
}

/// Rejects a compressed response, because the client does not request compression.
pub(super) fn uncompressed(answer: FetchResponse) -> Result<FetchResponse> {
    let coding = answer.headers.get(header::CONTENT_ENCODING);
    if coding.is_some_and(|coding| coding != "identity") {
        let message = "the response is compressed, although the client did not request compression";
        return Err(DualResponseClientError::answer(answer.status.as_u16(), message));
    }
    Ok(answer)
}

/// The JSON body of an error response, in which all members are optional.
#[derive(Default, Deserialize)]
struct Said {
    message: Option<String>,
    code: Option<String>,
    /// Name of the rule that a rejected SQL query violates.
    rule: Option<String>,
}

/// Returns the media type of a response without its parameters, or an empty text.
pub(super) fn content_type(answer: &FetchResponse) -> String {
    let value = answer.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Returns the length of a response according to its headers.
pub(super) fn length(answer: &FetchResponse) -> Option<u64> {
    answer.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a body up to `limit`, and checks that the body has the announced length.
async fn whole(mut answer: FetchResponse, limit: usize) -> Result<Bytes> {
    let large = || {
        DualResponseClientError::TooLarge(format!("the response is larger than the limit of {limit} bytes"))
    };
    let length = length(&answer).map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if length.is_some_and(|length| length > limit) {
        return Err(large());
    }
    let mut body = Vec::with_capacity(length.unwrap_or(0));
    while let Some(piece) = answer.body.next().await {
        let piece = piece.map_err(|error| failed("the connection was lost during the response", error))?;
        if body.len() + piece.len() > limit {
            return Err(large());
        }
        body.extend_from_slice(&piece);
    }
    complete(answer.status, length.map(|length| length as u64), body.len() as u64)?;
    Ok(body.into())
}

/// Checks that the announced number of bytes arrived.
pub(super) fn complete(status: StatusCode, announced: Option<u64>, came: u64) -> Result<()> {
    match announced {
        // A response without content can announce the length that the content would have.
        Some(announced) if announced != came && status != StatusCode::NO_CONTENT => {
            let message = format!("the response ended after {came} of {announced} bytes");
            Err(DualResponseClientError::answer(status.as_u16(), message))
        }
        _ => Ok(()),
    }
}

/// Converts an error of a [`Fetch`](super::Fetch) implementation to a [`DualResponseClientError`].
pub(super) fn failed(message: &str, error: BoxError) -> DualResponseClientError {
    let mut source: Option<&(dyn Error + 'static)> = Some(&*error);
    while let Some(cause) = source {
        if let Some(refused) = cause.downcast_ref::<AddressRefused>() {
            return DualResponseClientError::UrlRefused(refused.to_string());
        }
        let slow = cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::TimedOut);
        if slow || cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout) {
            return DualResponseClientError::Timeout { limit: super::http::CONNECT };
        }
        source = cause.source();
    }
    DualResponseClientError::broken(message, error)
}

/// Returns the cursor of the next page from `Link: <…?cursor=…>; rel="next"`. The client uses only the cursor from the
/// `Link` header, and does not follow the URL.
pub(super) fn cursor(answer: &FetchResponse) -> Option<String> {
    let links = answer.headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
    let next = links.flat_map(|links| links.split(',')).find(|link| link.contains("rel=\"next\""))?;
    let (_, query) = next.trim_start().strip_prefix('<')?.split_once('>')?.0.split_once('?')?;
    let mut members = url::form_urlencoded::parse(query.as_bytes());
    members.find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}
