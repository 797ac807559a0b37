//! Requests to authorization servers, with time and size limits.

use std::time::Duration;

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::{Host, Url, form_urlencoded};

/// The error that the server logs if a request to an authorization server fails.
pub(super) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The maximum response time of an authorization server.
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum length of a response from an authorization server, in bytes. Metadata, or a set of a dozen keys, usually
/// has about a tenth of this length.
const MAX_BYTES: usize = 256 * 1024;

/// Creates an HTTP client that does not follow redirects.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .timeout(PATIENCE)
        .connect_timeout(PATIENCE)
        // Redirects are not followed, because only the operator decides the address of an authorization server.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("antiphon/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Sends a request, and parses the response as JSON. Returns `None` if the status of the response is 404.
pub(super) async fn json<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<Option<T>, Failed> {
    let response = send(request).await?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !status.is_success() {
        return Err(format!("`{}` returned the status {status}", response.url()).into());
    }
    Ok(Some(serde_json::from_slice(&read(response).await?)?))
}

/// Sends a request, and returns the status and the JSON of the response, even if the status reports an error. If the
/// response is not JSON, the returned value is `null`.
pub(super) async fn reply(request: reqwest::RequestBuilder) -> Result<(StatusCode, Value), Failed> {
    let response = send(request).await?;
    let status = response.status();
    Ok((status, serde_json::from_slice(&read(response).await?).unwrap_or_default()))
}

async fn send(request: reqwest::RequestBuilder) -> Result<reqwest::Response, reqwest::Error> {
    // If the operator configured the HTTP client, this client can lack a timeout.
    request.timeout(PATIENCE).header(http::header::ACCEPT, "application/json").send().await
}

async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_BYTES {
            return Err(format!("`{}` returned more than {MAX_BYTES} bytes", response.url()).into());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Adds the fields of a form and the credentials of this application to a request. The credentials are sent in the
/// request body or in a header.
pub(super) fn with_form(
    request: reqwest::RequestBuilder,
    fields: &[(&str, &str)],
    (client, secret): (&str, &str),
    in_body: bool,
) -> reqwest::RequestBuilder {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields);
    if in_body {
        form.append_pair("client_id", client).append_pair("client_secret", secret);
    }
    let request =
        request.header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish());
    if in_body {
        return request;
    }
    // RFC 6749, section 2.3.1: the client ID and the secret are encoded before they are joined.
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    request.basic_auth(encode(client), Some(encode(secret)))
}

/// Fetches the metadata of an authorization server (RFC 8414, or OpenID Connect Discovery).
pub(super) async fn metadata(http: &reqwest::Client, issuer: &str) -> Result<Value, Failed> {
    let mut last: Failed =
        format!("the metadata of the issuer `{issuer}` was not found; check the issuer URL").into();
    for address in places(issuer)? {
        match json::<Value>(http.get(address.clone())).await {
            // If the metadata belongs to another issuer, the server must not use the metadata (RFC 8414, section 3.3).
            Ok(Some(metadata)) if metadata["issuer"] == *issuer => return Ok(metadata),
            Ok(Some(metadata)) => {
                last = format!("the metadata at `{address}` is for another issuer: {}", metadata["issuer"])
                    .into();
            }
            Ok(None) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the possible URLs of an issuer's metadata, in the order in which MCP requires clients to try them.
fn places(issuer: &str) -> Result<Vec<Url>, url::ParseError> {
    let issuer = Url::parse(issuer)?;
    let path = issuer.path().trim_end_matches('/').to_owned();
    let at = |path: &str| {
        let mut address = issuer.clone();
        address.set_path(path);
        address
    };
    let mut places = vec![
        at(&format!("/.well-known/oauth-authorization-server{path}")),
        at(&format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        places.push(at(&format!("{path}/.well-known/openid-configuration")));
    }
    Ok(places)
}

/// Returns whether data that is sent to `address` stays private. Data stays private over TLS, or if `address` is on
/// this machine.
pub(super) fn is_private(address: &str) -> bool {
    let Ok(address) = Url::parse(address) else { return false };
    match (address.scheme(), address.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Domain(name))) => name == "localhost" || name.ends_with(".localhost"),
        ("http", Some(Host::Ipv4(ip))) => ip.is_loopback(),
        ("http", Some(Host::Ipv6(ip))) => ip.is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_looked_for_where_mcp_says() {
        let places = |issuer| places(issuer).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            places("https://auth.example.com/tenant1"),
            [
                "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
                "https://auth.example.com/.well-known/openid-configuration/tenant1",
                "https://auth.example.com/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            places("https://auth.example.com"),
            [
                "https://auth.example.com/.well-known/oauth-authorization-server",
                "https://auth.example.com/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn only_tls_and_loopback_are_private() {
        for private in
            ["https://auth.example.com", "http://127.0.0.1:80/", "http://[::1]", "http://localhost"]
        {
            assert!(is_private(private), "{private}");
        }
        for public in ["http://auth.example.com", "http://10.0.0.1", "ftp://localhost", "auth.example.com"] {
            assert!(!is_private(public), "{public}");
        }
    }
}
