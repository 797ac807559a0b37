//! From a dual response to the URL of its rows.

use url::Url;

use super::{
    content::Content,
    guard::{Policy, Target},
    setup::Setup,
};

/// The longest id that is put into a URL.
const MAX_ID: usize = 256;

/// Why there is no URL.
#[derive(Clone, Debug)]
pub(super) enum Unreachable {
    /// There is one, and it is not gone to.
    Refused(String),
    /// Nobody says where the set is.
    Unknown,
}

/// Where the rows are: what the application says, then what the response says, then what is known besides.
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

/// The URL of a set below `base`.
fn below(policy: &Policy, mut base: Url, content: &Content) -> Result<Target, String> {
    let id = content.id().unwrap_or_default();
    // What is not in here means something in a URL, to us or to whoever decodes it a second time.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:=".contains(&byte);
    let dots = id.bytes().all(|byte| byte == b'.');
    if dots || id.len() > MAX_ID || !id.bytes().all(plain) {
        return Err(format!(
            "the id of the result set is refused: 1 to {MAX_ID} letters, digits and `-._~:=` are an id"
        ));
    }
    match base.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().push(id)),
        Err(()) => return Err("the base URL has no path".to_owned()),
    }
    policy.admit_url(base)
}
