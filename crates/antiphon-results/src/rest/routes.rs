//! Handlers of the main routes.

use std::fmt::Write as _;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};

use super::{
    accept::Format,
    ask, body,
    cache::{self, NO_CACHE, Tag, VARY},
    call::Call,
    error::ApiError,
    export, json, stream,
};
use crate::{
    page::{LifeBody, MetadataBody},
    server::{Action, Consistency, DualResponseServer, Expiry, Page, PageOptions},
    snapshot::SetStatus,
    store::Resource,
};

type Answer = Result<Response, ApiError>;

/// Handles `GET /{id}`.
pub(super) async fn describe(State(server): State<DualResponseServer>, call: Call) -> Answer {
    let resource = server.describe(&call.id, &call.access).await?;
    let body = written(&MetadataBody {
        status: server.inner.status(&resource).name().into(),
        total_count: resource.total_count,
        columns: resource.columns,
        created_at: resource.created_at,
        expires_at: resource.expires_at,
        access_count: resource.access_count,
    })?;
    let tag = Tag::of_body(body.as_bytes());
    let headers = [tag.header(), NO_CACHE, VARY];
    if tag.is_known(&call.headers) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, json(body)).into_response())
}

/// Handles `POST /{id}`.
pub(super) async fn page(State(server): State<DualResponseServer>, call: Call, body: Body) -> Answer {
    let format = Format::wanted(&call.headers).ok_or_else(ApiError::not_acceptable)?;
    let csv_safe = call.query.csv_safe()?;
    let body = body::read(&call.headers, body, server.inner.options.limits.body_bytes).await?;
    let options = ask::page(&body)?;
    if format == Format::Json {
        let limit = options.limit;
        let page = server.page(&call.id, &call.access, options).await?;
        return Ok(page_answer(&server, &call, &page, limit));
    }
    let resource = server.inner.open_rows(&call.id, &call.access, Action::Read).await?;
    stream::answer(&server, &call, &resource, options, format, csv_safe).await
}

/// Handles `GET /{id}/rows`.
pub(super) async fn rows(State(server): State<DualResponseServer>, call: Call) -> Answer {
    let format = Format::wanted(&call.headers).ok_or_else(ApiError::not_acceptable)?;
    let csv_safe = call.query.csv_safe()?;
    let mut options = call.query.page()?;
    let resource = server.inner.open_rows(&call.id, &call.access, Action::Read).await?;
    if let Some(sort) = call.query.sort_of(&resource.columns) {
        options.sort = vec![sort];
    }
    let headers = [cache::control(&server.inner, &resource, &call.access), VARY];
    // Some result sets reject cursors. So for a request with a cursor, the validator is not compared before the page is
    // read.
    let fixed = Consistency::of(&resource) == Consistency::Fixed && options.cursor.is_none();
    let tag = fixed.then(|| Tag::of_request(&server.inner, &resource, &options, format, csv_safe));
    if let Some(tag) = &tag
        && tag.is_known(&call.headers)
        && is_plain(&resource, &options)
        && server.inner.status(&resource) == SetStatus::Ready
    {
        server.inner.audit(&call.access, Action::Read, &call.id, (0, 0), None);
        let consistency = (stream::CONSISTENCY, HeaderValue::from_static(Consistency::Fixed.name()));
        return Ok((StatusCode::NOT_MODIFIED, headers, [tag.header(), consistency]).into_response());
    }
    if format != Format::Json {
        let answer = stream::answer(&server, &call, &resource, options, format, csv_safe).await?;
        return Ok((headers, tag.map(|tag| [tag.header()]), answer).into_response());
    }
    let limit = options.limit;
    let page = server.page_of(&resource, &call.access, options).await?;
    let body = page_body(&page);
    let tag = tag.unwrap_or_else(|| Tag::of_body(body.as_bytes()));
    let known = tag.is_known(&call.headers);
    let mut answer = if known { StatusCode::NOT_MODIFIED.into_response() } else { json(body) };
    page_headers(&server, &call, &page, limit, &mut answer);
    Ok((headers, [tag.header()], answer).into_response())
}

/// Handles `PUT /{id}`.
pub(super) async fn set_expiry(State(server): State<DualResponseServer>, call: Call, body: Body) -> Answer {
    let body = body::read(&call.headers, body, server.inner.options.limits.body_bytes).await?;
    let life = ask::life(&body)?;
    let resource = server.set_expiry(&call.id, &call.access, life).await?;
    let status = if life == Expiry::Pinned { "pinned" } else { "ready" };
    Ok(json(written(&LifeBody { status: status.into(), expires_at: resource.expires_at })?))
}

/// Handles `DELETE /{id}`.
pub(super) async fn delete(State(server): State<DualResponseServer>, call: Call) -> Answer {
    server.delete(&call.id, &call.access).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Returns whether the result set can fulfil the request. If the result set cannot fulfil the request, the response is
/// an error, even if the client sends a validator that matches.
pub(super) fn is_plain(resource: &Resource, options: &PageOptions) -> bool {
    let known = |field: &String| resource.columns.iter().any(|column| column.name == *field);
    let sorts = options.sort.iter().all(|sort| known(&sort.field));
    let more = options.sort.len() > 1 || !options.filter.is_empty() || !options.columns.is_empty();
    // For snapshots, the other options are not checked here, because these options are checked when the page is read.
    sorts && !more
}

fn page_answer(server: &DualResponseServer, call: &Call, page: &Page, limit: Option<u64>) -> Response {
    let mut answer = json(page_body(page));
    page_headers(server, call, page, limit, &mut answer);
    answer
}

/// Returns a page as JSON. The rows are already JSON and are copied.
fn page_body(page: &Page) -> String {
    let rows = page.rows.as_json();
    let mut body = String::with_capacity(rows.len() + 160);
    body.push_str(r#"{"data":["#);
    body.push_str(rows);
    let (total, count, offset, more) = (page.total_count, page.rows.len(), page.offset, page.has_next);
    // Writing to a `String` does not fail.
    let _ = write!(
        body,
        r#"],"total_count":{total},"returned_count":{count},"offset":{offset},"has_next":{more},"next_offset":"#
    );
    let _ = match page.next_offset() {
        Some(next) => write!(body, "{next}}}"),
        None => write!(body, "null}}"),
    };
    body
}

/// Adds the response headers of a page.
fn page_headers(
    server: &DualResponseServer,
    call: &Call,
    page: &Page,
    limit: Option<u64>,
    answer: &mut Response,
) {
    let headers = answer.headers_mut();
    headers.insert(stream::CONSISTENCY, HeaderValue::from_static(page.consistency.name()));
    if let Some((name, value)) = export::truncated(page.truncated) {
        headers.insert(name, value);
    }
    let Some(cursor) = &page.cursor else { return };
    let mut next = format!("<{}/rows?cursor={cursor}", server.inner.url(&call.id));
    if let Some(limit) = limit {
        let _ = write!(next, "&limit={limit}");
    }
    if let Some(link) = call.query.link() {
        // The link is verified, so it contains only letters, digits, `-` and `_`.
        let _ = write!(next, "&link={link}");
    }
    next.push_str(r#">; rel="next""#);
    if let Ok(next) = HeaderValue::try_from(next) {
        headers.insert(header::LINK, next);
    }
}

/// Serializes a body that this crate created.
pub(super) fn written<T: serde::Serialize>(body: &T) -> Result<String, ApiError> {
    serde_json::to_string(body).map_err(|_| ApiError::internal())
}
