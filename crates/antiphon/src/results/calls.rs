//! Functions that call the result set server. Each function returns the same body as the corresponding HTTP route.

use antiphon_results::{
    Access, DualResponse, DualResponseError, DualResponseServer, ErrorCode, LinkOptions, PageOptions,
    QueryOptions, Result, Rows, exact,
    snapshot::{Aggregate, ColumnStats},
};
use serde_json::{Map, Value, json};

/// Returns the manifest of a result set, without the URL of the rows. The manifest does not contain the URL of the
/// rows, because a model can read the tool's result.
pub(super) async fn manifest(server: &DualResponseServer, id: &str, access: &Access) -> Result<Value> {
    let mut manifest = server.manifest(id, access).await?;
    manifest.url = None;
    manifest.url_expires_at = None;
    serde_json::to_value(manifest).map_err(unwritable)
}

pub(super) async fn stats(
    server: &DualResponseServer,
    id: &str,
    access: &Access,
) -> Result<Vec<ColumnStats>> {
    server.stats(id, access).await
}

/// Converts column statistics into the JSON format that the viewer reads. Numbers that a float cannot represent exactly
/// become text.
pub(super) fn stats_body(stats: &[ColumnStats]) -> Result<Value> {
    let json = serde_json::to_string(stats).map_err(unwritable)?;
    let columns: Value = serde_json::from_str(&exact::for_floats(&json)).map_err(unwritable)?;
    Ok(json!({"columns": columns}))
}

pub(super) async fn aggregate(
    server: &DualResponseServer,
    id: &str,
    access: &Access,
    aggregate: &Aggregate,
) -> Result<Value> {
    let rows = server.aggregate(id, access, aggregate).await?;
    Ok(json!({"groups": rows.len(), "data": data(&rows)?}))
}

pub(super) async fn query(
    server: &DualResponseServer,
    id: &str,
    access: &Access,
    options: QueryOptions,
) -> Result<DualResponse> {
    server.query(id, access, options).await
}

pub(super) async fn page(
    server: &DualResponseServer,
    id: &str,
    access: &Access,
    options: PageOptions,
) -> Result<Value> {
    let page = server.page(id, access, options).await?;
    Ok(json!({
        "data": data(&page.rows)?,
        "total_count": page.total_count,
        "returned_count": page.rows.len(),
        "offset": page.offset,
        "has_next": page.has_next,
        "next_offset": page.next_offset(),
    }))
}

/// Parses the JSON text of rows into JSON values that a message can contain. Numbers that a float cannot represent
/// exactly become text.
fn data(rows: &Rows) -> Result<Value> {
    serde_json::from_str(&exact::for_floats(&format!("[{}]", rows.as_json()))).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> DualResponseError {
    DualResponseError::Snapshot(error.into())
}

pub(super) async fn link(
    server: &DualResponseServer,
    id: &str,
    access: &Access,
    options: LinkOptions,
) -> Result<Value> {
    let link = server.mint_link(id, access, options).await?;
    Ok(json!({"url": link.url, "scopes": link.scopes, "expires_at": link.expires_at}))
}

/// Returns an error in the format of the HTTP routes: `{"code", "message"}`. If the caller can retry later, the
/// returned object also contains `retry_after` in seconds. If a query broke a rule, the returned object also contains
/// the name of the `rule`.
pub(super) fn error_body(error: &DualResponseError) -> Value {
    let mut body = Map::new();
    body.insert("code".into(), error.code().as_str().into());
    body.insert("message".into(), message(error).into());
    match error {
        DualResponseError::NotReady { retry_after } | DualResponseError::Busy { retry_after } => {
            body.insert("retry_after".into(), retry_after.as_secs().max(1).into());
        }
        DualResponseError::Refused { rule, .. } => {
            body.insert("rule".into(), (*rule).into());
        }
        _ => {}
    }
    Value::Object(body)
}

/// Returns the message of an error for the caller. This message does not contain internal causes, which only the log
/// contains.
pub(super) fn message(error: &DualResponseError) -> String {
    match error.code() {
        ErrorCode::QueryExecutionFailed
        | ErrorCode::CountExecutionFailed
        | ErrorCode::StorageError
        | ErrorCode::Configuration
        | ErrorCode::Internal => inside(error),
        ErrorCode::SnapshotFailed if std::error::Error::source(error).is_some() => inside(error),
        _ => error.to_string(),
    }
}

fn inside(error: &DualResponseError) -> String {
    let cause = std::error::Error::source(error);
    tracing::error!(error = %error, cause = cause.map(tracing::field::display), "an operation on a result set failed");
    "the result set cannot be used right now; try again later".into()
}
