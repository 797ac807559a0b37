//! Who is calling, and what they may do.

mod authority;
mod caller;
mod challenges;
mod connections;
mod introspection;
mod keys;
#[cfg(feature = "results")]
mod matrix;
mod proxy;
mod rotation;
mod scopes;
mod sessions;
pub(crate) mod signer;
mod tokens;
mod visibility;

use antiphon::{
    ServerBuilder,
    auth::{Auth, AuthBuilder, Issuer},
    http::HttpConfig,
    prelude::*,
    testing::Revision,
};
use axum::{Router, body::Body};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use self::authority::Authority;
use crate::http::post;

/// The address under which clients know the server.
const RESOURCE: &str = "https://mcp.example.com/mcp";

/// What every challenge leads to.
const METADATA: &str =
    r#"resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp""#;

async fn whoami(ctx: &Ctx, _: ()) -> Result<String> {
    let subject = ctx.identity().and_then(|identity| identity.subject()).unwrap_or_default();
    Ok(format!("{} {subject}", ctx.principal().unwrap_or("nobody")))
}

fn tools() -> ServerBuilder {
    Server::builder("guarded", "1.0.0")
        .tool(Tool::new("whoami", "Says who is calling", whoami))
        .tool(Tool::new("erase", "Erases everything", whoami).with_scopes(["erase", "audit"]))
}

fn app(auth: Auth) -> Router {
    tools().with_auth(auth).build().unwrap().router(HttpConfig::default())
}

/// A server that takes an authority's tokens.
fn trusting(authority: &Authority) -> AuthBuilder {
    Auth::builder(RESOURCE).with_issuer(Issuer::new(&*authority.issuer)).with_scopes(["use"])
}

/// A call of a tool, with something to show.
fn call(revision: Revision, tool: &str, credential: Option<&str>) -> Request<Body> {
    let mut request = post(revision, "tools/call", json!({"name": tool, "arguments": {}}));
    if let Some(credential) = credential {
        let value = HeaderValue::try_from(credential).unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    request
}

/// What came of a request: its status, its challenge, its body.
struct Answer {
    status: StatusCode,
    challenge: Option<String>,
    headers: http::HeaderMap,
    body: String,
}

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let challenge = parts.headers.get(header::WWW_AUTHENTICATE);
        Self {
            status: parts.status,
            challenge: challenge.map(|challenge| challenge.to_str().unwrap().to_owned()),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// The last message of the body, be it JSON or a stream of events.
    fn message(&self) -> Value {
        let lines = self.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        lines.filter_map(|line| serde_json::from_str(line.trim()).ok()).next_back().unwrap_or_default()
    }

    /// What a tool returned.
    fn text(&self) -> String {
        let text = &self.message()["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{} {}", self.status, self.body)).to_owned()
    }
}

async fn send(app: &Router, request: Request<Body>) -> Answer {
    Answer::read(app.clone().oneshot(request).await.unwrap()).await
}

/// Calls `whoami` with a token.
async fn with_token(app: &Router, token: &str) -> Answer {
    send(app, call(Revision::V2026_07_28, "whoami", Some(&format!("Bearer {token}")))).await
}

/// A request with another header.
fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
    request
}

/// What is said of a token with which something is wrong.
const INVALID: &str = "the access token is not valid";

fn invalid(why: &str) -> String {
    format!(r#"Bearer error="invalid_token", error_description="{why}", {METADATA}, scope="use""#)
}

fn assert_invalid(answer: &Answer, why: &str, about: &str) {
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{about}: {}", answer.body);
    assert_eq!(answer.challenge.as_deref(), Some(&*invalid(why)), "{about}");
}
