//! Decides to which URLs the client sends requests. URLs from a server are not trusted.

mod address_scope;
mod ranges;
mod resolve;

use url::{Host, Origin, Url};

pub(super) use self::resolve::checked;
pub use self::{
    address_scope::{AddressRefused, AddressScope},
    resolve::{Resolve, SystemResolver},
};

/// Maximum length of a URL in bytes.
const MAX_URL: usize = 8 * 1024;

/// The origins to which the client can send requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    /// Origins that the application listed. An origin in this list can use `http`, and can be in a private network.
    pub(super) listed: Vec<Origin>,
    /// Origin of the MCP endpoint. The MCP endpoint must use `https`, and must be on the public internet.
    pub(super) endpoint: Option<Origin>,
    /// Whether requests to this machine are allowed.
    pub(super) loopback: bool,
    /// Whether the server can redirect an export to any public address.
    pub(super) public_redirects: bool,
}

/// A URL to which the client can send requests, because the [`Policy`] allows the URL.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) reach: AddressScope,
}

impl Policy {
    /// Parses `text`, and checks whether requests to this URL are allowed. If requests are not allowed, the error
    /// contains the reason, and the option that would allow the URL.
    pub(super) fn admit(&self, text: &str) -> Result<Target, String> {
        if text.len() > MAX_URL {
            return Err(format!("the URL is too long: {} bytes, and the maximum is {MAX_URL}", text.len()));
        }
        // URL parsers treat control characters, spaces and backslashes in different ways, which an attacker can
        // exploit.
        if text.contains(|char: char| char.is_control() || char.is_whitespace() || char == '\\') {
            return Err("the URL contains spaces, control characters or backslashes".to_owned());
        }
        let url = Url::parse(text).map_err(|error| format!("the URL of the rows is not valid: {error}"))?;
        self.admit_url(url)
    }

    /// Checks whether requests to `url` are allowed.
    pub(super) fn admit_url(&self, mut url: Url) -> Result<Target, String> {
        let origin = url.origin();
        let shown = show(&origin);
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme().chars().take(32).collect::<String>();
            return Err(format!("the URL scheme `{scheme}` is not supported; use `https` or `http`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("the URL at {shown} contains a user name or password, which is not allowed"));
        }
        let reach = self.reach(&url, &origin, &shown)?;
        reach.check_host(&url).map_err(|refused| refused.to_string())?;
        url.set_fragment(None);
        Ok(Target { url, reach })
    }

    /// Checks whether the server can redirect an export to `url`.
    pub(super) fn admit_redirect(&self, mut url: Url) -> Result<Target, String> {
        let admitted = self.admit_url(url.clone());
        let anonymous = url.username().is_empty() && url.password().is_none();
        if admitted.is_ok() || !self.public_redirects || !anonymous || url.scheme() != "https" {
            return admitted;
        }
        AddressScope::Public.check_host(&url).map_err(|refused| refused.to_string())?;
        url.set_fragment(None);
        Ok(Target { url, reach: AddressScope::Public })
    }

    fn reach(&self, url: &Url, origin: &Origin, shown: &str) -> Result<AddressScope, String> {
        if self.listed.contains(origin) {
            return Ok(AddressScope::Listed);
        }
        let local = is_local(url);
        if local && self.loopback {
            return Ok(AddressScope::Loopback);
        }
        if self.endpoint.as_ref() != Some(origin) {
            return Err(self.not_allowed(local, shown));
        }
        if local {
            return Err(format!("{shown} is not allowed: it is a loopback address; use `allow_loopback`"));
        }
        if url.scheme() != "https" {
            return Err(format!("{shown} is not allowed: the URL is not https; use `allow_origin`"));
        }
        Ok(AddressScope::Public)
    }

    /// Returns the message for an origin that is not allowed. The message names the option that would allow the
    /// origin.
    fn not_allowed(&self, local: bool, shown: &str) -> String {
        let origin = shown.trim_matches('`');
        let named = !self.listed.is_empty() || self.endpoint.is_some();
        let why = if named {
            "the origin is not the origin of the base URL or of the MCP endpoint"
        } else {
            "the client has no allowed origins"
        };
        let write = if local {
            format!(
                "`DualResponseClientOptions::new().allow_loopback()` in development, or `.allow_origin(\"{origin}\")`"
            )
        } else {
            format!("`DualResponseClientOptions::new().allow_origin(\"{origin}\")`")
        };
        format!("{shown} is not allowed: {why}; if you trust this origin, add {write}")
    }
}

/// Returns whether the host is this machine, by address or by a reserved name.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => AddressScope::Loopback.check(address.into()).is_ok(),
        Some(Host::Ipv6(address)) => AddressScope::Loopback.check(address.into()).is_ok(),
        None => false,
    }
}

/// Returns an origin as text for messages. The text omits all other parts of the URL, because they can contain a
/// secret.
pub(super) fn show(origin: &Origin) -> String {
    let text = origin.ascii_serialization();
    format!("`{}`", text.chars().take(200).collect::<String>())
}

/// Parses an origin from the options that the application set.
pub(super) fn origin(text: &str, whole_url: bool) -> Result<Origin, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a valid URL or origin: {error}"))?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let anonymous = url.username().is_empty() && url.password().is_none();
    if !matches!(url.scheme(), "http" | "https") || !anonymous || !(bare || whole_url) {
        return Err(format!("{} is not a valid origin; write `https://host:port`", show(&url.origin())));
    }
    Ok(url.origin())
}
