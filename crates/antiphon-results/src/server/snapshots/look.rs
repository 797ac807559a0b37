//! Computes statistics of columns, and aggregates of grouped rows.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use super::{COME_BACK, key, only_snapshots};
use crate::{
    error::{DualResponseError, Result},
    rows::Rows,
    server::{Access, Action, DualResponseServer, Inner},
    snapshot::{Aggregate, ColumnStats, SnapshotId},
    store::Resource,
};

/// Maximum numbers of group columns and of measures in one request.
const MAX_GROUPS: usize = 2;
const MAX_MEASURES: usize = 4;

/// Timeout for computing statistics, independent of the timeouts of callers.
const LOOKING: Duration = Duration::from_secs(10 * 60);

impl DualResponseServer {
    /// Returns statistics of each column of a snapshot, if `access` allows reading.
    pub async fn stats(&self, id: &str, access: &Access) -> Result<Vec<ColumnStats>> {
        let stats = self.inner.stats(id, access).await;
        self.inner.audit(access, Action::Read, id, (0, 0), stats.as_ref().err().map(DualResponseError::code));
        stats
    }

    /// Returns aggregates of a snapshot's rows, such as counts and sums for each group, if `access` allows reading.
    pub async fn aggregate(&self, id: &str, access: &Access, aggregate: &Aggregate) -> Result<Rows> {
        let rows = self.inner.aggregate(id, access, aggregate).await;
        let (handed, refused) = match &rows {
            Ok(rows) => ((rows.len() as u64, rows.bytes() as u64), None),
            Err(error) => ((0, 0), Some(error.code())),
        };
        self.inner.audit(access, Action::Read, id, handed, refused);
        rows
    }
}

impl Inner {
    async fn stats(&self, id: &str, access: &Access) -> Result<Vec<ColumnStats>> {
        let resource = self.open(id, access, Action::Read).await?;
        only_snapshots(&resource, "statistics are")?;
        self.check_ready(&resource).await?;
        let (stats, counted) = tokio::join!(self.looked(&resource), self.count_access(&resource));
        counted?;
        stats
    }

    /// Computes the statistics of a snapshot. If the computation takes too long, the caller gets `NotReady`. The
    /// computation of the statistics then continues, and a later call returns the result.
    async fn looked(&self, resource: &Resource) -> Result<Vec<ColumnStats>> {
        let id = key(resource);
        let again = || DualResponseError::NotReady { retry_after: COME_BACK };
        let wait = self.options.limits.view_wait;
        let until = tokio::time::Instant::now() + wait;
        // If another call computes the same statistics, wait for that call without taking a slot.
        while let Some(mut ended) = self.looks.of(&id) {
            let ended = tokio::time::timeout_at(until, ended.changed()).await;
            ended.map(drop).map_err(|_| again())?;
        }
        let place = self.scan(resource).await?;
        let (snapshots, look) = (Arc::clone(self.snapshots()?), self.looks.begin(&id));
        let looking = tokio::spawn(async move {
            let found = tokio::time::timeout(LOOKING, snapshots.stats(&id)).await;
            drop((look, place));
            found.unwrap_or(Err(DualResponseError::Timeout { limit: LOOKING }))
        });
        match tokio::time::timeout(wait, looking).await {
            Ok(Ok(Err(DualResponseError::NotFound))) => Err(self.lost(resource).await?),
            Ok(Ok(found)) => found,
            Ok(Err(panicked)) => Err(DualResponseError::Snapshot(panicked.into())),
            Err(_) => Err(again()),
        }
    }

    async fn aggregate(&self, id: &str, access: &Access, aggregate: &Aggregate) -> Result<Rows> {
        let resource = self.open(id, access, Action::Read).await?;
        only_snapshots(&resource, "groups are")?;
        check(&resource, aggregate)?;
        self.check_ready(&resource).await?;
        let _place = self.scan(&resource).await?;
        let id = key(&resource);
        let (rows, counted) = tokio::join!(
            self.asked(&resource, self.snapshots()?.aggregate(&id, aggregate)),
            self.count_access(&resource)
        );
        counted?;
        let rows = rows?;
        let limit = self.options.limits.page_bytes;
        if rows.bytes() > limit {
            return Err(DualResponseError::TooLarge(format!(
                "the groups have more than {limit} bytes; set a smaller `limit`, or group by wider buckets"
            )));
        }
        Ok(rows)
    }

    /// Takes one of the slots for scans that the owner of the result set has.
    pub(in crate::server) async fn scan(
        &self,
        resource: &Resource,
    ) -> Result<tokio::sync::OwnedSemaphorePermit> {
        self.scans.take(&resource.owner, self.options.limits.wait).await
    }
}

fn check(resource: &Resource, aggregate: &Aggregate) -> Result<()> {
    if aggregate.groups.len() > MAX_GROUPS || aggregate.measures.len() > MAX_MEASURES {
        return Err(DualResponseError::Invalid(format!(
            "the request has too many `groups` or `measures`; the maximum is {MAX_GROUPS} `groups` and {MAX_MEASURES} `measures`"
        )));
    }
    let grouped = aggregate.groups.iter().map(|group| &group.column);
    let measured = aggregate.measures.iter().filter_map(|measure| measure.column.as_ref());
    super::page::check_columns(resource, grouped.chain(measured))?;
    super::page::check_filter(resource, &aggregate.filter)
}

/// The result sets whose statistics are being computed. Concurrent callers that request the same statistics wait for
/// one computation.
#[derive(Clone, Default)]
pub(crate) struct Looks(Arc<Mutex<HashMap<SnapshotId, watch::Receiver<()>>>>);

impl Looks {
    fn under_way(&self) -> MutexGuard<'_, HashMap<SnapshotId, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that reports the end of a running computation.
    fn of(&self, id: &SnapshotId) -> Option<watch::Receiver<()>> {
        self.under_way().get(id).cloned()
    }

    /// Registers a computation of statistics. The computation counts as running until the returned value is dropped.
    fn begin(&self, id: &SnapshotId) -> Look {
        let (ended, receiver) = watch::channel(());
        self.under_way().insert(id.clone(), receiver);
        Look { looks: self.clone(), id: id.clone(), _ended: ended }
    }
}

/// A running computation of statistics.
struct Look {
    looks: Looks,
    id: SnapshotId,
    _ended: watch::Sender<()>,
}

/// Invariant: the entry is removed before the waiting callers are notified, so that the callers do not wait for the
/// same entry again.
impl Drop for Look {
    fn drop(&mut self) {
        self.looks.under_way().remove(&self.id);
    }
}
