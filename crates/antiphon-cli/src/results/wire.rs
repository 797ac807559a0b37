//! What a server of result sets is asked over HTTP, beyond what [`antiphon_results::client`] asks.

use std::time::{Duration, Instant};

use antiphon_results::client::{
    AddressRefused, DualResponseClientError, Fetch as _, FetchError, FetchRequest, FetchResponse, HttpFetch,
    Reach,
};
use anyhow::{Context as _, Result};
use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER},
};
use futures_util::StreamExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::wait::Waiting;
use crate::exit::Misused;

/// How long a server may be silent.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);
/// The largest answer that is held in memory.
const LARGEST: usize = 64 << 20;
/// How much of an answer that is an error is read.
const LARGEST_ERROR: usize = 16 << 10;
/// How long a server may have itself waited for, whatever it says.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a server may be not ready.
const PATIENCE: Duration = Duration::from_hours(1);

/// A result set on its server.
#[derive(Clone)]
pub(crate) struct Wire {
    fetch: HttpFetch,
    /// The set's own address, perhaps with a signed link in its query.
    url: Url,
    headers: HeaderMap,
}

impl Wire {
    /// The set at `url`, asked with these headers. Whoever calls this has decided that it may be gone there.
    pub(crate) fn new(url: &str, headers: &[(String, String)]) -> Result<Self> {
        let url = Url::parse(url).map_err(|error| Misused(format!("`{url}` is no URL: {error}")))?;
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || Misused(format!("the header `{}` cannot be sent", name.escape_debug()));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            sent.append(name, value);
        }
        Ok(Self { fetch: HttpFetch::new(), url, headers: sent })
    }

    /// The set's own address.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Whether something is sent along that a browser would not send.
    pub(crate) fn has_headers(&self) -> bool {
        !self.headers.is_empty()
    }

    /// The address of what is below the set, a signed link kept.
    pub(crate) fn below(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/').filter(|part| !part.is_empty()));
        }
        url
    }

    /// A request to the set's own server.
    pub(crate) fn request(&self, method: Method, url: Url) -> FetchRequest {
        let mut request = FetchRequest::new(method, url, Reach::Listed);
        request.headers.clone_from(&self.headers);
        request
    }

    /// Sends a request and returns when the head of its answer is there. Redirects and what is not ready yet are
    /// answers; errors are not.
    pub(crate) async fn send(&self, request: FetchRequest) -> Result<FetchResponse> {
        let answer = tokio::time::timeout(SILENCE, self.fetch.fetch(request)).await;
        let answer = answer.map_err(|_| DualResponseClientError::Timeout { limit: SILENCE })?;
        let answer = answer.map_err(unboxed).context("the request failed")?;
        if answer.status.is_client_error() || answer.status.is_server_error() {
            return Err(refusal(answer).await.into());
        }
        if answer.headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(wrong(&answer, "its content is compressed, and nobody asked for that").into());
        }
        Ok(answer)
    }

    /// Sends a request again and again until the server is ready to answer it.
    pub(crate) async fn when_ready(
        &self,
        request: &FetchRequest,
        waiting: &Waiting,
    ) -> Result<FetchResponse> {
        let begun = Instant::now();
        loop {
            let answer = self.send(request.clone()).await;
            let answer = answer.inspect_err(|_| waiting.over())?;
            if answer.status != StatusCode::ACCEPTED {
                waiting.over();
                return Ok(answer);
            }
            if begun.elapsed() > PATIENCE {
                return Err(DualResponseClientError::Timeout { limit: PATIENCE }.into());
            }
            waiting.begin();
            tokio::time::sleep(pause(&answer.headers)).await;
        }
    }

    /// Asks for JSON, and returns it as it came.
    pub(crate) async fn text(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        waiting: &Waiting,
    ) -> Result<String> {
        let mut request = self.request(method, self.below(path));
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(body) = body {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = body.to_string().into();
        }
        let answer = self.when_ready(&request, waiting).await?;
        if !answer.status.is_success() {
            return Err(wrong(&answer, "it sends elsewhere, and that is not followed here").into());
        }
        let bytes = whole(answer, LARGEST).await?;
        String::from_utf8(bytes).context("the answer is not text")
    }

    /// Asks for JSON, and reads it.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        waiting: &Waiting,
    ) -> Result<T> {
        let text = self.text(method, path, body, waiting).await?;
        serde_json::from_str(&text).context("the answer is not what was asked for")
    }
}

/// How long the server wants not to be asked.
pub(crate) fn pause(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1)).clamp(Duration::from_millis(100), LONGEST_PAUSE)
}

/// An answer that came and is not what it should be.
pub(crate) fn wrong(answer: &FetchResponse, message: &str) -> DualResponseClientError {
    let mut error = FetchError::new(message);
    error.status = Some(answer.status.as_u16());
    DualResponseClientError::Fetch(error)
}

/// What a server says about an error, as far as it does.
#[derive(Default, Deserialize)]
struct Said {
    message: Option<String>,
    code: Option<String>,
    rule: Option<String>,
}

/// What an answer that is an error means.
async fn refusal(answer: FetchResponse) -> DualResponseClientError {
    let (status, headers) = (answer.status, answer.headers.clone());
    let body = whole(answer, LARGEST_ERROR).await.unwrap_or_default();
    let said: Said = serde_json::from_slice(&body).unwrap_or_default();
    let message =
        said.message.unwrap_or_else(|| status.canonical_reason().unwrap_or("no reason is given").to_owned());
    let mut error = FetchError::new(match said.rule {
        Some(rule) => format!("{message} (rule `{rule}`)"),
        None => message,
    });
    error.status = Some(status.as_u16());
    error.retry_after = headers.contains_key(RETRY_AFTER).then(|| pause(&headers));
    let expired = status == StatusCode::GONE || said.code.as_deref() == Some("RESOURCE_EXPIRED");
    error.code = said.code;
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE if expired => DualResponseClientError::Expired(error),
        StatusCode::NOT_FOUND | StatusCode::GONE => DualResponseClientError::NotFound(error),
        _ => DualResponseClientError::Fetch(error),
    }
}

/// An error that can be told apart again: what stays in a box is only text.
pub(crate) fn unboxed(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    let error = match error.downcast::<reqwest::Error>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    error.downcast::<AddressRefused>().map_or_else(anyhow::Error::from_boxed, |error| (*error).into())
}

/// Reads a body, but not past `limit`.
async fn whole(mut answer: FetchResponse, limit: usize) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let piece = tokio::time::timeout(SILENCE, answer.body.next()).await;
        let piece = piece.map_err(|_| DualResponseClientError::Timeout { limit: SILENCE })?;
        let Some(piece) = piece else { return Ok(body) };
        let piece = piece.map_err(unboxed).context("the answer broke off")?;
        if body.len() + piece.len() > limit {
            let message = format!("the answer is longer than {limit} bytes");
            return Err(DualResponseClientError::TooLarge(message).into());
        }
        body.extend_from_slice(&piece);
    }
}
