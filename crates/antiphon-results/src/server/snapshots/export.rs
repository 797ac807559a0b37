//! Exports all rows of a result set in a file format.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use tokio::sync::OwnedSemaphorePermit;

use super::{key, only_snapshots, page::Wanted};
use crate::{
    error::{DualResponseError, ErrorCode, Result},
    server::{Access, Action, DualResponseServer, Inner, PageOptions},
    snapshot::{ExportFormat, ExportRequest, Truncation},
    store::Resource,
};

/// An exported file with the rows of a result set, or a byte range of the file.
#[non_exhaustive]
pub struct SetExport {
    /// Display name of the result set.
    pub name: String,
    /// Format of the file.
    pub format: ExportFormat,
    /// Size of the whole file in bytes, if it is known in advance.
    pub total: Option<u64>,
    /// Position in the file at which `body` starts, in bytes.
    pub start: u64,
    /// Size of `body` in bytes, if it is known.
    pub length: Option<u64>,
    /// Entity tag of the file (strong validator), for the header `ETag`.
    pub tag: String,
    /// Digest of the whole file (`sha-256:…`), if the file is the stored Parquet file.
    pub digest: Option<String>,
    /// The limit that caused the server to omit the last rows from the file. The value is `None` if the file contains
    /// all rows.
    pub truncated: Option<Truncation>,
    /// Time at which the result set expires. The value is `None` if the result set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Bytes of the exported file, as a stream. If the export fails after the first bytes, the stream ends with an
    /// error.
    pub body: BoxStream<'static, Result<Bytes>>,
}

impl fmt::Debug for SetExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetExport")
            .field("format", &self.format)
            .field("total", &self.total)
            .field("start", &self.start)
            .field("length", &self.length)
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

impl DualResponseServer {
    /// Exports the rows of a snapshot as a file: all rows, the rows of a view, or the rows of a chunk. `access` must
    /// allow exporting.
    ///
    /// Only snapshots can be exported. For other result sets, use [`stream`](Self::stream).
    pub async fn export(&self, id: &str, access: &Access, request: ExportRequest) -> Result<SetExport> {
        let resource = self.inner.open_rows(id, access, Action::Export).await?;
        self.export_of(&resource, access, request).await
    }

    /// Exports a result set that is already open. Checks that `access` allows exporting, because the result set was
    /// possibly opened only for reading.
    pub(crate) async fn export_of(
        &self,
        resource: &Resource,
        access: &Access,
        request: ExportRequest,
    ) -> Result<SetExport> {
        let exported = async {
            self.inner.permit(resource, access, Action::Export).await?;
            Arc::clone(&self.inner).export(resource.clone(), access, request).await
        };
        let refused = |error: &DualResponseError| {
            self.inner.audit(access, Action::Export, &resource.id, (0, 0), Some(error.code()));
        };
        exported.await.inspect_err(refused)
    }
}

impl Inner {
    async fn export(
        self: Arc<Self>,
        resource: Resource,
        access: &Access,
        mut request: ExportRequest,
    ) -> Result<SetExport> {
        only_snapshots(&resource, "this export format and chunks are")?;
        self.check_ready(&resource).await?;
        let options = PageOptions {
            sort: std::mem::take(&mut request.view.sort),
            filter: std::mem::take(&mut request.view.filter),
            columns: std::mem::take(&mut request.columns),
            ..PageOptions::default()
        };
        let Wanted { view, columns, .. } = self.wanted(&resource, options)?;
        request.view = view;
        request.columns = columns;
        let formats = self.snapshots()?.capabilities().formats;
        if !formats.contains(&request.format) {
            let names: Vec<_> = formats.iter().map(|format| format.name()).collect();
            return Err(DualResponseError::Unsupported(format!(
                "this server does not support the export format `{}`; use one of {}",
                request.format.name(),
                names.join(", ")
            )));
        }
        let id = key(&resource);
        if let Some(chunk) = request.chunk {
            let chunks = self.asked(&resource, self.snapshots()?.manifest(&id)).await?.chunks.len() as u64;
            if chunk >= chunks {
                return Err(DualResponseError::Invalid(format!(
                    "chunk {chunk} does not exist; this result set has {chunks} chunks, counted from 0"
                )));
            }
        }
        let place = self.exports.take(&resource.owner, self.options.limits.wait).await?;
        self.prepared_apart(&resource, &request.view).await?;
        let (exported, counted) = tokio::join!(
            self.asked(&resource, self.snapshots()?.export(&id, &request)),
            self.count_access(&resource)
        );
        counted?;
        let exported = exported?;
        let whole = request.view.is_whole() && request.columns.is_empty() && request.chunk.is_none();
        let stored = request.format == ExportFormat::Parquet && whole;
        let state = resource.snapshot.as_ref();
        Ok(SetExport {
            name: resource.name.clone(),
            format: request.format,
            total: exported.total,
            start: exported.start,
            length: exported.length,
            tag: exported.tag,
            digest: state.filter(|_| stored).and_then(|state| state.digest.clone()),
            truncated: state.and_then(|state| state.truncated),
            expires_at: resource.expires_at,
            body: Outgoing {
                inner: Arc::clone(&self),
                access: access.clone(),
                resource,
                body: exported.body,
                bytes: 0,
                broken: None,
                _place: place,
            }
            .boxed(),
        })
    }
}

/// An export in progress. An export holds a slot until the export ends. When an export ends, even with an error, the
/// audit gets a record with the number of sent bytes.
struct Outgoing {
    inner: Arc<Inner>,
    access: Access,
    resource: Resource,
    body: BoxStream<'static, Result<Bytes>>,
    bytes: u64,
    broken: Option<ErrorCode>,
    _place: OwnedSemaphorePermit,
}

impl Stream for Outgoing {
    type Item = Result<Bytes>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes>>> {
        let next = self.body.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(bytes))) => self.bytes += bytes.len() as u64,
            Poll::Ready(Some(Err(error))) => self.broken = Some(error.code()),
            _ => {}
        }
        next
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.inner.audit(&self.access, Action::Export, &self.resource.id, (0, self.bytes), self.broken);
    }
}
