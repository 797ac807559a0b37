//! Handlers for manifests, statistics, aggregates and queries.

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};

use super::{
    ask, body,
    cache::{NO_CACHE, Tag, VARY},
    call::Call,
    error::ApiError,
    json,
    routes::written,
};
use crate::{
    server::DualResponseServer,
    snapshot::{DerivedBody, StatsBody},
};

type Answer = Result<Response, ApiError>;

/// Handles `GET /{id}/manifest`.
pub(super) async fn manifest(State(server): State<DualResponseServer>, call: Call) -> Answer {
    let manifest = server.manifest(&call.id, &call.access).await?;
    let signed = manifest.url.is_some();
    let body = written(&manifest)?;
    if signed {
        // The body contains a URL that gives access to the rows, so the response must not be cached.
        return Ok(json(body));
    }
    let tag = Tag::of_body(body.as_bytes());
    let headers = [tag.header(), NO_CACHE, VARY];
    if tag.is_known(&call.headers) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, json(body)).into_response())
}

/// Handles `GET /{id}/stats`.
pub(super) async fn stats(State(server): State<DualResponseServer>, call: Call) -> Answer {
    let stats = StatsBody::new(server.stats(&call.id, &call.access).await?);
    let body = written(&stats)?;
    let tag = Tag::of_body(body.as_bytes());
    let headers = [tag.header(), NO_CACHE, VARY];
    if tag.is_known(&call.headers) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, json(body)).into_response())
}

/// Handles `POST /{id}/aggregate`.
pub(super) async fn aggregate(State(server): State<DualResponseServer>, call: Call, body: Body) -> Answer {
    let body = body::read(&call.headers, body, server.inner.options.limits.body_bytes).await?;
    let aggregate = ask::aggregate(&body)?;
    let rows = server.aggregate(&call.id, &call.access, &aggregate).await?;
    Ok(json(format!(r#"{{"data":[{}],"groups":{}}}"#, rows.as_json(), rows.len())))
}

/// Handles `POST /{id}/query`.
pub(super) async fn query(State(server): State<DualResponseServer>, call: Call, body: Body) -> Answer {
    let body = body::read(&call.headers, body, server.inner.options.limits.body_bytes).await?;
    let options = ask::query(&body)?;
    let response = server.query(&call.id, &call.access, options).await?;
    let place = HeaderValue::try_from(server.inner.url(&response.resource_id));
    let place = (header::LOCATION, place.map_err(|_| ApiError::internal())?);
    Ok((StatusCode::CREATED, [place], json(written(&DerivedBody::from(response))?)).into_response())
}
