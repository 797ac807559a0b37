//! Somebody who calls, with a credential, on a revision, in a session if that has them.

use antiphon::testing::{Frame, Revision};
use axum::{Router, body::Body};
use http::{HeaderValue, Method, Request, header};
use serde_json::{Value, json};

use super::{Answer, send};
use crate::{checked::check, http::post_with, tasks::everything};

#[derive(Clone)]
pub(super) struct Caller {
    pub(super) app: Router,
    pub(super) credential: Option<String>,
    pub(super) revision: Revision,
    pub(super) session: Option<String>,
}

impl Caller {
    /// Somebody with this token or key. On 2025-11-25 they have begun a session.
    pub(super) async fn new(app: &Router, credential: &str, revision: Revision) -> Self {
        let mut caller = Self::nobody(app, revision);
        caller.credential = Some(credential.to_owned());
        if revision == Revision::V2025_11_25 {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
            let answer = caller.send("initialize", hello).await;
            let session = answer.headers.get("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.body));
            caller.session = Some(session.to_str().unwrap().to_owned());
            let initialized = caller.send("notifications/initialized", json!({})).await;
            assert_eq!(initialized.status, 202);
        }
        caller
    }

    /// Somebody with nothing to show.
    pub(super) fn nobody(app: &Router, revision: Revision) -> Self {
        Self { app: app.clone(), credential: None, revision, session: None }
    }

    /// The same caller with another credential.
    pub(super) fn with(&self, credential: &str) -> Self {
        Self { credential: Some(credential.to_owned()), ..self.clone() }
    }

    pub(super) fn request(&self, method: &str, params: Value) -> Request<Body> {
        let mut request = post_with(self.revision, method, params.clone(), everything());
        if method.starts_with("notifications/") {
            *request.body_mut() = Body::from(json!({"jsonrpc": "2.0", "method": method}).to_string());
        }
        if let (Revision::V2026_07_28, Some(task)) = (self.revision, params["taskId"].as_str()) {
            request.headers_mut().insert("mcp-name", task.parse().unwrap());
        }
        self.dress(request)
    }

    /// A request for something else on the same server.
    pub(super) fn plain(&self, method: Method, path: &str, body: Option<Value>) -> Request<Body> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").header("accept", "*/*");
        self.dress(request.body(body.map_or_else(Body::empty, |body| body.to_string().into())).unwrap())
    }

    fn dress(&self, mut request: Request<Body>) -> Request<Body> {
        let headers = request.headers_mut();
        if let Some(credential) = &self.credential {
            let value = HeaderValue::try_from(format!("Bearer {credential}")).unwrap();
            headers.insert(header::AUTHORIZATION, value);
        }
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
        }
        request
    }

    pub(super) async fn send(&self, method: &str, params: Value) -> Answer {
        send(&self.app, self.request(method, params)).await
    }

    /// The message a request is answered with.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Value {
        let message = self.send(method, params).await.message();
        check(self.revision, &Frame { method: Some(method.to_owned()), message: message.clone() });
        message
    }

    pub(super) async fn call(&self, tool: &str) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": {}})).await
    }
}
