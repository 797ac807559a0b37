//! Finds the URL of a dual response's rows.

use url::Url;

use super::{
    content::Content,
    guard::{Policy, Target},
    setup::Setup,
};

/// Maximum length of an ID in a URL.
const MAX_ID: usize = 256;

/// The reason why a response has no usable URL.
#[derive(Clone, Debug)]
pub(super) enum Unreachable {
    /// The response has a URL, but requests to this URL are not allowed.
    Refused(String),
    /// The response has no URL, and the client has no base URL for the result set.
    Unknown,
}

/// Returns the URL of the rows. The application's base URL has priority, then the URL in the response, then the
/// fallback base URL.
pub(super) fn locate(setup: &Setup, content: &Content) -> Result<Target, Unreachable> {
    let policy = &setup.policy;
    if let Some(base) = &setup.base {
        return below(policy, base.clone(), content).map_err(Unreachable::Refused);
    }
    if let Some(url) = &content.url {
        return policy.admit(url).map_err(Unreachable::Refused);
    }
    if let Some(base) = &content.base_url {
        let base = policy.admit(base).map_err(Unreachable::Refused)?;
        return below(policy, base.url, content).map_err(Unreachable::Refused);
    }
    let base = setup.fallback.clone().ok_or(Unreachable::Unknown)?;
    below(policy, base, content).map_err(Unreachable::Refused)
}

/// Returns the URL of a result set: `base`, followed by the ID of the result set.
fn below(policy: &Policy, mut base: Url, content: &Content) -> Result<Target, String> {
    let id = content.id().unwrap_or_default();
    // All other characters have a meaning in URLs, for this client or for a server that decodes twice.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:=".contains(&byte);
    let dots = id.bytes().all(|byte| byte == b'.');
    if dots || id.len() > MAX_ID || !id.bytes().all(plain) {
        return Err(format!(
            "the ID of the result set is not valid: an ID has 1 to {MAX_ID} letters, digits and `-._~:=`"
        ));
    }
    match base.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().push(id)),
        Err(()) => return Err("the base URL cannot have a path; use an `https://` URL".to_owned()),
    }
    policy.admit_url(base)
}
