//! What may be kept, and for how long.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sha2::{Digest as _, Sha256};

use super::accept::Format;
use crate::{
    page::{DEFAULT_LIMIT, Order},
    server::{Access, Consistency, Inner, PageOptions},
    store::Resource,
};

/// The longest that rows are kept without asking again, in seconds. A set may be deleted any time.
const LONGEST: i64 = 60 * 60;

/// A weak validator: two bodies that have the same say the same.
pub(super) struct Tag(HeaderValue);

impl Tag {
    /// Of a body.
    pub(super) fn of_body(body: &[u8]) -> Self {
        Self::new(&Sha256::digest(body))
    }

    /// Of rows that never change: what was asked for says it all.
    pub(super) fn of_request(
        inner: &Inner,
        resource: &Resource,
        options: &PageOptions,
        format: Format,
        csv_safe: bool,
    ) -> Self {
        let limits = &inner.options.limits;
        let limit = match format {
            Format::Json => options.limit.unwrap_or(DEFAULT_LIMIT).min(limits.page_rows),
            _ => options.limit.unwrap_or(u64::MAX),
        };
        let mut hash = Sha256::new();
        hash.update([format as u8, u8::from(csv_safe)]);
        for number in [options.offset, limit, limits.page_bytes as u64, resource.total_count] {
            hash.update(number.to_be_bytes());
        }
        let sort = options.sort.as_ref();
        let descending = sort.is_some_and(|sort| sort.order == Order::Desc);
        hash.update([u8::from(sort.is_some()), u8::from(descending)]);
        // The id has no NUL, so nothing can be taken for a part of what comes before it.
        hash.update(&resource.id);
        hash.update([0]);
        hash.update(sort.map_or("", |sort| &sort.field));
        Self::new(&hash.finalize())
    }

    fn new(digest: &[u8]) -> Self {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let text = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..16]));
        Self(HeaderValue::try_from(text).expect("base64 may stand in a header"))
    }

    /// Whether whoever asks has it already.
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        let own = opaque(self.0.to_str().unwrap_or_default());
        let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || opaque(tag) == own)
    }

    pub(super) fn header(&self) -> (HeaderName, HeaderValue) {
        (header::ETAG, self.0.clone())
    }
}

/// Validators are compared weakly: a strong one is as good as its weak twin.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// What the answer depends on besides its address.
pub(super) const VARY: (HeaderName, HeaderValue) =
    (header::VARY, HeaderValue::from_static("Accept, Authorization"));

/// Asked about each time.
pub(super) const NO_CACHE: (HeaderName, HeaderValue) =
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));

/// For how long rows may be kept. Those that never change, until the set ends; but what was got by a link is asked
/// about each time, since the link may be no longer good.
pub(super) fn control(inner: &Inner, resource: &Resource, access: &Access) -> (HeaderName, HeaderValue) {
    if Consistency::of(resource) != Consistency::Fixed || matches!(access, Access::Link(_)) {
        return NO_CACHE;
    }
    let left = resource.expires_at.map_or(LONGEST, |end| (end - inner.now()).num_seconds());
    let control = format!("private, max-age={}", left.clamp(0, LONGEST));
    (header::CACHE_CONTROL, HeaderValue::try_from(control).expect("a number may stand in a header"))
}
