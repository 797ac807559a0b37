//! Streams whole result sets in batches.

use std::sync::Arc;

use futures_util::{Stream, stream};
use tokio::sync::OwnedSemaphorePermit;

use super::{Consistency, PageOptions, cursor::Cursor, request};
use crate::{
    error::{DualResponseError, ErrorCode, Result},
    rows::Rows,
    server::{Access, Action, DualResponseServer, Inner, snapshots::Wanted},
    source::PageRequest,
    store::{Origin, Resource},
};

/// Number of rows that a stream reads at once.
const CHUNK: u64 = 1000;

/// Number of saved rows that a stream reads at once. The snapshot store reads about the same number of rows at once.
const SAVED_CHUNK: u64 = 8192;

/// Size in bytes after which a source can return fewer rows than the stream requested.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

impl DualResponseServer {
    /// Streams the rows of a result set in batches, from an offset to the end.
    ///
    /// `access` must allow reading. If the stream has more rows than one page can have, `access` must also allow
    /// exporting. If the stream ends with an error, rows are missing.
    pub async fn stream(
        &self,
        id: &str,
        access: &Access,
        options: PageOptions,
    ) -> Result<impl Stream<Item = Result<Rows>> + Send + use<>> {
        let action = self.inner.streaming(options.limit.unwrap_or(u64::MAX));
        let begun = async {
            let turn = self.inner.stream_turn().await?;
            let resource = self.inner.open(id, access, action).await?;
            Arc::clone(&self.inner).stream(resource, access, options, turn).await
        };
        begun.await.inspect_err(|error| self.inner.audit(access, action, id, (0, 0), Some(error.code())))
    }

    /// Streams the rows of a result set that is already open for reading.
    #[cfg(feature = "rest")]
    pub(crate) async fn stream_of(
        &self,
        resource: &Resource,
        access: &Access,
        options: PageOptions,
    ) -> Result<impl Stream<Item = Result<Rows>> + Send + use<>> {
        let action = self.inner.streaming(options.limit.unwrap_or(u64::MAX));
        let begun = async {
            let turn = self.inner.stream_turn().await?;
            self.inner.permit(resource, access, action).await?;
            Arc::clone(&self.inner).stream(resource.clone(), access, options, turn).await
        };
        let refused = |error: &DualResponseError| {
            self.inner.audit(access, action, &resource.id, (0, 0), Some(error.code()));
        };
        begun.await.inspect_err(refused)
    }
}

impl Inner {
    /// Returns the action that a caller must be allowed to perform for a stream of `rows` rows. If the rows fit in one
    /// page, the action is a read. If the rows do not fit in one page, the action is an export.
    fn streaming(&self, rows: u64) -> Action {
        if rows <= self.options.limits.page_rows { Action::Read } else { Action::Export }
    }

    /// Waits for a free slot to send a stream.
    async fn stream_turn(&self) -> Result<OwnedSemaphorePermit> {
        let wait = self.options.limits.wait;
        match tokio::time::timeout(wait, Arc::clone(&self.streams).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(DualResponseError::Busy { retry_after: wait }),
        }
    }

    async fn stream(
        self: Arc<Self>,
        resource: Resource,
        access: &Access,
        options: PageOptions,
        turn: OwnedSemaphorePermit,
    ) -> Result<impl Stream<Item = Result<Rows>> + Send + use<>> {
        let left = options.limit.unwrap_or(u64::MAX);
        let action = self.streaming(left);
        let saved = match resource.query {
            Origin::Snapshot => Some(self.begin_saved(&resource, &options).await?),
            _ => None,
        };
        let options = if saved.is_some() { PageOptions::default() } else { options };
        let request = request(&resource, options, CHUNK.min(left))?.with_max_bytes(CHUNK_BYTES);
        self.count_access(&resource).await?;
        let access = access.clone();
        let flow = Flow {
            inner: self,
            access,
            resource,
            request,
            saved,
            action,
            left,
            begun: false,
            handed: (0, 0),
            broken: None,
            _turn: turn,
        };
        Ok(stream::try_unfold(Some(flow), async |flow| match flow {
            Some(flow) => flow.next().await,
            None => Ok(None),
        }))
    }
}

/// The rows of a snapshot that a stream returns, and their total number.
struct Saved {
    wanted: Wanted,
    total: u64,
    _place: OwnedSemaphorePermit,
}

impl Inner {
    async fn begin_saved(&self, resource: &Resource, options: &PageOptions) -> Result<Saved> {
        self.check_ready(resource).await?;
        let wanted = self.wanted(resource, options.clone())?;
        let place = self.exports.take(&resource.owner, self.options.limits.wait).await?;
        let total = self.prepared_apart(resource, &wanted.view).await?;
        Ok(Saved { wanted, total, _place: place })
    }
}

/// A stream of rows in progress.
struct Flow {
    inner: Arc<Inner>,
    access: Access,
    resource: Resource,
    request: PageRequest,
    /// The rows of a snapshot. If `saved` is set, the stream does not use `request`.
    saved: Option<Saved>,
    /// The action that the audit records for the stream: read or export.
    action: Action,
    /// Number of rows that the stream must still return.
    left: u64,
    /// Whether the stream has already read rows.
    begun: bool,
    /// Number of rows and bytes that the stream has returned, for the audit.
    handed: (u64, u64),
    broken: Option<ErrorCode>,
    _turn: OwnedSemaphorePermit,
}

/// Records the number of returned rows in the audit, even if the stream ends early.
impl Drop for Flow {
    fn drop(&mut self) {
        self.inner.audit(&self.access, self.action, &self.resource.id, self.handed, self.broken);
    }
}

impl Flow {
    async fn next(mut self) -> Result<Option<(Rows, Option<Self>)>> {
        match self.read().await {
            Ok(None) => Ok(None),
            Ok(Some((rows, ended))) => {
                self.handed.0 += rows.len() as u64;
                self.handed.1 += rows.bytes() as u64;
                Ok(Some((rows, (!ended).then_some(self))))
            }
            Err(error) => {
                self.broken = Some(error.code());
                Err(error)
            }
        }
    }

    /// Returns the next rows of the stream, and whether they are the last rows.
    async fn read(&mut self) -> Result<Option<(Rows, bool)>> {
        self.request.limit = CHUNK.min(self.left);
        if self.request.limit == 0 {
            return Ok(None);
        }
        // If the set was deleted meanwhile, the stream must fail.
        if self.begun && self.inner.options.store.get(&self.resource.id).await?.is_none() {
            return Err(DualResponseError::NotFound);
        }
        self.begun = true;
        if let Some(saved) = &mut self.saved {
            let limit = SAVED_CHUNK.min(self.left);
            let Saved { wanted, total, .. } = saved;
            let rows = self.inner.read_page(&self.resource, wanted, *total, limit, CHUNK_BYTES).await?;
            let count = rows.len() as u64;
            self.left -= count;
            wanted.offset = wanted.offset.saturating_add(count);
            return Ok((count > 0).then_some((rows, false)));
        }
        let rows = self.inner.rows(&self.resource, &self.request).await?;
        let fixed = Consistency::of(&self.resource) == Consistency::Fixed;
        if rows.is_empty() {
            return Ok(None);
        }
        let count = rows.len() as u64;
        self.left -= count;
        self.request.offset = self.request.offset.saturating_add(count);
        if Consistency::of(&self.resource) == Consistency::Keyset {
            let cursor = Cursor::after(&self.resource, &self.request, &rows)?;
            self.request.after = cursor.is_plain().then_some(cursor.key);
        }
        let ended = !fixed && count < self.request.limit && rows.bytes() <= self.request.max_bytes;
        Ok(Some((rows, ended)))
    }
}
