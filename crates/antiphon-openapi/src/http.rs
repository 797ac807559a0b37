//! Sends requests to the API, with limits for time, size and addresses.

use std::{error::Error as _, time::Duration};

use antiphon::{
    ToolOutput,
    model::{ContentBlock, ResourceContents},
};
use antiphon_results::client::AddressScope;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, StatusCode, header};
use reqwest::redirect;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::{
    error::{Error, Result},
    request::Request,
};

/// The text that replaces a credential in the response of the API.
const REDACTED: &str = "[credential]";

/// The advice that the error contains if a request with effects failed, because the request can have reached the API.
const UNCERTAIN: &str = "; the API may have executed the request, so check before you send it again";

/// The maximum number of redirects that a request follows.
const MAX_REDIRECTS: usize = 5;

/// The limits of requests to the API.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    timeout: Duration,
    response_bytes: usize,
    error_bytes: usize,
}

impl HttpLimits {
    /// Creates the default limits of requests to the API.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum time from the start of a request to the end of its response. Default: 30 seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of a response, in bytes. If a response is larger than `bytes`, the tool call fails.
    /// Default: 1 MiB.
    #[must_use]
    pub fn with_response_bytes(mut self, bytes: usize) -> Self {
        self.response_bytes = bytes;
        self
    }

    /// Sets the maximum number of bytes of an error response that the model reads. Default: 4 KiB.
    #[must_use]
    pub fn with_error_bytes(mut self, bytes: usize) -> Self {
        self.error_bytes = bytes;
        self
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), response_bytes: 1 << 20, error_bytes: 4 << 10 }
    }
}

/// The HTTP clients that all tools of a document share.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    /// The client that sends requests without effects.
    reading: reqwest::Client,
    /// The client that sends requests with effects. The client for requests with effects follows only redirects that
    /// repeat the request.
    changing: reqwest::Client,
    limits: HttpLimits,
    /// Whether requests can connect only to addresses of the public internet.
    public_only: bool,
}

/// A response of the API. Steps record responses, so a `Reply` is serializable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// The values of all `Link` headers of the response, as one text.
    pub(crate) link: Option<String>,
    pub(crate) body: Content,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Content {
    Text(String),
    /// A response body that is not text, in base64.
    Bytes(String),
}

impl Http {
    /// Creates the HTTP clients for the tools of a document. With `public_only`, requests connect only to addresses of
    /// the public internet.
    pub(crate) fn new(limits: HttpLimits, public_only: bool) -> Result<Self> {
        let client = |redirects: redirect::Policy| {
            let mut builder = reqwest::Client::builder()
                .timeout(limits.timeout)
                .redirect(redirects)
                .user_agent(concat!("antiphon-openapi/", env!("CARGO_PKG_VERSION")));
            if public_only {
                // A proxy would resolve the host name itself, so the tool could not check the address.
                builder = builder.no_proxy().dns_resolver(PublicOnly);
            }
            builder.build().map_err(Error::Client)
        };
        let reading = client(redirect::Policy::custom(same_origin))?;
        let changing = client(redirect::Policy::custom(same_request))?;
        Ok(Self { reading, changing, limits, public_only })
    }

    /// Sends a request, and reads the response within the limits. `send` removes `secrets` from the response.
    ///
    /// If the API has possibly executed a failed request with effects, the error is terminal, so that a task does not
    /// send the request again.
    pub(crate) async fn send(&self, request: Request, secrets: &[String]) -> antiphon::Result<Reply> {
        if self.public_only {
            AddressScope::Public.check_host(&request.url).map_err(|_| {
                antiphon::Error::tool(
                    "the request was not sent: the host of the server URL is not public; if you trust it, set the URL with `OpenApi::with_base_url`",
                )
                .terminal()
            })?;
        }
        let can_repeat = request.can_repeat();
        let has_effects = has_effects(&request.method);
        let mut headers = request.headers;
        if !request.cookies.is_empty() {
            let cookies = HeaderValue::from_str(&request.cookies.join("; "));
            headers.insert(
                header::COOKIE,
                cookies.map_err(|_| {
                    antiphon::Error::tool("a cookie contains characters that are not allowed")
                })?,
            );
        }
        let client = if has_effects { &self.changing } else { &self.reading };
        let mut sending = client.request(request.method, request.url).headers(headers);
        if let Some(body) = request.body {
            sending = sending.body(body);
        }
        let mut response = sending.send().await.map_err(|error| self.failed(error, can_repeat))?;
        let status = response.status();
        let text = |name: header::HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
        };
        let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
        let links = response.headers().get_all(header::LINK).iter();
        let links: Vec<&str> = links.filter_map(|value| value.to_str().ok()).collect();
        let link = (!links.is_empty()).then(|| links.join(", "));
        let limit = if status.is_success() { self.limits.response_bytes } else { self.limits.error_bytes };
        let mut bytes = Vec::new();
        let mut is_cut = false;
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(error, can_repeat))? {
            let room = limit - bytes.len();
            if chunk.len() > room {
                if status.is_success() {
                    let advice = if has_effects { UNCERTAIN } else { "; request fewer or smaller items" };
                    return Err(antiphon::Error::tool(format!(
                        "the response of the API is larger than {limit} bytes{advice}"
                    ))
                    .terminal());
                }
                bytes.extend_from_slice(&chunk[..room]);
                is_cut = true;
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        let body = match String::from_utf8(bytes) {
            Ok(text) => Content::Text(text),
            Err(error) if !status.is_success() => {
                Content::Text(String::from_utf8_lossy(error.as_bytes()).into_owned())
            }
            Err(error) => Content::Bytes(STANDARD.encode(error.as_bytes())),
        };
        let mut reply = Reply { status: status.as_u16(), content_type, link, body }.without(secrets);
        if let Content::Text(text) = &mut reply.body
            && is_cut
        {
            remove_partial(text, secrets);
        }
        Ok(reply)
    }

    /// Creates the error for a failed request. The text does not contain the error of the HTTP client. The error of the
    /// HTTP client can contain the URL, and the URL can contain an API key.
    fn failed(&self, error: reqwest::Error, can_repeat: bool) -> antiphon::Error {
        let error = error.without_url();
        let mut text = if error.is_timeout() {
            format!("the API did not answer within {:?}", self.limits.timeout)
        } else {
            let mut text = format!("the request to the API failed: {error}");
            let mut cause = error.source();
            while let Some(source) = cause {
                text = format!("{text}: {source}");
                cause = source.source();
            }
            text
        };
        // If the connection failed, the API has not received the request.
        if can_repeat || error.is_connect() {
            return antiphon::Error::tool(text);
        }
        text.push_str(UNCERTAIN);
        antiphon::Error::tool(text).terminal()
    }
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the body of the response, if the body is JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        match &self.body {
            Content::Text(text) if self.media_type().contains("json") || self.content_type.is_empty() => {
                serde_json::from_str(text).ok()
            }
            _ => None,
        }
    }

    /// Replaces secrets in the response. In JSON, a secret can be written with escapes, so this method searches the
    /// parsed texts.
    fn without(mut self, secrets: &[String]) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let replaced = match (self.json(), &self.body) {
            (Some(mut value), _) => redact(&mut value, secrets).then(|| value.to_string()),
            (None, Content::Text(text)) => Some(redacted(text, secrets)),
            (None, Content::Bytes(_)) => None,
        };
        if let Some(text) = replaced {
            self.body = Content::Text(text);
        }
        self
    }

    fn media_type(&self) -> String {
        self.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Converts the response to a request with the HTTP method `method` into the result of a tool. `title` is the
    /// method and the path of the operation, and `url` is the URL without credentials.
    pub(crate) fn into_output(self, method: &Method, title: &str, url: &Url) -> ToolOutput {
        if !self.is_success() {
            let body = match &self.body {
                Content::Text(text) | Content::Bytes(text) => text.trim(),
            };
            let separator = if body.is_empty() { "" } else { ": " };
            let status = self.status;
            let outcome = if has_effects(method) && (300..400).contains(&status) {
                format!("{title} returned HTTP {status}, a redirect that is not followed{UNCERTAIN}")
            } else {
                format!("{title} failed with HTTP {status}")
            };
            return ToolOutput::error(format!("{outcome}{separator}{body}"));
        }
        if let Some(value) = self.json() {
            return ToolOutput::default().with_structured(value);
        }
        let media_type = self.media_type();
        match self.body {
            Content::Text(text) if text.is_empty() => {
                ToolOutput::text(format!("{title} succeeded with HTTP {} and no content", self.status))
            }
            Content::Text(text) => ToolOutput::text(text),
            Content::Bytes(data) if media_type.starts_with("image/") => {
                ToolOutput::new([ContentBlock::image(data, media_type)])
            }
            Content::Bytes(data) if media_type.starts_with("audio/") => {
                ToolOutput::new([ContentBlock::audio(data, media_type)])
            }
            Content::Bytes(data) => {
                ToolOutput::new([ContentBlock::resource(ResourceContents::blob(data, url.as_str()))])
            }
        }
    }
}

/// Returns whether a request with the HTTP method `method` has effects. Replay must not repeat a request with effects.
pub(crate) fn has_effects(method: &Method) -> bool {
    !method.is_safe()
}

/// Follows redirects within the same origin. If a redirect leads to another origin, the client returns the redirect as
/// the response.
fn same_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if is_same && attempt.previous().len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Follows redirects that repeat the same request within the same origin. The client does not follow other redirects,
/// because the client would have to send a GET request instead. If this GET request failed, the error would not show
/// that the first request had its effect.
fn same_request(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let is_same = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if is_same { same_origin(attempt) } else { attempt.stop() }
}

/// Removes the beginning of a secret that remains at the end of a shortened text.
fn remove_partial(text: &mut String, secrets: &[String]) {
    // The cut can be inside a character.
    text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
    let partial = secrets.iter().filter_map(|secret| {
        let mut lengths = secret.char_indices().rev().map(|(length, _)| length);
        lengths.find(|length| text.ends_with(&secret[..*length]))
    });
    let partial = partial.max().unwrap_or(0);
    text.truncate(text.len() - partial);
}

/// Replaces the secrets in a text by [`REDACTED`].
fn redacted(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), REDACTED);
        }
    }
    text
}

/// Replaces the secrets in the texts, names and numbers of a JSON value. Returns whether the JSON value has changed.
fn redact(value: &mut Value, secrets: &[String]) -> bool {
    match value {
        Value::String(text) => {
            let kept = redacted(text, secrets);
            let is_changed = kept != *text;
            *text = kept;
            is_changed
        }
        Value::Array(items) => {
            let mut is_changed = false;
            for item in items {
                is_changed |= redact(item, secrets);
            }
            is_changed
        }
        Value::Object(members) => {
            let mut is_changed = false;
            let kept = std::mem::take(members).into_iter().map(|(name, mut member)| {
                let kept = redacted(&name, secrets);
                is_changed |= redact(&mut member, secrets) || kept != name;
                (kept, member)
            });
            *members = kept.collect();
            is_changed
        }
        Value::Number(number) if secrets.contains(&number.to_string()) => {
            *value = REDACTED.into();
            true
        }
        _ => false,
    }
}

/// A DNS resolver that rejects host names with addresses outside of the public internet.
#[derive(Debug)]
struct PublicOnly;

impl reqwest::dns::Resolve for PublicOnly {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(async move {
            let addresses: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if addresses.iter().any(|address| AddressScope::Public.check(address.ip()).is_err()) {
                return Err("the host of the server URL is not on the public internet; if you trust it, set the URL with `OpenApi::with_base_url`".into());
            }
            Ok(Box::new(addresses.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_from_responses() {
        let secrets = ["s3cret/1".to_owned(), "12345678".to_owned()];
        assert_eq!(redacted("key s3cret/1 in ab", &secrets), "key [credential] in ab");
        let mut value = serde_json::json!({"a": [{"s3cret/1": "x s3cret/1"}, 12_345_678, 1], "b": true});
        assert!(redact(&mut value, &secrets));
        let expected =
            serde_json::json!({"a": [{"[credential]": "x [credential]"}, "[credential]", 1], "b": true});
        assert_eq!(value, expected);
        assert!(!redact(&mut value, &secrets));
    }

    #[test]
    fn the_beginning_of_a_secret_is_removed_from_the_end_of_a_cut_text() {
        let secrets = ["s3cret-välue".to_owned(), "czNjcmV0LXZhbHVl".to_owned()];
        for (text, kept) in [
            ("key s3cret-v", "key "),
            ("key s3cret-v\u{fffd}", "key "),
            ("key s", "key "),
            ("key czNjcmV0", "key "),
            ("s3cret no", "s3cret no"),
            ("", ""),
        ] {
            let mut text = text.to_owned();
            remove_partial(&mut text, &secrets);
            assert_eq!(text, kept);
        }
    }

    #[test]
    fn responses_become_results() {
        let url = Url::parse("https://api.example.com/a").unwrap();
        let reply = |status, content_type: &str, body| Reply {
            status,
            content_type: content_type.to_owned(),
            link: None,
            body,
        };
        let text = |text: &str| Content::Text(text.to_owned());
        let output = |reply: Reply| reply.into_output(&Method::GET, "GET /a", &url);
        let json = output(reply(200, "application/json; charset=utf-8", text(r#"{"a":1}"#)));
        assert_eq!(json.structured, Some(serde_json::json!({"a": 1})));
        let error = output(reply(404, "text/plain", text("gone")));
        assert!(error.is_error);
        let empty = output(reply(204, "", text("")));
        assert!(!empty.is_error && empty.structured.is_none());
        let image = output(reply(200, "image/png", Content::Bytes("AA==".into())));
        assert!(matches!(image.content[..], [ContentBlock::Image(_)]));
        let other = output(reply(200, "application/zip", Content::Bytes("AA==".into())));
        assert!(matches!(other.content[..], [ContentBlock::Resource(_)]));
    }
}
