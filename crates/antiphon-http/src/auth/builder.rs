use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use http::HeaderName;
use url::Url;

use super::{
    ApiKey, Auth, Identity, Inner, Introspection, Issuer, PrincipalHook, Proxy,
    fetch::{self, is_private},
    introspection::Inquirer,
    issuer::Judge,
    metadata::{self, Described, Metadata},
    refusal::Challenge,
};

/// The error that [`AuthBuilder::build`] and [`OpenIdConnect::build`](super::OpenIdConnect::build) return. A
/// `BuildError` lists all problems in the configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    pub(super) problems: Vec<String>,
}

impl BuildError {
    /// Returns all problems in the configuration. Each problem is a separate string.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("authentication cannot be set up")?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

/// `Debug` prints the same text as `Display`, because `main` prints errors with `Debug`.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

/// A builder for an [`Auth`]. [`build`](Self::build) returns all configuration problems in one error.
#[must_use = "a builder does nothing until it is built"]
pub struct AuthBuilder {
    resource: String,
    name: Option<String>,
    documentation: Option<String>,
    issuers: Vec<Issuer>,
    introspection: Option<Introspection>,
    keys: Vec<ApiKey>,
    key_header: Option<String>,
    proxy: Option<Proxy>,
    scopes: Vec<String>,
    operations: BTreeMap<String, Vec<String>>,
    supported: Option<Vec<String>>,
    principal: Option<PrincipalHook>,
    http: Option<reqwest::Client>,
    max_token_bytes: usize,
    root_metadata: bool,
    recheck: Duration,
    max_connection: Option<Duration>,
}

impl AuthBuilder {
    pub(super) fn new(resource: String) -> Self {
        Self {
            resource,
            name: None,
            documentation: None,
            issuers: Vec::new(),
            introspection: None,
            keys: Vec::new(),
            key_header: None,
            proxy: None,
            scopes: Vec::new(),
            operations: BTreeMap::new(),
            supported: None,
            principal: None,
            http: None,
            max_token_bytes: 16 * 1024,
            root_metadata: true,
            recheck: Duration::from_secs(30),
            max_connection: Some(Duration::from_secs(12 * 60 * 60)),
        }
    }

    /// Accepts the signed tokens of the authorization server `issuer`. Call `with_issuer` again to accept several
    /// authorization servers.
    pub fn with_issuer(mut self, issuer: Issuer) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// Sets the authorization server that checks opaque tokens. Opaque tokens are tokens that this server cannot
    /// validate without the authorization server. Default: none.
    pub fn with_introspection(mut self, introspection: Introspection) -> Self {
        self.introspection = Some(introspection);
        self
    }

    /// Accepts callers that send one of the API keys in `keys`.
    pub fn with_api_keys(mut self, keys: impl IntoIterator<Item = ApiKey>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Also accepts API keys in the HTTP header `header`, for example `x-api-key`. Default: only in `Authorization`.
    pub fn with_api_key_header(mut self, header: impl Into<String>) -> Self {
        self.key_header = Some(header.into());
        self
    }

    /// Accepts callers with a client certificate that `proxy` has checked. Default: no proxy.
    pub fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Sets the scopes that every request needs. Default: none. Callers must authenticate even if you do not set any
    /// scopes.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets additional scopes that callers need for requests with one MCP method, such as `resources/read`,
    /// `prompts/get` or `tasks/cancel`. To set the scopes of a single tool, use `Tool::with_scopes` of the crate
    /// `antiphon`.
    pub fn with_operation_scopes(
        mut self,
        method: impl Into<String>,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.operations.insert(method.into(), scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the scopes that the resource metadata lists as supported. A client requests the supported scopes if the
    /// server's challenge does not list scopes. If a later call needs further scopes, the client requests the further
    /// scopes when it makes this call. Default: the scopes that every request needs.
    pub fn with_supported_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.supported = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets a function that returns the principal (the name of the caller in this server), for example from a token
    /// claim. If the function for the principal returns `None`, the server rejects the request. Default:
    /// `<issuer>#<subject>`.
    ///
    /// The server stores all data of a caller under the caller's principal. Two users must never have the same
    /// principal. A user must not be able to choose their own principal.
    pub fn with_principal(
        mut self,
        principal: impl Fn(&Identity) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Box::new(principal));
        self
    }

    /// Sets the name of this server in the resource metadata. Clients can show the name of the server to users.
    /// Default: none.
    pub fn with_resource_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the URL of the developer documentation. The resource metadata contains this URL. Default: none.
    pub fn with_documentation(mut self, url: impl Into<String>) -> Self {
        self.documentation = Some(url.into());
        self
    }

    /// Sets whether the server also serves its resource metadata at the root path
    /// `/.well-known/oauth-protected-resource`. Default: yes. If one host serves several resources, only one of these
    /// resources can use the root path.
    pub fn with_root_metadata(mut self, root: bool) -> Self {
        self.root_metadata = root;
        self
    }

    /// Sets the HTTP client for requests to authorization servers. Use `with_http` if you need special certificates or
    /// an HTTP proxy. Default: a client that has a timeout of 5 seconds and does not follow redirects.
    pub fn with_http(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
        self
    }

    /// Sets the maximum length of a token or an API key, in bytes. Default: 16 KiB.
    pub fn with_max_token_bytes(mut self, bytes: usize) -> Self {
        self.max_token_bytes = bytes;
        self
    }

    /// Sets how often the server checks the credentials of an open WebSocket or event stream. The server also checks
    /// the credentials of an open connection when the token expires. If the credentials have become invalid, or if
    /// their scopes have changed, the server closes the connection. Default: 30 seconds.
    pub fn with_recheck(mut self, interval: Duration) -> Self {
        self.recheck = interval.max(Duration::from_millis(10));
        self
    }

    /// Sets the maximum time for which a WebSocket or an event stream can stay open, even if the credentials stay
    /// valid. When a connection has reached the maximum time, the client must connect again. With `None`, connections
    /// have no maximum time. Default: 12 hours.
    pub fn with_max_connection(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.max_connection = limit.into();
        self
    }

    /// Builds the [`Auth`]. The server sends the first request to an authorization server when the first token
    /// arrives.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] with all configuration problems, one per line.
    pub fn build(self) -> Result<Auth, BuildError> {
        let mut problems = self.problems();
        let url = Url::parse(&self.resource).ok();
        let key_header = self.key_header.as_deref().map(str::parse::<HeaderName>).transpose().ok().flatten();
        let asks = !self.issuers.is_empty() || self.introspection.is_some();
        let http = match self.http {
            None if asks => fetch::client()
                .map_err(|error| problems.push(format!("the HTTP client cannot be created: {error}")))
                .ok(),
            given => given,
        };
        let (Some(url), true) = (url, problems.is_empty()) else { return Err(BuildError { problems }) };
        // If another crate enables a second crypto provider, the JWT library cannot choose a provider and panics.
        // `install_default` does not replace a provider that is already installed.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let audiences = audiences(&self.resource, &url);
        let mut issuers: Vec<String> = self.issuers.iter().map(|issuer| issuer.name.clone()).collect();
        if let Some(asked) = self.introspection.as_ref().filter(|asked| !issuers.contains(&asked.issuer)) {
            issuers.push(asked.issuer.clone());
        }
        let metadata = (!issuers.is_empty()).then(|| {
            let described = Described {
                resource: &self.resource,
                issuers: issuers.iter().map(String::as_str).collect(),
                scopes: self.supported.as_ref().unwrap_or(&self.scopes),
                name: self.name.as_deref(),
                documentation: self.documentation.as_deref(),
            };
            Metadata::new(&url, self.root_metadata, &described)
        });
        let challenge = Challenge {
            metadata: metadata.is_some().then(|| metadata::address(&url)),
            scopes: self.scopes.clone(),
        };
        let judge = |issuer| Some(Judge::new(issuer, &audiences, http.clone()?));
        let ask = |asked| Some(Inquirer::new(asked, &audiences, http.clone()?));
        let inner = Inner {
            judges: self.issuers.into_iter().filter_map(judge).collect(),
            inquirer: self.introspection.and_then(ask),
            resource: self.resource,
            keys: self.keys,
            key_header,
            proxy: self.proxy,
            max_token_bytes: self.max_token_bytes,
            principal: self.principal,
            scopes: self.scopes,
            operations: self.operations,
            challenge,
            metadata,
            recheck: self.recheck,
            max_connection: self.max_connection,
        };
        Ok(Auth { inner: Arc::new(inner) })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let resource = &self.resource;
        if !is_private(resource) || resource.contains(['?', '#']) {
            problems.push(format!(
                "the resource URL `{resource}` is not valid; use an https URL (http on loopback) without query and fragment"
            ));
        }
        if self.issuers.is_empty()
            && self.introspection.is_none()
            && self.keys.is_empty()
            && self.proxy.is_none()
        {
            problems.push(
                "no authentication method is configured; add an issuer, an introspection, API keys or a proxy".into(),
            );
        }
        for (at, issuer) in self.issuers.iter().enumerate() {
            problems.extend(issuer.problems());
            if self.issuers[..at].iter().any(|other| other.name == issuer.name) {
                problems.push(format!("duplicate issuer `{}`; add each issuer once", issuer.name));
            }
        }
        problems.extend(self.introspection.iter().flat_map(Introspection::problems));
        problems.extend(self.keys.iter().filter_map(ApiKey::problem).cloned());
        problems.extend(self.proxy.iter().flat_map(Proxy::problems).cloned());
        if let Some(header) = self.key_header.as_ref().filter(|header| header.parse::<HeaderName>().is_err())
        {
            problems
                .push(format!("`AuthBuilder::with_api_key_header`: `{header}` is not a valid header name"));
        }
        let operations = self.operations.values().flatten();
        let of_proxy = self.proxy.iter().flat_map(Proxy::scopes);
        let all = self.scopes.iter().chain(operations).chain(self.supported.iter().flatten()).chain(of_proxy);
        problems.extend(all.filter_map(|scope| antiphon_transport::identity::scope_problem(scope)));
        problems
    }
}

/// Returns the audiences that a token for the resource can have. The list contains the URL of the resource as the
/// developer wrote this URL, and the canonical form of the URL. If the resource is a whole host, the returned list also
/// contains the URL without the trailing slash.
fn audiences(resource: &str, url: &Url) -> Vec<String> {
    let mut audiences = vec![resource.to_owned(), url.to_string()];
    if url.path() == "/" {
        audiences.push(url.as_str().trim_end_matches('/').to_owned());
    }
    audiences.sort();
    audiences.dedup();
    audiences
}

impl fmt::Debug for AuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthBuilder")
            .field("resource", &self.resource)
            .field("issuers", &self.issuers)
            .field("introspection", &self.introspection)
            .field("keys", &self.keys)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let error = Auth::builder("mcp.example.com/mcp").build().unwrap_err();
        assert_eq!(error.problems().len(), 2, "{error}");
        let error = Auth::builder("https://mcp.example.com/mcp#x")
            .with_issuer(Issuer::new("https://login.example.com"))
            .with_issuer(Issuer::new("https://login.example.com").with_jwks_url("http://keys.example.com"))
            .with_introspection(Introspection::new("http://x.example", "a", "b").with_endpoint("nowhere"))
            .with_api_keys([ApiKey::new("ada", "short")])
            .with_api_key_header("x api key")
            .with_proxy(Proxy::new("x-subject", ["10.0.0.0/33"]).with_verified("", "yes"))
            .with_scopes(["a b", "offline_access"])
            .with_operation_scopes("tools/call", ["\""])
            .build()
            .unwrap_err();
        assert_eq!(error.problems().len(), 12, "{error}");
        let auth = Auth::builder("https://mcp.example.com/mcp")
            .with_issuer(Issuer::new("https://login.example.com"));
        assert_eq!(auth.build().unwrap().resource(), "https://mcp.example.com/mcp");
    }

    #[test]
    fn resource_is_known_with_and_without_the_slash_of_a_host() {
        let of = |resource: &str| audiences(resource, &Url::parse(resource).unwrap());
        assert_eq!(
            of("https://MCP.example.com"),
            ["https://MCP.example.com", "https://mcp.example.com", "https://mcp.example.com/",]
        );
        assert_eq!(of("https://mcp.example.com/mcp"), ["https://mcp.example.com/mcp"]);
    }
}
