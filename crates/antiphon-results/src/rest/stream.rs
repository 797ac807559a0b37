//! Streams all rows of a result set, in batches.

use std::{io, panic::AssertUnwindSafe, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderName, HeaderValue, header};
use tokio::sync::mpsc;

use super::{
    accept::Format,
    call::Call,
    csv::{self, Table},
    error::{ApiError, chain},
    export,
};
use crate::{
    error::{DualResponseError, Result},
    rows::Rows,
    server::{Consistency, DualResponseServer, PageOptions},
    store::{Origin, Resource},
};

/// The response header that reports the consistency between the pages of a result set.
pub(super) const CONSISTENCY: HeaderName = HeaderName::from_static("antiphon-consistency");

/// Returns a response with rows as NDJSON or CSV. Only one batch of rows is in memory at a time. The next batch of
/// rows is read after the current batch is sent.
pub(super) async fn answer(
    server: &DualResponseServer,
    call: &Call,
    resource: &Resource,
    options: PageOptions,
    format: Format,
    csv_safe: bool,
) -> Result<Response, ApiError> {
    let mut columns = resource.columns.clone();
    if resource.query == Origin::Snapshot {
        if let Some(answer) = export::streamed(server, call, resource, &options, format, csv_safe).await? {
            return Ok(answer);
        }
        columns = server.inner.shown(resource, &options)?;
    }
    let mut rows = Box::pin(server.stream_of(resource, &call.access, options).await?);
    // The first batch is read before the response starts, so that an early failure results in an error response.
    let first = rows.try_next().await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
        (CONSISTENCY, HeaderValue::from_static(Consistency::of(resource).name())),
    ];
    let stall = server.inner.options.limits.stall;
    match format {
        Format::Csv => {
            let table = Table::new(&columns, first.as_ref(), csv_safe)?;
            let head = stream::iter([Ok(table.head())]);
            let parts = stream::iter(first.map(Ok)).chain(rows);
            let parts = parts.map(move |rows| rows.and_then(|rows| table.rows(&rows)));
            let name = [(header::CONTENT_DISPOSITION, csv::disposition(&resource.name, "csv"))];
            Ok((headers, name, body(head.chain(parts).map_ok(Bytes::from), stall)).into_response())
        }
        // JSON pages are created by another function. If the format is `Json` here, the rows are sent as lines.
        Format::Json | Format::Ndjson | Format::Jsonl => {
            let parts = stream::iter(first.map(Ok)).chain(rows).map_ok(|rows| Bytes::from(lines(&rows)));
            Ok((headers, body(parts, stall)).into_response())
        }
    }
}

/// Returns one line of NDJSON for each row.
fn lines(rows: &Rows) -> String {
    let mut lines = String::with_capacity(rows.bytes() + 1);
    for row in rows.iter() {
        lines.push_str(row);
        lines.push('\n');
    }
    lines
}

/// Waits for the first part of a streamed body, at most for the source timeout.
pub(super) async fn first<T>(part: impl Future<Output = T>, server: &DualResponseServer) -> Result<T> {
    let limit = server.inner.options.limits.source_timeout;
    tokio::time::timeout(limit, part).await.map_err(|_| DualResponseError::Timeout { limit })
}

/// Creates a response body from parts. An error in the middle of the body aborts the connection, so that the client
/// cannot mistake an incomplete body for a complete body. The connection is also aborted if the client or the source
/// stalls for too long, because other requests wait for the slot.
pub(super) fn body(parts: impl Stream<Item = Result<Bytes>> + Send + 'static, stall: Duration) -> Body {
    let parts = AssertUnwindSafe(parts).catch_unwind().map(|part| match part {
        Ok(part) => part,
        Err(_) => Err(DualResponseError::Query("the source panicked".into())),
    });
    // One part waits to be sent while the next part is read.
    let (tx, rx) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut parts = std::pin::pin!(parts);
        loop {
            let next = tokio::select! {
                next = tokio::time::timeout(stall, parts.next()) => next,
                // The reader may disconnect while a part is being produced.
                () = tx.closed() => return,
            };
            let part = match next {
                Ok(Some(part)) => part,
                Ok(None) => break,
                Err(_) => Err(DualResponseError::Timeout { limit: stall }),
            };
            let broken = part.as_ref().err().map(|error| chain(error));
            match tokio::time::timeout(stall, tx.send(Some(part))).await {
                Ok(Ok(())) => {}
                // The reader has disconnected.
                Ok(Err(_)) => return,
                Err(_) => return tracing::warn!("a stream of rows was closed: the client does not read it"),
            }
            if let Some(error) = broken {
                return tracing::warn!(error, "a stream of rows failed and was closed");
            }
        }
        // Without this message, the receiver treats the end of the channel as an error.
        let _ = tokio::time::timeout(stall, tx.send(None)).await;
    });
    let parts = stream::unfold(Some(rx), async |rx| {
        let mut rx = rx?;
        match rx.recv().await {
            Some(Some(Ok(part))) => Some((Ok(part), Some(rx))),
            Some(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
            Some(None) => None,
            None => Some((Err(io::Error::other("the server closed the stream of rows early")), None)),
        }
    });
    // The compression layer polls the stream again after the end of the stream, so the stream must be fused.
    Body::from_stream(parts.fuse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_nobody_reads_any_more_ends_while_its_next_part_is_made() {
        let (alive, gone) = tokio::sync::oneshot::channel::<()>();
        let parts =
            stream::once(async { Ok(Bytes::from_static(b"first")) }).chain(stream::once(async move {
                let _alive = alive;
                std::future::pending().await
            }));
        let mut body = body(parts, Duration::from_secs(600)).into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), "first");
        drop(body);
        tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap().unwrap_err();
    }

    #[tokio::test]
    async fn a_source_that_gives_nothing_for_too_long_breaks_the_body() {
        let mut body = body(stream::pending(), Duration::from_millis(20)).into_data_stream();
        body.next().await.unwrap().unwrap_err();
    }
}
