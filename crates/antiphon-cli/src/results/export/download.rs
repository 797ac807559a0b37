//! The bytes of an export, gone on with after a connection has broken.

use std::time::Duration;

use antiphon_results::client::{AddressRefused, DualResponseClientError, FetchRequest, FetchResponse, Reach};
use anyhow::{Result, anyhow, bail};
use axum::{
    body::Bytes,
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, IF_RANGE, LOCATION, RANGE},
    },
};
use futures_util::StreamExt as _;
use url::Url;

use super::super::{
    set,
    wait::Waiting,
    wire::{SILENCE, Wire, unboxed, wrong},
};
use crate::exit::Misused;

/// So often in a row nothing may come.
const MOST_FAILURES: u32 = 5;
/// The first pause before a broken connection is made again; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// An export on its way.
pub(super) struct Download<'a> {
    wire: &'a Wire,
    url: Url,
    waiting: Waiting,
    /// Where the server may send us besides.
    origin: Option<&'a str>,
    /// How many bytes have come.
    at: u64,
    /// How many will have come, if that is known.
    total: Option<u64>,
    /// A strong validator of what has come.
    tag: Option<String>,
    body: Option<FetchResponse>,
    /// How many bytes come that have come already.
    again: u64,
    /// How often in a row nothing came.
    failures: u32,
}

/// What comes next.
pub(super) enum Piece {
    Bytes(Bytes),
    /// The server has something else now: what has come is worth nothing, and it begins again.
    Restart,
}

impl<'a> Download<'a> {
    pub(super) fn new(wire: &'a Wire, url: Url, waiting: Waiting, origin: Option<&'a str>) -> Self {
        let (at, again, failures) = (0, 0, 0);
        Self { wire, url, waiting, origin, at, total: None, tag: None, body: None, again, failures }
    }

    /// Goes on after so many bytes of what has this validator.
    pub(super) fn after(mut self, at: u64, tag: String, total: Option<u64>) -> Self {
        (self.at, self.tag, self.total) = (at, Some(tag), total);
        self
    }

    /// How many bytes there are in all, as far as is known.
    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    /// A strong validator, if the server gives one.
    pub(super) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Sends the request, so that total and tag are known. Says whether it begins again.
    pub(super) async fn open(&mut self) -> Result<bool> {
        if self.at > 0 && self.total == Some(self.at) {
            return Ok(false);
        }
        let answer = match self.ask().await {
            // Nothing comes after what has come: either that is all, or it is of something else.
            Err(error) if status(&error) == Some(416) && self.at > 0 => return self.restart().await,
            answer => answer?,
        };
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                let (start, total) = content_range(&answer.headers)
                    .ok_or_else(|| wrong(&answer, "it does not say which part it sends"))?;
                let other = tag_of(&answer.headers).is_some_and(|tag| self.tag.as_ref() != Some(&tag));
                if start != self.at || other {
                    return Err(wrong(&answer, "it sends another part than was asked for").into());
                }
                self.total = total.or(self.total);
            }
            StatusCode::OK => {
                let (tag, known) = (tag_of(&answer.headers), self.at > 0);
                let same = tag.is_some() && tag == self.tag;
                self.total = header(&answer.headers, &CONTENT_LENGTH).and_then(|text| text.parse().ok());
                self.tag = tag;
                if known && !same {
                    (self.at, self.again) = (0, 0);
                    self.body = Some(answer);
                    return Ok(true);
                }
                // One that knows no parts sends it all again.
                self.again = self.at;
            }
            _ => return Err(wrong(&answer, "it sends no file").into()),
        }
        self.body = Some(answer);
        Ok(false)
    }

    /// The next bytes; none when all have come.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            let Some(answer) = &mut self.body else {
                if self.at > 0 && self.total == Some(self.at) {
                    return Ok(None);
                }
                match self.open().await {
                    Ok(true) => return Ok(Some(Piece::Restart)),
                    Ok(false) => continue,
                    Err(error) if is_passing(&error) => self.pause(error).await?,
                    Err(error) => return Err(error),
                }
                continue;
            };
            let framed = answer.framed;
            let broken = match tokio::time::timeout(SILENCE, answer.body.next()).await {
                Ok(Some(Ok(bytes))) => match self.take(bytes)? {
                    Some(bytes) => return Ok(Some(Piece::Bytes(bytes))),
                    None => continue,
                },
                Ok(Some(Err(error))) => unboxed(error).context("the connection broke"),
                Err(_) => DualResponseClientError::Timeout { limit: SILENCE }.into(),
                Ok(None) if self.again == 0 && self.total.map_or(framed, |total| total == self.at) => {
                    self.total = Some(self.at);
                    return Ok(None);
                }
                Ok(None) => anyhow!("the answer broke off after {} bytes", self.at),
            };
            self.body = None;
            self.pause(broken).await?;
        }
    }

    /// What of these bytes has not come before.
    fn take(&mut self, mut bytes: Bytes) -> Result<Option<Bytes>> {
        let known = usize::try_from(self.again).unwrap_or(usize::MAX).min(bytes.len());
        self.again -= known as u64;
        let new = bytes.split_off(known);
        if new.is_empty() {
            return Ok(None);
        }
        self.failures = 0;
        self.at += new.len() as u64;
        match self.total {
            Some(total) if self.at > total => {
                bail!("the server sends more than the {total} bytes it announced")
            }
            _ => Ok(Some(new)),
        }
    }

    async fn ask(&self) -> Result<FetchResponse> {
        let mut request = self.wire.request(Method::GET, self.url.clone());
        self.part(&mut request.headers);
        let answer = self.wire.when_ready(&request, &self.waiting).await?;
        if answer.status.is_redirection() { self.follow(&answer).await } else { Ok(answer) }
    }

    /// Asks for what has not come yet, if that can be told apart.
    fn part(&self, headers: &mut HeaderMap) {
        let Some(tag) = self.tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok()) else { return };
        if self.at > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={}-", self.at))
        {
            headers.insert(RANGE, range);
            headers.insert(IF_RANGE, tag);
        }
    }

    /// Fetches the file from where the server keeps it. Our headers are for the server, and stay here.
    async fn follow(&self, answer: &FetchResponse) -> Result<FetchResponse> {
        let place = header(&answer.headers, &LOCATION).and_then(|place| self.url.join(place).ok());
        let place = place.ok_or_else(|| wrong(answer, "it sends elsewhere, and does not say where"))?;
        let origin = place.origin().ascii_serialization();
        let ours = place.origin() == self.url.origin();
        let allowed = match self.origin {
            Some(allowed) => set::origin_of(allowed)? == origin,
            None => false,
        };
        let unknown = || {
            Misused(format!(
                "the server keeps this file at {origin}; if you trust that, say `--origin {origin}`"
            ))
        };
        let reach = match place.scheme() {
            "http" | "https" if ours || allowed => Reach::Listed,
            "https" => Reach::Public,
            _ => return Err(unknown().into()),
        };
        let mut request = FetchRequest::new(Method::GET, place, reach);
        self.part(&mut request.headers);
        let answer = self.wire.send(request).await.map_err(|error| {
            let refused = error.chain().any(|cause| cause.downcast_ref::<AddressRefused>().is_some());
            if refused { unknown().into() } else { error }
        })?;
        if answer.status.is_redirection() {
            return Err(wrong(&answer, "it sends elsewhere a second time").into());
        }
        Ok(answer)
    }

    /// Begins anew, without what has come.
    async fn restart(&mut self) -> Result<bool> {
        (self.at, self.tag, self.total) = (0, None, None);
        Box::pin(self.open()).await?;
        Ok(true)
    }

    /// Waits a little after a failure, or gives up with it.
    async fn pause(&mut self, error: anyhow::Error) -> Result<()> {
        self.failures += 1;
        if self.failures > MOST_FAILURES {
            return Err(error);
        }
        let said = error.downcast_ref::<DualResponseClientError>().and_then(|error| error.fetch_error());
        let said = said.and_then(|said| said.retry_after);
        tokio::time::sleep(said.unwrap_or(PAUSE * 2_u32.pow(self.failures - 1))).await;
        Ok(())
    }
}

/// Whether it may go better next time.
fn is_passing(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<DualResponseClientError>() {
        Some(DualResponseClientError::Timeout { .. }) => true,
        Some(error) => matches!(error.status(), Some(429 | 500 | 503 | 504)),
        // No answer came.
        None => error.chain().any(<dyn std::error::Error>::is::<reqwest::Error>),
    }
}

fn status(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<DualResponseClientError>()?.status()
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A validator that is the same for the same bytes only; a weak one is not.
fn tag_of(headers: &HeaderMap) -> Option<String> {
    header(headers, &ETAG).filter(|tag| tag.starts_with('"')).map(str::to_owned)
}

/// Where a part begins, and how long the whole is: `bytes 5-9/10`.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let (range, total) = header(headers, &CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}
