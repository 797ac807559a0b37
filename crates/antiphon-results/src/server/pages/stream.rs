//! Whole sets, some rows at a time.

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

/// How many rows of a stream are read at once.
const CHUNK: u64 = 1000;

/// The same where rows are saved: about as many as are read from the store at once.
const SAVED_CHUNK: u64 = 8192;

/// How many bytes of them are enough.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

impl DualResponseServer {
    /// All rows of a set from an offset on, some at a time, for somebody who may read them, and export them if they are
    /// more than a page may have. What breaks off with an error is not the whole.
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

    /// The same of a set that was opened for reading.
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
    /// Whoever may read a page may have it as a stream. More than that is taking rows away.
    fn streaming(&self, rows: u64) -> Action {
        if rows <= self.options.limits.page_rows { Action::Read } else { Action::Export }
    }

    /// Waits until one of the places for streams is free.
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

/// Which rows of a snapshot are streamed, and how many there are in all.
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

/// A stream of rows under way.
struct Flow {
    inner: Arc<Inner>,
    access: Access,
    resource: Resource,
    request: PageRequest,
    /// Instead of the request, where rows are saved.
    saved: Option<Saved>,
    /// What it is: reading, or taking away.
    action: Action,
    /// How many rows are still wanted.
    left: u64,
    /// Whether rows were read already.
    begun: bool,
    /// How many rows and bytes were handed out, for the audit.
    handed: (u64, u64),
    broken: Option<ErrorCode>,
    _turn: OwnedSemaphorePermit,
}

/// However it ends, it is known how much was read.
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

    /// The next rows, and whether they are the last.
    async fn read(&mut self) -> Result<Option<(Rows, bool)>> {
        self.request.limit = CHUNK.min(self.left);
        if self.request.limit == 0 {
            return Ok(None);
        }
        // A set that was deleted under the reader must not go on as if it were there.
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
