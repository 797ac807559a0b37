//! The web page that shows a result set.

use std::fmt::Write as _;

use axum::{
    extract::RawPathParams,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use super::{cache::Tag, call::is_id, error::ApiError};
use crate::VIEWER;

/// Handles `GET /{id}/view`. The web page is the same for every result set and contains no data. The server returns
/// the web page without a lookup, so the response does not reveal whether a result set exists.
pub(super) fn view(page: Page, names: &RawPathParams, headers: &HeaderMap) -> Result<Response, ApiError> {
    if !names.iter().any(|(name, id)| name == "id" && is_id(id)) {
        return Err(ApiError::not_found());
    }
    let tag = Tag::of_body(VIEWER.as_bytes());
    let kept = [tag.header(), (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"))];
    if tag.is_known(headers) {
        return Ok((StatusCode::NOT_MODIFIED, kept).into_response());
    }
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let own = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, page.policy)];
    Ok((kept, own, VIEWER).into_response())
}

/// The content security policy of the web page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    policy: HeaderValue,
}

impl Page {
    /// Creates the content security policy. The policy allows only the scripts and styles in the web page, and only
    /// requests to this server.
    pub(super) fn new() -> Self {
        let (scripts, styles) = (hashes(VIEWER, "script"), hashes(VIEWER, "style"));
        let policy = format!(
            "default-src 'none'; script-src{scripts}; style-src{styles}; img-src data: blob:; font-src data:; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { policy: HeaderValue::try_from(policy).expect("base64 may stand in a header") }
    }
}

/// Returns the hashes of the contents of all tags with this name, each after a space. Returns `'none'` if the page has
/// no tag with this name.
fn hashes(page: &str, tag: &str) -> String {
    let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
    let mut found = String::new();
    let mut rest = page;
    while let Some(at) = rest.find(&open) {
        rest = &rest[at + open.len()..];
        // A tag with a longer name is a different tag.
        if !rest.starts_with(|next: char| next == '>' || next.is_ascii_whitespace()) {
            continue;
        }
        let Some((attributes, body)) = rest.split_once('>') else { break };
        let Some((body, after)) = body.split_once(&close) else { break };
        rest = after;
        // External scripts get no hash, so they are not allowed.
        if !attributes.contains("src=") {
            // Writing to a `String` does not fail.
            let _ = write!(found, " 'sha256-{}'", STANDARD.encode(Sha256::digest(body.as_bytes())));
        }
    }
    if found.is_empty() { " 'none'".into() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_the_page_is_allowed_by_its_hash() {
        // The hash of the text `alert(1)`, from `openssl dgst -sha256 -binary | base64`.
        let alert = " 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='";
        assert_eq!(hashes("<p><script>alert(1)</script>", "script"), alert);
        assert_eq!(hashes("<script type=\"module\">alert(1)</script>", "script"), alert);
        assert_eq!(hashes("<scripted>alert(1)</scripted><style>a</style>", "script"), " 'none'");
        assert_eq!(hashes("<script src=\"x\"></script>", "script"), " 'none'");
        assert_eq!(hashes("<script>alert(1)</script><script>alert(1)</script>", "script"), alert.repeat(2));
    }

    #[test]
    fn page_offers_every_export_format() {
        for format in crate::snapshot::ExportFormat::ALL {
            assert!(VIEWER.contains(&format!("\n  {}: [", format.name())), "{format:?}");
        }
    }

    #[test]
    fn the_page_in_the_tree_has_scripts_and_styles_of_its_own_only() {
        let policy = Page::new().policy;
        let policy = policy.to_str().unwrap();
        assert!(policy.contains("script-src 'sha256-"), "{policy}");
        assert!(policy.contains("style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
