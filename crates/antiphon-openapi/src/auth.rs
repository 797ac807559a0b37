//! Credentials for the API that an OpenAPI document describes. The server keeps the credentials, and models cannot
//! read the credentials.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc};

use antiphon::Ctx;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};
use url::{Url, form_urlencoded};

use crate::{
    document::{Document, Found},
    request::{ENCODED, Request},
};

/// The characters that the value of a cookie cannot contain (RFC 6265).
const COOKIE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b',').add(b';').add(b'\\');

/// A credential of the API that the tools call.
///
/// The security scheme in the OpenAPI document determines where the credential is sent: in a header, in the query or
/// in a cookie. Arguments and schemas of tools do not contain the credential.
///
/// If a response of the API contains the credential, the result of the tool contains `[credential]` instead.
/// Credentials that can be ordinary words are an exception. A credential can be an ordinary word if it has fewer than 8
/// characters. A credential that consists only of letters can be an ordinary word if it has fewer than 16 letters.
///
/// ```
/// use antiphon_openapi::Credential;
///
/// # fn new_token() -> String { "t".into() }
/// let fixed = Credential::token("secret");
/// let renewed = Credential::from_fn(|_caller| async { Ok(new_token()) });
/// # let _ = (fixed, renewed);
/// ```
#[derive(Clone)]
pub struct Credential(Kind);

#[derive(Clone)]
enum Kind {
    Token(Arc<str>),
    Basic { encoded: Arc<str>, password: Arc<str> },
    Function(TokenFunction),
    CallerHeader(HeaderName),
}

type TokenFunction =
    Arc<dyn Fn(Caller) -> Pin<Box<dyn Future<Output = antiphon::Result<String>> + Send>> + Send + Sync>;

impl Credential {
    /// Creates a credential from an API key or a token. For security schemes of the type `http`, `oauth2` or
    /// `openIdConnect`, the credential is sent as a bearer token. For security schemes of the type `apiKey`, the
    /// credential is sent unchanged.
    pub fn token(token: impl Into<Arc<str>>) -> Self {
        Self(Kind::Token(token.into()))
    }

    /// Creates a credential from a user name and a password, for HTTP basic authentication.
    pub fn basic(user: &str, password: &str) -> Self {
        let encoded = STANDARD.encode(format!("{user}:{password}")).into();
        Self(Kind::Basic { encoded, password: password.into() })
    }

    /// Creates a credential from a function that returns a token for each request. Use this credential for tokens that
    /// expire, for example tokens from an OAuth flow. If the function that returns the token fails, the call of the
    /// tool fails with the same error, and the model can read the error.
    pub fn from_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(Caller) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = antiphon::Result<String>> + Send + 'static,
    {
        Self(Kind::Function(Arc::new(move |caller| Box::pin(function(caller)))))
    }

    /// Creates a credential that comes from the caller of the tool. The caller sends the credential in the header
    /// `name` of the caller's HTTP request. Tool calls without the header `name` fail.
    ///
    /// Do not use `from_caller_header` for the access token with which the caller authenticates to the MCP server. MCP
    /// forbids a server to forward this access token, and the `Auth` of Antiphon removes the token from the request.
    /// Let the caller send the token of the API in another header, for example `x-api-token`.
    pub fn from_caller_header(name: HeaderName) -> Self {
        Self(Kind::CallerHeader(name))
    }

    /// Returns the secret that authenticates a tool call of `caller` at the API.
    async fn secret(&self, caller: &Caller) -> antiphon::Result<Secret> {
        Ok(match &self.0 {
            Kind::Token(token) => Secret::Token(token.to_string()),
            Kind::Basic { encoded, password } => {
                Secret::Basic { encoded: encoded.to_string(), password: password.to_string() }
            }
            Kind::Function(function) => Secret::Token(function(caller.clone()).await?),
            Kind::CallerHeader(name) => {
                let value = caller.headers.as_ref().and_then(|headers| headers.get(name)?.to_str().ok());
                let value = value.ok_or_else(|| {
                    antiphon::Error::tool(format!(
                        "the request has no header `{name}`, which contains the token of the API"
                    ))
                    .terminal()
                })?;
                Secret::Token(value.to_owned())
            }
        })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Token(_) => "Credential::token(…)",
            Kind::Basic { .. } => "Credential::basic(…)",
            Kind::Function(_) => "Credential::from_fn(…)",
            Kind::CallerHeader(_) => "Credential::from_caller_header(…)",
        })
    }
}

/// The caller of a tool. [`Credential::from_fn`] passes the caller to the function that returns the token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Caller {
    /// The name of the authenticated caller, if the server authenticates callers.
    pub principal: Option<String>,
    /// The headers of the caller's HTTP request, if the caller uses HTTP.
    pub headers: Option<HeaderMap>,
}

impl Caller {
    pub(crate) fn of(ctx: &Ctx) -> Self {
        Self { principal: ctx.principal().map(ToOwned::to_owned), headers: ctx.headers().cloned() }
    }
}

enum Secret {
    Token(String),
    /// The user name and the password in base64, and the password as plain text.
    Basic {
        encoded: String,
        password: String,
    },
}

/// The place in a request where a security scheme puts a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Header(HeaderName),
    Query(String),
    Cookie(String),
    /// The header `Authorization` with an authentication scheme, for example `Bearer`.
    Authorization(&'static str),
}

impl Target {
    /// Returns the place where a security scheme puts the credential, or the reason why the scheme is not supported.
    fn new(scheme: &Value) -> Result<Self, String> {
        let text = |name: &str| scheme.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "apiKey" => match text("in") {
                "header" => HeaderName::from_bytes(text("name").as_bytes())
                    .map(Self::Header)
                    .map_err(|_| format!("`{}` is not a valid header name", text("name"))),
                "query" => Ok(Self::Query(text("name").to_owned())),
                "cookie" => Ok(Self::Cookie(text("name").to_owned())),
                other => Err(format!("an API key in `{other}` is not supported")),
            },
            "http" => match text("scheme").to_ascii_lowercase().as_str() {
                "bearer" => Ok(Self::Authorization("Bearer")),
                "basic" => Ok(Self::Authorization("Basic")),
                other => Err(format!("the HTTP authentication scheme `{other}` is not supported")),
            },
            "oauth2" | "openIdConnect" => Ok(Self::Authorization("Bearer")),
            other => Err(format!("the security scheme type `{other}` is not supported")),
        }
    }

    /// Returns whether a parameter in the document is the parameter for the credential: the parameter has the place
    /// and the name of this target.
    pub(crate) fn is_parameter(&self, place: &str, name: &str) -> bool {
        match self {
            Self::Header(header) => place == "header" && name.eq_ignore_ascii_case(header.as_str()),
            Self::Query(query) => place == "query" && name == query,
            Self::Cookie(cookie) => place == "cookie" && name == cookie,
            Self::Authorization(_) => place == "header" && name.eq_ignore_ascii_case("authorization"),
        }
    }
}

/// The credentials that the developer of the server has configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    /// The configured credentials, by the names of the security schemes.
    pub(crate) named: BTreeMap<String, Credential>,
    /// The bearer token for operations without a security scheme.
    pub(crate) bearer: Option<Credential>,
}

/// The credentials that a request for one operation contains, with the place of each credential in the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied(Vec<(Target, Credential)>);

impl Credentials {
    /// Selects the credentials of an operation. An operation can list several alternative sets of security schemes.
    /// The function selects the first alternative whose credentials are all configured. If the operation needs
    /// credentials and no alternative is fully configured, the function also returns a warning.
    pub(crate) fn of(&self, document: &Document, found: &Found<'_>) -> (Applied, Option<String>) {
        let security = security(document, found);
        let alternatives = alternatives(security);
        let mut problem = None;
        for alternative in alternatives.iter().filter(|alternative| !alternative.is_empty()) {
            match self.alternative(document, alternative) {
                Ok(applied) => return (applied, None),
                Err(reason) => problem = problem.or(Some(reason)),
            }
        }
        if security.is_none()
            && let Some(bearer) = &self.bearer
        {
            return (Applied(vec![(Target::Authorization("Bearer"), bearer.clone())]), None);
        }
        let is_optional = alternatives.iter().any(|alternative| alternative.is_empty());
        (Applied::default(), problem.filter(|_| !is_optional))
    }

    fn alternative(&self, document: &Document, schemes: &Map<String, Value>) -> Result<Applied, String> {
        let mut applied = Vec::new();
        for name in schemes.keys() {
            let credential = self.named.get(name);
            let credential = credential.ok_or_else(|| {
                format!(
                    "the security scheme `{name}` has no credential; set it with `OpenApi::with_credential`"
                )
            })?;
            let scheme = document.component("securitySchemes", name);
            let scheme =
                scheme.ok_or_else(|| format!("the security scheme `{name}` is not in the document"))?;
            let target =
                Target::new(scheme).map_err(|reason| format!("security scheme `{name}`: {reason}"))?;
            applied.push((target, credential.clone()));
        }
        Ok(Applied(applied))
    }
}

/// Returns all places where the security schemes of an operation put credentials. The returned list contains the
/// places of all alternatives, even of alternatives without configured credentials.
pub(crate) fn targets(document: &Document, found: &Found<'_>) -> Vec<Target> {
    let names = alternatives(security(document, found)).into_iter().flat_map(Map::keys);
    let schemes = names.filter_map(|name| document.component("securitySchemes", name));
    schemes.filter_map(|scheme| Target::new(scheme).ok()).collect()
}

/// Returns the `security` of an operation, or the `security` of the document if the operation has none.
fn security<'a>(document: &'a Document, found: &Found<'a>) -> Option<&'a Value> {
    found.operation.get("security").or_else(|| document.field("security"))
}

fn alternatives(security: Option<&Value>) -> Vec<&Map<String, Value>> {
    security.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect()
}

impl Applied {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the credentials to a request. A credential replaces a query parameter, a cookie or a header with the same
    /// name. An argument, or the link to a page, can contain a parameter with the same name as a credential. Returns
    /// all forms of the secrets, so that the caller can remove the secrets from the result of the tool.
    pub(crate) async fn add(&self, request: &mut Request, caller: &Caller) -> antiphon::Result<Vec<String>> {
        let mut secrets = Vec::new();
        for (target, credential) in &self.0 {
            let (secret, is_basic) = match credential.secret(caller).await? {
                Secret::Token(token) => (token, false),
                Secret::Basic { encoded, password } => {
                    secrets.push(password);
                    (encoded, true)
                }
            };
            match target {
                Target::Header(name) => {
                    let value = if is_basic { format!("Basic {secret}") } else { secret.clone() };
                    request.headers.insert(name.clone(), header_value(&value)?);
                }
                Target::Authorization(scheme) => {
                    let scheme = if is_basic { "Basic" } else { *scheme };
                    // For a scheme `basic`, the token is sent as a user name without a password. Many APIs accept keys
                    // in this form.
                    let value = match (scheme, is_basic) {
                        ("Basic", false) => format!("Basic {}", STANDARD.encode(format!("{secret}:"))),
                        _ => format!("{scheme} {secret}"),
                    };
                    request.headers.insert(header::AUTHORIZATION, header_value(&value)?);
                }
                Target::Query(name) => {
                    remove_query(&mut request.url, name);
                    request.url.query_pairs_mut().append_pair(name, &secret);
                }
                Target::Cookie(name) => {
                    request.cookies.retain(|cookie| cookie_name(cookie) != *name);
                    request.cookies.push(format!("{name}={}", utf8_percent_encode(&secret, COOKIE)));
                }
            }
            secrets.push(secret);
        }
        let mut forms: Vec<String> = secrets.iter().flat_map(|secret| forms(secret)).collect();
        forms.retain(|form| !can_be_a_word(form));
        // A form can contain another form, so the longest form comes first.
        forms.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Ok(forms)
    }
}

/// Returns the forms in which a response can contain a secret: unchanged, and encoded for URLs, JSON, cookies and
/// basic authentication.
fn forms(secret: &str) -> [String; 8] {
    let json = Value::from(secret).to_string();
    let json = &json[1..json.len() - 1];
    [
        secret.to_owned(),
        form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
        utf8_percent_encode(secret, ENCODED).to_string(),
        utf8_percent_encode(secret, COOKIE).to_string(),
        json.to_owned(),
        json.replace('/', "\\/"),
        STANDARD.encode(secret),
        STANDARD.encode(format!("{secret}:")),
    ]
}

/// Returns whether a text can occur in a response by accident, for example the password `name`. If the server replaced
/// a common word in responses, the replacements would damage the response. The model could also infer the password from
/// the positions of the replacements.
fn can_be_a_word(text: &str) -> bool {
    text.len() < 8 || text.len() < 16 && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Removes the parameters with the name `name` from the query of `url`. All other query parameters stay unchanged.
fn remove_query(url: &mut Url, name: &str) {
    let is_other =
        |pair: &&str| form_urlencoded::parse(pair.as_bytes()).next().is_none_or(|(found, _)| found != name);
    let kept = url.query().map(|query| query.split('&').filter(is_other).collect::<Vec<_>>().join("&"));
    url.set_query(kept.as_deref().filter(|query| !query.is_empty()));
}

/// Returns the decoded name of a cookie that is written as `name=value`.
fn cookie_name(cookie: &str) -> String {
    let name = cookie.split('=').next().unwrap_or_default();
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}

fn header_value(text: &str) -> antiphon::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        antiphon::Error::tool("the credential of the API cannot be sent in a header").terminal()
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        Document::new(json!({
            "openapi": "3.0.0",
            "security": [{"key": [], "other": []}, {"oauth": ["read"]}],
            "paths": {"/a": {
                "get": {},
                "put": {"security": []},
                "post": {"security": [{"tls": []}]},
                "patch": {"security": [{"key": []}, {}]},
            }},
            "components": {"securitySchemes": {
                "key": {"type": "apiKey", "in": "query", "name": "api_key"},
                "other": {"type": "apiKey", "in": "header", "name": "X-Other"},
                "oauth": {"type": "oauth2"},
                "tls": {"type": "mutualTLS"},
            }},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_complete_alternative_is_used() {
        let document = document();
        let operations = document.operations();
        let mut credentials = Credentials::default();
        let (applied, warning) = credentials.of(&document, &operations[0]);
        assert!(applied.0.is_empty());
        assert!(warning.unwrap().contains("`key` has no credential"));

        credentials.named.insert("oauth".into(), Credential::token("t"));
        credentials.named.insert("key".into(), Credential::token("k"));
        credentials.named.insert("tls".into(), Credential::token("x"));
        let (applied, warning) = credentials.of(&document, &operations[0]);
        assert_eq!(applied.0[0].0, Target::Authorization("Bearer"));
        assert_eq!(warning, None);
        assert!(applied.0[0].0.is_parameter("header", "AUTHORIZATION"));

        assert!(credentials.of(&document, &operations[1]).0.0.is_empty());
        assert!(credentials.of(&document, &operations[2]).1.unwrap().contains("mutualTLS"));
        let (applied, _) = credentials.of(&document, &operations[3]);
        assert_eq!(applied.0[0].0, Target::Query("api_key".into()));
    }

    #[test]
    fn optional_credentials_need_no_warning() {
        let document = document();
        let credentials = Credentials { named: BTreeMap::new(), bearer: Some(Credential::token("b")) };
        assert_eq!(credentials.of(&document, &document.operations()[3]).1, None);
        assert!(credentials.of(&document, &document.operations()[1]).0.0.is_empty());
        let open = Document::new(json!({"openapi": "3.0.0", "paths": {"/a": {"get": {}}}})).unwrap();
        let (applied, _) = credentials.of(&open, &open.operations()[0]);
        assert_eq!(applied.0[0].0, Target::Authorization("Bearer"));
    }

    #[tokio::test]
    async fn a_credential_replaces_the_value_of_an_argument() {
        let credential = || Credential::token("real");
        let applied = Applied(vec![
            (Target::Query("api key".into()), credential()),
            (Target::Cookie("sid".into()), credential()),
        ]);
        let mut request = Request {
            method: http::Method::GET,
            url: Url::parse("https://a.example/?api%20key=mine&f[x]=a%20b&api+key=mine").unwrap(),
            headers: HeaderMap::new(),
            cookies: vec!["sid=mine".into(), "s%69d=mine".into(), "lang=de".into()],
            body: None,
        };
        let caller = Caller { principal: None, headers: None };
        applied.add(&mut request, &caller).await.unwrap();
        assert_eq!(request.url.query(), Some("f[x]=a%20b&api+key=real"));
        assert_eq!(request.cookies, ["lang=de", "sid=real"]);
        request.url.set_query(Some("api%20key=mine"));
        applied.add(&mut request, &caller).await.unwrap();
        assert_eq!(request.url.query(), Some("api+key=real"));
    }

    #[tokio::test]
    async fn words_are_not_replaced_in_responses() {
        let caller = Caller { principal: None, headers: None };
        for (password, is_replaced) in
            [("name", false), ("password", false), ("passw0rd", true), ("correcthorsebattery", true)]
        {
            let credential = Credential::basic("ada", password);
            let applied = Applied(vec![(Target::Authorization("Basic"), credential)]);
            let url = Url::parse("https://a.example").unwrap();
            let (method, headers, cookies) = (http::Method::GET, HeaderMap::new(), Vec::new());
            let mut request = Request { method, url, headers, cookies, body: None };
            let secrets = applied.add(&mut request, &caller).await.unwrap();
            assert_eq!(secrets.iter().any(|it| it == password), is_replaced, "{password}");
            assert!(secrets.contains(&STANDARD.encode(format!("ada:{password}"))), "{password}");
        }
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let shown = format!("{:?}", [Credential::token("hush"), Credential::basic("ada", "hush")]);
        assert!(!shown.contains("hush") && !shown.contains(&STANDARD.encode("ada:hush")), "{shown}");
    }
}
