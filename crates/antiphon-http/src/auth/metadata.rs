//! The metadata of the protected resource (RFC 9728).

use std::collections::BTreeSet;

use axum::{Router, response::IntoResponse as _, routing::get};
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::json;
use url::Url;

/// The well-known path of the metadata. In the URL of the metadata, the path of the resource follows the well-known
/// path.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The time for which a client can cache the metadata, as a `Cache-Control` directive.
const REMEMBERED: &str = "max-age=3600";

/// The fields of the protected resource metadata.
pub(super) struct Described<'a> {
    pub(super) resource: &'a str,
    pub(super) issuers: Vec<&'a str>,
    pub(super) scopes: &'a [String],
    pub(super) name: Option<&'a str>,
    pub(super) documentation: Option<&'a str>,
}

/// The metadata of a resource, in the form in which the server sends it.
pub(super) struct Metadata {
    /// The path of the resource. The path is empty if the resource is the root.
    path: String,
    /// Whether the server also serves the metadata at the root well-known path.
    root: bool,
    body: Bytes,
}

impl Metadata {
    pub(super) fn new(url: &Url, root: bool, described: &Described<'_>) -> Self {
        let Described { resource, issuers, scopes, name, documentation } = described;
        let mut body = json!({
            "resource": resource,
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if !scopes.is_empty() {
            body["scopes_supported"] = json!(scopes);
        }
        if let Some(name) = name {
            body["resource_name"] = json!(name);
        }
        if let Some(documentation) = documentation {
            body["resource_documentation"] = json!(documentation);
        }
        Self { path: path(url).to_owned(), root, body: body.to_string().into() }
    }

    /// Returns the routes that serve the metadata: for the resource's public path, for its mount path, and at the root.
    /// Behind a proxy, the public path and the mount path can differ.
    pub(super) fn router(&self, mounted: Option<&str>) -> Router {
        let mounted = mounted.map(|path| path.trim_end_matches('/').to_owned());
        let mut paths: BTreeSet<_> = mounted.into_iter().chain([self.path.clone()]).collect();
        if self.root {
            paths.insert(String::new());
        }
        let mut router = Router::new();
        for path in paths {
            let body = self.body.clone();
            let answer = move || std::future::ready(answer(body.clone()).into_response());
            router = router.route(&format!("{WELL_KNOWN}{path}"), get(answer));
        }
        router
    }
}

fn answer(body: Bytes) -> impl axum::response::IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static(REMEMBERED)),
    ];
    (headers, body)
}

/// Returns the public URL of the metadata. The well-known path stands between the host and the path of `url`.
pub(super) fn address(url: &Url) -> String {
    let mut address = url.clone();
    address.set_path(&format!("{WELL_KNOWN}{}", path(url)));
    address.into()
}

fn path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_between_host_and_path() {
        let address = |url: &str| address(&Url::parse(url).unwrap());
        assert_eq!(
            address("https://mcp.example.com/public/mcp"),
            "https://mcp.example.com/.well-known/oauth-protected-resource/public/mcp"
        );
        let root = "https://mcp.example.com:8443/.well-known/oauth-protected-resource";
        assert_eq!(address("https://mcp.example.com:8443"), root);
        assert_eq!(address("https://mcp.example.com:8443/"), root);
    }
}
