//! What requests need, and whether whoever sends them may.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, Method};
use serde::Deserialize;

use super::{Auth, Identity, Inner, Refusal, refusal::EXPIRED};
use crate::{
    mcp::Authorize,
    protocol::headers::{METHOD, NAME},
    registry::Registry,
    server::{Shared, revised::Read},
    task::{Owner, Tasks},
    tool::Tool,
};

/// Whether `identity` may do what needs all of `needs`.
///
/// Who may not is told of all of them at once, and of those they have among `known`: a client of 2025-11-25 that asks for
/// what it lacks, and for nothing else, would lose what it had.
pub(super) fn hold<'a>(
    identity: &Identity,
    needs: impl Iterator<Item = &'a String> + Clone,
    known: &[&'a str],
) -> Result<(), Refusal> {
    if needs.clone().all(|scope| identity.has_scope(scope)) {
        return Ok(());
    }
    let mut told: Vec<String> = Vec::new();
    let kept = known.iter().copied().filter(|scope| identity.has_scope(scope));
    for scope in needs.map(String::as_str).chain(kept) {
        if !told.iter().any(|it| it == scope) {
            told.push(scope.to_owned());
        }
    }
    Err(Refusal::Scope(told))
}

impl Inner {
    /// What requests of a method need, of a tool if they call one.
    fn needs<'a>(&'a self, method: &str, tool: &'a [String]) -> impl Iterator<Item = &'a String> + Clone {
        let operation = self.operations.get(method).map(Vec::as_slice).unwrap_or_default();
        self.scopes.iter().chain(operation).chain(tool)
    }
}

impl Authorize for Auth {
    fn authorize(
        &self,
        registry: &Registry,
        identity: Option<&Identity>,
        over_http: bool,
        method: &str,
        tool: Option<&Tool>,
    ) -> Result<(), Refusal> {
        let identity = match identity {
            Some(identity) => identity,
            None if over_http => return Err(Refusal::Missing),
            None => return Ok(()),
        };
        // Over a WebSocket the credentials are those that opened it.
        if identity.is_over() {
            return Err(EXPIRED);
        }
        let inner = &self.inner;
        let tool = tool.map(|tool| tool.scopes.as_slice()).unwrap_or_default();
        if inner.needs(method, tool).all(|scope| identity.has_scope(scope)) {
            return Ok(());
        }
        let tools = registry.tools().iter().flat_map(|tool| &tool.scopes);
        let known = inner.scopes.iter().chain(inner.operations.values().flatten()).chain(tools);
        let known: Vec<&str> = known.map(String::as_str).collect();
        hold(identity, inner.needs(method, tool), &known)
    }
}

/// The challenge to a request, if whoever sends it may not do what it asks for.
///
/// That is looked at again where it is done, over every transport; here a request can still be answered with a challenge.
pub(in crate::server) fn step_up(shared: &Shared, read: &Read, is_legacy: bool) -> Option<Response> {
    let auth = shared.auth.as_ref()?;
    let (method, headers, extensions, bytes) = match read {
        Read::Whole { parts, bytes, .. } => (&parts.method, &parts.headers, &parts.extensions, Some(bytes)),
        Read::Not(request) => (request.method(), request.headers(), request.extensions(), None),
    };
    if method != Method::POST {
        return None;
    }
    let registry = shared.service.registry();
    if auth.inner.operations.is_empty() && registry.tools().iter().all(|tool| tool.scopes.is_empty()) {
        return None;
    }
    let said = if is_legacy { None } else { Called::of_headers(headers) };
    let Called { method, name } = said.or_else(|| Called::of_body(bytes?))?;
    let name = name.filter(|_| method == "tools/call");
    let tool = name.and_then(|name| registry.tool(&name)).map(|tool| &**tool);
    let refusal = auth.authorize(&registry, extensions.get::<Identity>(), true, &method, tool).err()?;
    Some(auth.respond(&refusal))
}

/// The same for a request about a task, which needs what the task's tool needs. What is read of the request is owned: its
/// body cannot be kept while the store is asked.
pub(in crate::server) fn step_up_task(
    shared: &Arc<Shared>,
    read: &Read,
) -> impl Future<Output = Option<Response>> + Send + use<> {
    let asked = shared.service.has_scoped_tools().then(|| TaskAsked::of(shared, read)).flatten();
    let shared = Arc::clone(shared);
    async move {
        let TaskAsked { method, id, owner, identity } = asked?;
        // If the store fails, whoever answers the request says so.
        let view = shared.service.tasks.as_ref()?.get(&owner, &id).await.ok()??;
        let registry = shared.service.registry();
        let tool = registry.tool(&view.tool).map(|tool| &**tool);
        let auth = shared.auth.as_ref()?;
        let refusal = auth.authorize(&registry, identity.as_ref(), true, &method, tool).err()?;
        Some(auth.respond(&refusal))
    }
}

/// Which task a request is about, and who sends it.
struct TaskAsked {
    method: String,
    id: String,
    owner: Owner,
    identity: Option<Identity>,
}

impl TaskAsked {
    fn of(shared: &Shared, read: &Read) -> Option<Self> {
        let Read::Whole { parts, bytes, .. } = read else { return None };
        let OfTask { method, params } = serde_json::from_slice(bytes).ok()?;
        let id = params.task_id.filter(|_| method.starts_with("tasks/"))?;
        let owner = Tasks::owner(shared.service.principal_of(parts).as_deref());
        Some(Self { method, id, owner, identity: parts.extensions.get().cloned() })
    }
}

/// A message about a task.
#[derive(Deserialize)]
struct OfTask {
    method: String,
    params: TaskId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskId {
    #[serde(default)]
    task_id: Option<String>,
}

/// What a message asks for, as far as scopes go.
#[derive(Debug, PartialEq, Eq)]
struct Called {
    method: String,
    name: Option<String>,
}

impl Called {
    /// What a request of 2026-07-28 says in its headers. The SDK refuses one whose body says otherwise.
    fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
        Some(Self { method: text(&METHOD)?, name: text(&NAME) })
    }

    /// What a message says in its body. `None` for what asks for nothing.
    fn of_body(bytes: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Message {
            method: String,
            #[serde(default)]
            params: Option<Params>,
        }
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            name: Option<String>,
        }
        let Message { method, params } = serde_json::from_slice(bytes).ok()?;
        Some(Self { method, name: params.and_then(|params| params.name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_says_what_it_calls() {
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"name":"b"}}}"#;
        assert_eq!(
            Called::of_body(call),
            Some(Called { method: "tools/call".into(), name: Some("a".into()) })
        );
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"pi\u006eg"}"#;
        assert_eq!(Called::of_body(ping), Some(Called { method: "ping".into(), name: None }));
        for other in [&br#"{"jsonrpc":"2.0","id":1,"result":{}}"#[..], b"", b"[]", b"{", br#"{"method":7}"#] {
            assert_eq!(Called::of_body(other), None);
        }
    }
}
