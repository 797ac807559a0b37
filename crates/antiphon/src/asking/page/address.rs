//! The public address of the answer page.

use http::Uri;

/// The maximum length of the answer page's address, in bytes. The texts for models contain this address, and these
/// texts must be short.
const MAX_ADDRESS: usize = 256;

/// The public address of the answer page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// The scheme, the host and the port of the address, in the format that browsers use in the `Origin` header.
    pub(crate) origin: String,
    /// The path of the address, without a slash at the end.
    pub(crate) path: String,
    /// Whether only browsers on this machine can reach the answer page.
    pub(crate) is_loopback: bool,
}

impl Base {
    /// Creates the address of an answer page that only browsers on this machine can reach.
    pub(crate) fn loopback(origin: String) -> Self {
        Self { origin, path: String::new(), is_loopback: true }
    }

    /// Parses the address of an answer page. Returns the reason if an answer page cannot use the address `text`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_ADDRESS {
            return Err("it has more than 256 bytes");
        }
        let uri: Uri = text.parse().map_err(|_| "it is not a valid URL")?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("it has no scheme or no host");
        };
        if authority.as_str().contains('@') || uri.query().is_some() || text.contains('#') {
            return Err("it has a user name, a query or a fragment");
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        if !uri.path().bytes().all(is_plain) {
            return Err("its path has special characters");
        }
        let host = authority.host().to_ascii_lowercase();
        let is_loopback = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
        let usual = match scheme {
            "https" => 443,
            "http" if is_loopback => 80,
            _ => return Err("it does not begin with `https://`"),
        };
        // Browsers omit the port from the `Origin` header if the port is the default port of the scheme.
        let port = authority.port_u16().filter(|port| *port != usual);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { origin: format!("{scheme}://{host}{port}"), path, is_loopback })
    }

    /// Returns `true` if browsers reach the answer page over TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.origin.starts_with("https://")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_must_be_https_or_local() {
        let parsed = |text: &str| Base::parse(text).map(|base| (base.origin, base.path, base.is_loopback));
        let parts = |origin: &str, path: &str, local| Ok((origin.to_owned(), path.to_owned(), local));
        assert_eq!(parsed("https://MCP.example.com:443/"), parts("https://mcp.example.com", "", false));
        assert_eq!(parsed("https://example.com:8443/app/"), parts("https://example.com:8443", "/app", false));
        assert_eq!(parsed("http://localhost:8000"), parts("http://localhost:8000", "", true));
        assert_eq!(parsed("http://[::1]:80"), parts("http://[::1]", "", true));
        let long = format!("https://example.com/{}", "a".repeat(300));
        for wrong in [
            "http://example.com",
            "http://localhost.example.com",
            "ftp://localhost",
            "mcp.example.com",
            "/ask",
            "",
            "https://user@example.com",
            "https://example.com/?a=1",
            "https://example.com/#a",
            "https://example.com/\"a",
            &long,
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
