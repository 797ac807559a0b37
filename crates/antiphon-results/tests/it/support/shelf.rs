use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use antiphon_results::{
    DualResponseError, Owner, Result, Rows,
    snapshot::{
        Aggregate, ByteRange, ColumnStats, Export, ExportFormat, ExportRequest, Manifest, Progress,
        RowSource, SnapshotCapabilities, SnapshotId, SnapshotPage, SnapshotStore, SnapshotWrite,
        SnapshotWriteOptions, View, Written,
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::{
    FutureExt as _, StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use tokio::sync::{Notify, watch};
use url::Url;

use super::institutions;

/// What every export is, whatever is exported.
pub(crate) const CONTENT: &str = "0123456789";

/// Keeps rows in memory. A view is a copy of them all, a query finds three rows, and an export is [`CONTENT`]: its length
/// is known of CSV, and parts of NDJSON are looked for without end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    kept: Arc<Mutex<HashMap<SnapshotId, Rows>>>,
    pub(crate) views: Arc<Mutex<Vec<(SnapshotId, View)>>>,
    /// Statistics are found out once this is said.
    pub(crate) looked: Arc<Notify>,
    found: Arc<AtomicBool>,
}

impl Shelf {
    fn rows_of(&self, id: &SnapshotId) -> Result<Rows> {
        self.kept.lock().unwrap().get(id).cloned().ok_or(DualResponseError::NotFound)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.lock().unwrap().is_empty()
    }
}

#[async_trait]
impl SnapshotStore for Shelf {
    fn capabilities(&self) -> SnapshotCapabilities {
        SnapshotCapabilities::new(true, [ExportFormat::Csv, ExportFormat::Ndjson])
    }

    async fn begin(
        &self,
        id: &SnapshotId,
        row_source: RowSource,
        _: SnapshotWriteOptions,
    ) -> Result<SnapshotWrite> {
        let RowSource::Rows { parts, columns } = row_source else { unreachable!("the tests save JSON") };
        let mut parts = parts.map_err(DualResponseError::Query);
        let first = parts.try_next().await?.unwrap_or_default();
        let (columns, last) = (columns.clone().unwrap_or_default(), columns.unwrap_or_default());
        let (progress, watched) = watch::channel(Progress::default());
        let (shelf, id, sample) = (self.clone(), id.clone(), first.clone());
        let rest = async move {
            let mut rows = first;
            let tell = |rows: &Rows| {
                progress.send_replace(Progress { rows: rows.len() as u64, bytes: rows.bytes() as u64 });
            };
            tell(&rows);
            while let Some(part) = parts.try_next().await? {
                part.iter().for_each(|row| rows.push_json(row).unwrap());
                tell(&rows);
            }
            let written = Written::new(rows.len() as u64, rows.bytes() as u64, "sha-256:0", last);
            shelf.kept.lock().unwrap().insert(id, rows);
            Ok(written)
        };
        Ok(SnapshotWrite::new(sample, columns, watched, rest.boxed()))
    }

    async fn manifest(&self, _: &SnapshotId) -> Result<Manifest> {
        Ok(Manifest::new(Vec::new(), "sha-256:0", Utc::now()))
    }

    async fn prepare(&self, id: &SnapshotId, view: &View) -> Result<u64> {
        let rows = self.rows_of(id)?.len() as u64;
        let mut views = self.views.lock().unwrap();
        let made = (id.clone(), view.clone());
        if !views.contains(&made) {
            views.push(made);
        }
        Ok(rows)
    }

    async fn page(&self, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows> {
        let place = |number: u64| usize::try_from(number).unwrap();
        Ok(self.rows_of(id)?.slice(place(request.offset), place(request.limit)))
    }

    async fn stats(&self, _: &SnapshotId) -> Result<Vec<ColumnStats>> {
        if !self.found.load(SeqCst) {
            self.looked.notified().await;
            self.found.store(true, SeqCst);
        }
        Ok(Vec::new())
    }

    async fn aggregate(&self, _: &SnapshotId, _: &Aggregate) -> Result<Rows> {
        Ok(Rows::new())
    }

    async fn export(&self, _: &SnapshotId, request: &ExportRequest) -> Result<Export> {
        let known = request.format == ExportFormat::Csv;
        let total = known.then_some(CONTENT.len() as u64);
        let part: Range<usize> = match request.range {
            Some(_) if !known => {
                return Err(DualResponseError::Timeout { limit: Duration::from_secs(30) });
            }
            Some(ByteRange::From { first, .. }) if first < 10 => usize::try_from(first).unwrap()..10,
            Some(_) => return Err(DualResponseError::Invalid("range: there are fewer bytes".into())),
            None => 0..10,
        };
        let bytes = Bytes::from_static(&CONTENT.as_bytes()[part.clone()]);
        let export = Export::new(request.format.name(), total, stream::iter([Ok(bytes)]).boxed());
        Ok(export.with_part(part.start as u64, known.then_some(part.len() as u64)))
    }

    async fn sign(&self, _: &SnapshotId, _: Duration) -> Result<Option<Url>> {
        Ok(None)
    }

    async fn query(&self, _: &[(String, SnapshotId)], _: &str, _: &Owner) -> Result<RowSource> {
        Ok(RowSource::rows(stream::iter([Ok(institutions(3))])))
    }

    async fn delete(&self, id: &SnapshotId) -> Result<()> {
        self.kept.lock().unwrap().remove(id);
        Ok(())
    }

    fn ids(&self, _: DateTime<Utc>) -> BoxStream<'_, Result<SnapshotId>> {
        let ids: Vec<_> = self.kept.lock().unwrap().keys().cloned().map(Ok).collect();
        stream::iter(ids).boxed()
    }

    async fn usage(&self, tenant: Option<&str>) -> Result<u64> {
        let place = SnapshotId::place(tenant);
        let kept = self.kept.lock().unwrap();
        let bytes = |id: &SnapshotId| kept.get(id).map_or(0, |rows| rows.bytes() as u64);
        let views = self.views.lock().unwrap();
        let all = kept.keys().chain(views.iter().map(|(id, _)| id));
        Ok(all.filter(|id| id.place == place).map(bytes).sum())
    }
}
