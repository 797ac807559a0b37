//! Extracts and authenticates the HTTP requests for a result set.

use axum::extract::{FromRequestParts, RawPathParams};
use http::{HeaderMap, Method, request::Parts};

use super::{ask::Query, error::ApiError};
use crate::{
    error::{DualResponseError, Result},
    owner::Owner,
    server::{Access, Action, DualResponseServer},
};

/// Maximum length of a query string in bytes. The maximum is enough for the longest cursor and a link.
const MAX_QUERY: usize = 20 * 1024;

/// Maximum length of an ID. The IDs that a server generates are shorter than the maximum.
const MAX_ID: usize = 64;

/// A request for a result set, with the identity of the caller or a signed link.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) access: Access,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<DualResponseServer> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &DualResponseServer) -> Result<Self, ApiError> {
        // A path that cannot be decoded does not contain an ID.
        let names = RawPathParams::from_request_parts(parts, server).await;
        let names = names.map_err(|_| ApiError::not_found())?;
        let id = names.iter().filter(|(name, _)| *name == "id").last().map(|(_, id)| id.to_owned());
        let id = id.filter(|id| is_id(id)).ok_or_else(ApiError::not_found)?;
        let text = parts.uri.query().unwrap_or_default();
        if text.len() > MAX_QUERY {
            return Err(ApiError::query_too_long(MAX_QUERY));
        }
        let query = Query::read(text);
        let shown = match (query.link(), &server.inner.options.authenticate) {
            // If the request contains a link, only the link determines the access.
            (Some(link), _) => {
                server.inner.read_clock().await;
                server.open_link(link)
            }
            (None, Some(authenticate)) => match authenticate.authenticate(parts).await? {
                Some(owner) => Ok(Access::caller(owner)),
                None => Err(DualResponseError::Unauthorized),
            },
            (None, None) => Ok(Access::caller(Owner::nobody())),
        };
        if let Err(error) = &shown {
            let (action, by_link) = (action(parts), query.link().is_some());
            server.inner.record(Owner::nobody(), by_link, action, &id, (0, 0), Some(error.code()));
        }
        let access = shown?;
        Ok(Self { id, access, query, headers: std::mem::take(&mut parts.headers) })
    }
}

/// Returns the action of the request, for the audit.
fn action(parts: &Parts) -> Action {
    let path = parts.uri.path();
    match parts.method {
        _ if path.ends_with("/links") => Action::Link,
        _ if path.ends_with("/export") || path.contains("/chunks/") => Action::Export,
        _ if path.ends_with("/query") => Action::Query,
        Method::PUT => Action::Pin,
        Method::DELETE => Action::Delete,
        Method::POST => Action::Read,
        _ if path.ends_with("/rows") || path.ends_with("/stats") => Action::Read,
        _ => Action::Describe,
    }
}

/// Returns whether the text has the form of an ID. The server looks up only texts that have the form of an ID.
pub(super) fn is_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}
