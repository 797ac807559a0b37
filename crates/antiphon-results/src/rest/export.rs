//! Exports of whole result sets in a file format, and byte ranges of exports.

use std::convert::Infallible;

use axum::{
    body::Body,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};

use super::{
    accept::{self, Format},
    cache::{self, Tag, VARY},
    call::Call,
    csv,
    error::ApiError,
    range, stream,
};
use crate::{
    error::DualResponseError,
    server::{Action, Consistency, DualResponseServer, PageOptions, SetExport},
    snapshot::{ExportFormat, ExportRequest, RetrievalMode, Truncation},
    store::{Origin, Resource},
};

/// The response header with the digest of the whole file, even if the response contains only a part of the file.
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The response header that contains the reason why the last rows were omitted.
pub(super) const TRUNCATED: HeaderName = HeaderName::from_static("antiphon-truncated");

type Answer = Result<Response, ApiError>;

/// Handles `GET /{id}/export`.
pub(super) async fn export(State(server): State<DualResponseServer>, method: Method, call: Call) -> Answer {
    let format = match call.query.format()? {
        Some(format) => format,
        None => accept::export(&call.headers).ok_or_else(ApiError::not_acceptable)?,
    };
    let csv_safe = call.query.csv_safe()?;
    let (mut view, columns) = call.query.view()?;
    let resource = server.inner.open_rows(&call.id, &call.access, Action::Export).await?;
    if let Some(sort) = call.query.sort_of(&resource.columns) {
        view.sort = vec![sort];
    }
    if resource.query != Origin::Snapshot {
        let options =
            PageOptions::default().with_sorts(view.sort).with_filter(view.filter).with_columns(columns);
        return plain(&server, &method, &call, &resource, options, format, csv_safe).await;
    }
    let request = ExportRequest::new(format).with_view(view).with_columns(columns).with_csv_safe(csv_safe);
    answer(&server, &method, &call, &resource, request).await
}

/// Handles `GET /{id}/chunks/{index}`.
pub(super) async fn chunk(
    State(server): State<DualResponseServer>,
    Path((_, index)): Path<(String, String)>,
    method: Method,
    call: Call,
) -> Answer {
    let index = index.parse().map_err(|_| ApiError::invalid("the chunk must be a number, counted from 0"))?;
    let format = call.query.format()?.unwrap_or(ExportFormat::Arrow);
    if !format.has_chunks() {
        let formats = ExportFormat::ALL.into_iter().filter(|format| format.has_chunks());
        let formats = ExportFormat::one_of(formats);
        return Err(ApiError::invalid(format!("`format` of a chunk must be {formats}")));
    }
    let csv_safe = call.query.csv_safe()?;
    let request = ExportRequest::new(format).with_chunk(Some(index)).with_csv_safe(csv_safe);
    let resource = server.inner.open_rows(&call.id, &call.access, Action::Export).await?;
    answer(&server, &method, &call, &resource, request).await
}

/// Returns a response with saved rows in a file format: all bytes, or a range of bytes.
async fn answer(
    server: &DualResponseServer,
    method: &Method,
    call: &Call,
    resource: &Resource,
    request: ExportRequest,
) -> Answer {
    let stored = request.format == ExportFormat::Parquet
        && request.view.is_whole()
        && request.columns.is_empty()
        && request.chunk.is_none();
    // A signed URL allows `GET`, but not `HEAD`.
    if stored
        && method == Method::GET
        && server.inner.options.retrieval != RetrievalMode::Proxy
        && let Some((url, _)) = server.sign_of(resource, &call.access).await?
    {
        let place = HeaderValue::try_from(url.as_str()).map_err(|_| ApiError::internal())?;
        return Ok((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response());
    }
    let whole = || server.export_of(resource, &call.access, request.clone());
    let asked = range::asked(&call.headers).filter(|_| method == Method::GET);
    let Some(asked) = asked else { return written(server, method, call, whole().await?, false) };
    let part = server.export_of(resource, &call.access, request.clone().with_range(Some(asked))).await;
    let part = match part {
        // The range possibly does not exist in the current file, but `If-Range` can refer to an older file.
        Err(DualResponseError::Invalid(text)) if text.starts_with("range") => {
            let export = whole().await?;
            let tag = Tag::strong(&export.tag);
            let matters =
                tag.is_some_and(|tag| tag.lets_range(&call.headers) && !tag.is_known(&call.headers));
            if matters {
                let mut response = ApiError::no_such_range(export.total).into_response();
                // With this header, a client that already has all bytes can verify that its bytes are current.
                response.headers_mut().extend(Tag::strong(&export.tag).map(|tag| tag.header()));
                return Ok(response);
            }
            return written(server, method, call, export, false);
        }
        // If the size is not known in advance, locating a byte range can take too long. In this case, the server sends
        // the whole file.
        Err(DualResponseError::Timeout { .. }) => {
            return written(server, method, call, whole().await?, false);
        }
        part => part?,
    };
    let tag = Tag::strong(&part.tag);
    let holds = tag.is_some_and(|tag| tag.lets_range(&call.headers));
    // A part of unknown length has no valid `Content-Range`, so the server sends the whole file.
    if !holds || part.length.is_none_or(|length| length == 0) {
        drop(part);
        return written(server, method, call, whole().await?, false);
    }
    written(server, method, call, part, true)
}

fn written(
    server: &DualResponseServer,
    method: &Method,
    call: &Call,
    export: SetExport,
    partial: bool,
) -> Answer {
    let inner = &server.inner;
    let mut response = Response::new(no_body());
    let headers = response.headers_mut();
    let (name, value) = cache::fixed_control(inner, export.expires_at, &call.access);
    headers.insert(name, value);
    headers.insert(VARY.0, VARY.1);
    headers.insert(stream::CONSISTENCY, HeaderValue::from_static(Consistency::Fixed.name()));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some((name, value)) = truncated(export.truncated) {
        headers.insert(name, value);
    }
    if let Some(tag) = Tag::strong(&export.tag) {
        let (name, value) = tag.header();
        headers.insert(name, value);
        if tag.is_known(&call.headers) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(export.format.media_type()));
    headers.insert(header::CONTENT_DISPOSITION, csv::disposition(&export.name, export.format.name()));
    if let Some(digest) = export.digest.as_deref().and_then(repr_digest) {
        headers.insert(REPR_DIGEST, digest);
    }
    if let Some(length) = export.length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if partial {
        let length = export.length.unwrap_or(0);
        let range = range::content_range(export.start, length, export.total);
        headers.insert(header::CONTENT_RANGE, range.ok_or_else(ApiError::internal)?);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    if method != Method::HEAD {
        *response.body_mut() = stream::body(export.body, inner.options.limits.stall);
    }
    Ok(response)
}

/// Returns a file download with rows that are not saved, as a stream.
async fn plain(
    server: &DualResponseServer,
    method: &Method,
    call: &Call,
    resource: &Resource,
    options: PageOptions,
    format: ExportFormat,
    csv_safe: bool,
) -> Answer {
    let written = match format {
        ExportFormat::Ndjson => Format::Ndjson,
        ExportFormat::Csv => Format::Csv,
        ExportFormat::Arrow | ExportFormat::Parquet | ExportFormat::Xlsx => {
            return Err(DualResponseError::Unsupported(format!(
                "rows that are not saved can be exported as ndjson or csv, not as {}; create the set with \
                 `Source::snapshot`",
                format.name()
            ))
            .into());
        }
    };
    let mut headers = vec![
        cache::control(&server.inner, resource, &call.access),
        VARY,
        (header::ACCEPT_RANGES, HeaderValue::from_static("none")),
        (header::CONTENT_DISPOSITION, csv::disposition(&resource.name, format.name())),
    ];
    if Consistency::of(resource) == Consistency::Fixed {
        let tag = Tag::of_request(&server.inner, resource, &options, written, csv_safe).into_strong();
        let known = tag.is_known(&call.headers);
        headers.push(tag.header());
        if known && super::routes::is_plain(resource, &options) {
            return Ok((StatusCode::NOT_MODIFIED, headers_of(headers), no_body()).into_response());
        }
    }
    if method == Method::HEAD {
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())));
        return Ok((headers_of(headers), no_body()).into_response());
    }
    let answer = stream::answer(server, call, resource, options, written, csv_safe).await?;
    Ok((headers_of(headers), answer).into_response())
}

/// Returns an empty body of unknown length, for responses without content (`HEAD`, status 304).
pub(super) fn no_body() -> Body {
    Body::from_stream(futures_util::stream::empty::<Result<Bytes, Infallible>>())
}

fn headers_of(headers: Vec<(HeaderName, HeaderValue)>) -> http::HeaderMap {
    headers.into_iter().collect()
}

/// Returns the header that reports missing rows, if rows are missing.
pub(super) fn truncated(truncated: Option<Truncation>) -> Option<(HeaderName, HeaderValue)> {
    let why = match truncated? {
        Truncation::RowLimit => "row_limit",
        Truncation::ByteLimit => "byte_limit",
    };
    Some((TRUNCATED, HeaderValue::from_static(why)))
}

/// Converts `sha-256:` and hexadecimal to the format of RFC 9530.
fn repr_digest(digest: &str) -> Option<HeaderValue> {
    let hex = digest.strip_prefix("sha-256:").filter(|hex| hex.len() == 64 && hex.is_ascii())?;
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).ok();
    let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(byte).collect();
    HeaderValue::try_from(format!("sha-256=:{}:", STANDARD.encode(bytes?))).ok()
}

/// Returns a response with all saved rows in a streamed format. Returns `None` if the request is for only some of the
/// rows.
pub(super) async fn streamed(
    server: &DualResponseServer,
    call: &Call,
    resource: &Resource,
    options: &PageOptions,
    format: Format,
    csv_safe: bool,
) -> Result<Option<Response>, ApiError> {
    let written = match format {
        Format::Ndjson | Format::Jsonl => ExportFormat::Ndjson,
        Format::Csv => ExportFormat::Csv,
        Format::Json => return Ok(None),
    };
    if options.offset > 0 || options.limit.is_some() || options.cursor.is_some() {
        return Ok(None);
    }
    let mut request =
        ExportRequest::new(written).with_columns(options.columns.iter().cloned()).with_csv_safe(csv_safe);
    request.view.sort.clone_from(&options.sort);
    request.view.filter.clone_from(&options.filter);
    let mut export = server.export_of(resource, &call.access, request).await?;
    // The first bytes are read before the response starts, so that an early failure results in an error response.
    let first = stream::first(export.body.next(), server).await?.transpose()?;
    let body = futures_util::stream::iter(first.map(Ok)).chain(export.body);
    let mut headers = vec![
        (header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
        (stream::CONSISTENCY, HeaderValue::from_static(Consistency::Fixed.name())),
    ];
    headers.extend(truncated(export.truncated));
    if format == Format::Csv {
        headers.push((header::CONTENT_DISPOSITION, csv::disposition(&export.name, written.name())));
    }
    let body = stream::body(body, server.inner.options.limits.stall);
    Ok(Some((headers_of(headers), body).into_response()))
}
