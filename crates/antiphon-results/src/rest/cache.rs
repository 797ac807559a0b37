//! HTTP validators (entity tags) and cache headers.

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::{Digest as _, Sha256};

use super::accept::Format;
use crate::{
    page::Order,
    server::{Access, Consistency, Inner, PageOptions},
    store::Resource,
};

/// Maximum time in seconds for which clients can cache rows. The time is limited, because a result set can be deleted
/// at any time.
const LONGEST: i64 = 60 * 60;

/// An HTTP validator (entity tag). Response bodies with the same validator have the same meaning.
pub(super) struct Tag(HeaderValue);

impl Tag {
    /// Creates a weak validator (entity tag) from the bytes of a response body.
    pub(super) fn of_body(body: &[u8]) -> Self {
        Self::new(&Sha256::digest(body))
    }

    /// Creates the weak validator of rows that never change. The validator depends only on the result set and the
    /// request, because the result set and the request determine the rows.
    pub(super) fn of_request(
        inner: &Inner,
        resource: &Resource,
        options: &PageOptions,
        format: Format,
        csv_safe: bool,
    ) -> Self {
        let limit = match format {
            Format::Json => inner.options.page_size(options.limit),
            _ => options.limit.unwrap_or(u64::MAX),
        };
        let page_bytes = inner.options.limits.page_bytes as u64;
        let mut hash = Sha256::new();
        hash.update([format as u8, u8::from(csv_safe)]);
        for number in [options.offset, limit, page_bytes, resource.total_count] {
            hash.update(number.to_be_bytes());
        }
        let sort = options.sort.first();
        let descending = sort.is_some_and(|sort| sort.order == Order::Desc);
        hash.update([u8::from(sort.is_some()), u8::from(descending)]);
        // The ID contains no NUL byte, so the next field cannot be mistaken for a part of the ID.
        hash.update(&resource.id);
        hash.update([0]);
        hash.update(sort.map_or("", |sort| &sort.field));
        // Only snapshots support these options. A column name after a NUL byte cannot be mistaken for the JSON of these
        // options.
        if options.sort.len() > 1 || !options.filter.is_empty() || !options.columns.is_empty() {
            hash.update([0]);
            let more = (&options.sort, &options.filter, &options.columns);
            hash.update(serde_json::to_vec(&more).unwrap_or_default());
        }
        Self::new(&hash.finalize())
    }

    fn new(digest: &[u8]) -> Self {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let text = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..16]));
        Self(HeaderValue::try_from(text).expect("base64 may stand in a header"))
    }

    /// Creates the strong validator of bytes that never change.
    pub(super) fn strong(tag: &str) -> Option<Self> {
        let plain = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        plain.then(|| HeaderValue::try_from(format!("\"{tag}\"")).ok().map(Self)).flatten()
    }

    /// Converts a weak validator to a strong validator, for bytes that never change and are the same for every caller.
    pub(super) fn into_strong(self) -> Self {
        let text = opaque(self.0.to_str().unwrap_or_default()).to_owned();
        Self(HeaderValue::try_from(text).unwrap_or(self.0))
    }

    /// Returns whether `If-Range` allows a partial response. The header `If-Range` must be missing, or contain exactly
    /// this strong validator. A date in `If-Range` does not allow a partial response, because dates are not precise
    /// enough.
    pub(super) fn lets_range(&self, headers: &HeaderMap) -> bool {
        headers
            .get(header::IF_RANGE)
            .is_none_or(|value| value == self.0 && !self.0.as_bytes().starts_with(b"W/"))
    }

    /// Returns whether the client already has the body with this validator, according to `If-None-Match`.
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        let own = opaque(self.0.to_str().unwrap_or_default());
        let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || opaque(tag) == own)
    }

    pub(super) fn header(&self) -> (HeaderName, HeaderValue) {
        (header::ETAG, self.0.clone())
    }
}

/// Returns the validator without the prefix `W/`. `If-None-Match` uses a weak comparison, so a strong validator can
/// match a weak validator.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// The `Vary` header: the request headers that affect the response.
pub(super) const VARY: (HeaderName, HeaderValue) =
    (header::VARY, HeaderValue::from_static("Accept, Authorization"));

/// The `Cache-Control` header for responses that must be revalidated each time.
pub(super) const NO_CACHE: (HeaderName, HeaderValue) =
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));

/// Returns how long rows can be cached. Rows that never change can be cached until the result set expires. Rows from a
/// link must be revalidated each time, because the link can be revoked.
pub(super) fn control(inner: &Inner, resource: &Resource, access: &Access) -> (HeaderName, HeaderValue) {
    if Consistency::of(resource) != Consistency::Fixed {
        return NO_CACHE;
    }
    fixed_control(inner, resource.expires_at, access)
}

/// Returns how long rows that never change can be cached.
pub(super) fn fixed_control(
    inner: &Inner,
    expires_at: Option<DateTime<Utc>>,
    access: &Access,
) -> (HeaderName, HeaderValue) {
    if matches!(access, Access::Link(_)) {
        return NO_CACHE;
    }
    let left = expires_at.map_or(LONGEST, |end| (end - inner.now()).num_seconds());
    let control = format!("private, max-age={}", left.clamp(0, LONGEST));
    (header::CACHE_CONTROL, HeaderValue::try_from(control).expect("a number may stand in a header"))
}
