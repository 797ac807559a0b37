//! Routes for signed links.

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde::Serialize;

use super::{ask, body, call::Call, error::ApiError, json, routes::written};
use crate::{error::DualResponseError, link::Scope, server::DualResponseServer};

/// The response body of `POST /{id}/links`.
#[derive(Serialize)]
struct LinkBody {
    url: String,
    scopes: Vec<Scope>,
    expires_at: DateTime<Utc>,
}

/// Handles `POST /{id}/links`.
pub(super) async fn mint(
    State(server): State<DualResponseServer>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read(&call.headers, body, server.inner.options.limits.body_bytes).await?;
    let options = ask::link(&body)?;
    let link = server.mint_link(&call.id, &call.access, options).await.map_err(|error| match error {
        DualResponseError::Config(_) => ApiError::no_links(),
        error => error.into(),
    })?;
    let body = LinkBody { url: link.url, scopes: link.scopes, expires_at: link.expires_at };
    Ok((StatusCode::CREATED, json(written(&body)?)).into_response())
}

/// Handles `DELETE /{id}/links`.
pub(super) async fn revoke(
    State(server): State<DualResponseServer>,
    call: Call,
) -> Result<Response, ApiError> {
    server.revoke_links(&call.id, &call.access).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
