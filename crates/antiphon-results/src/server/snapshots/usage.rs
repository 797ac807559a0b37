//! Enforces the storage limits of tenants, and of principals without a tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::key;
use crate::{
    error::{DualResponseError, Result},
    owner::Owner,
    server::Inner,
    snapshot::{SnapshotId, SnapshotStore, View},
    store::Resource,
};

/// Time for which this process reuses the storage usage that the snapshot store reported.
const BELIEVED: Duration = Duration::from_secs(10);

/// Maximum time until other processes see that a view is being built.
const SEEN: Duration = Duration::from_secs(2);

/// Maximum time that the build of a view continues after the last request for the view.
const MAKING: Duration = Duration::from_secs(5 * 60);

/// Time for which this process adds the bytes that it saved to the reported usage. The last report of the store does
/// not include the bytes that were saved after the report.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// Maximum number of known views. If more views are known, the oldest entries are removed.
const MAX_KNOWN_VIEWS: usize = 4096;

/// The known storage usage of each share. The key is the name of the share, as in [`SnapshotId::share`].
#[derive(Clone)]
pub(crate) struct Usage {
    most: u64,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    shares: HashMap<String, Account>,
    views: HashMap<(SnapshotId, String), Made>,
}

#[derive(Default)]
struct Account {
    /// Time at which the store last reported the usage, and the reported bytes.
    used: Option<(Instant, u64)>,
    /// Bytes of all writes in progress.
    under_way: u64,
}

/// A view that the server builds or has built, because the storage limit allowed the view.
struct Made {
    since: Instant,
    /// Maximum size of the view in bytes. The value is `None` after the view is built.
    bytes: Option<u64>,
}

impl Usage {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes that a share uses, including work in progress. If the last report of the store is older than
    /// `believed`, requests a new report.
    async fn taken(&self, snapshots: &dyn SnapshotStore, owner: &Owner, believed: Duration) -> Result<u64> {
        let is_within = |account: &Account, time| account.used.is_some_and(|(at, _)| at.elapsed() < time);
        let share = SnapshotId::share_of(owner);
        let fresh = self.known().shares.get(&share).is_some_and(|account| is_within(account, believed));
        if !fresh {
            let asked = Instant::now();
            let taken = snapshots.usage_of(owner).await?;
            let mut known = self.known();
            known.shares.retain(|_, account| account.under_way > 0 || is_within(account, REMEMBERED));
            // A report that is older than the last report does not include the bytes that were saved in between.
            let account = known.shares.entry(share.clone()).or_default();
            match (asked.checked_sub(taken.age), account.used) {
                (Some(at), Some((last, _))) if at <= last => {}
                (Some(at), _) => account.used = Some((at, taken.bytes)),
                (None, _) => {}
            }
        }
        Ok(self.believed(&share))
    }

    /// Returns the bytes that a share uses, without asking the store.
    fn believed(&self, share: &str) -> u64 {
        let known = self.known();
        let account = known.shares.get(share);
        let (asked, used) = account.and_then(|account| account.used).unzip();
        let used = used.unwrap_or(0);
        let under_way = account.map_or(0, |account| account.under_way);
        // The store's report includes all builds that started before the report, in any process.
        let is_told = |made: &Made| asked.is_some_and(|asked| made.since + SEEN < asked);
        let making = known
            .views
            .iter()
            .filter(|((id, _), made)| id.share() == share && made.since.elapsed() < MAKING && !is_told(made));
        let making = making.filter_map(|(_, made)| made.bytes).fold(0, u64::saturating_add);
        used.saturating_add(under_way).saturating_add(making)
    }

    /// Adds saved bytes to the usage. The next report of the store includes these bytes.
    fn add(&self, share: &str, bytes: u64) {
        let mut known = self.known();
        let account = known.shares.get_mut(share);
        if let Some((_, used)) = account.and_then(|account| account.used.as_mut()) {
            *used = used.saturating_add(bytes);
        }
    }

    fn full(&self, taken: u64) -> DualResponseError {
        DualResponseError::TooLarge(format!(
            "the tenant has saved {taken} bytes, and its limit is {} bytes; delete result sets, or raise `ResultLimits::with_tenant_bytes`",
            self.most
        ))
    }

    /// Records that the build of a view succeeded or failed.
    pub(super) fn made(&self, resource: &Resource, view: &View, made: bool) {
        let Some(name) = name(&key(resource), view) else { return };
        if !made {
            self.known().views.remove(&name);
            return;
        }
        let bytes = self.known().views.get_mut(&name).and_then(|made| made.bytes.take());
        self.add(&SnapshotId::share_of(&resource.owner), bytes.unwrap_or(0));
    }
}

fn name(id: &SnapshotId, view: &View) -> Option<(SnapshotId, String)> {
    Some((id.clone(), serde_json::to_string(view).ok()?))
}

/// The bytes of a write in progress, which count toward the usage of the share of the snapshot's owner.
pub(super) struct Share {
    usage: Usage,
    owner: Owner,
    bytes: u64,
    /// Maximum size of the write in bytes, which is determined when the write starts. The write stops when its size
    /// exceeds this maximum.
    allowed: u64,
}

impl Share {
    /// Updates the number of bytes that the write has stored so far. Returns an error if other writes of the share have
    /// used up the storage limit since the write started.
    pub(super) async fn grow(&mut self, snapshots: &dyn SnapshotStore, bytes: u64) -> Result<()> {
        self.set(bytes);
        if !self.is_too_much(self.usage.believed(&self.share())) {
            return Ok(());
        }
        // Data may have been deleted since the last report. If the store cannot report the usage, the write continues.
        let taken = self.usage.taken(snapshots, &self.owner, BELIEVED);
        match tokio::time::timeout(BELIEVED, taken).await {
            Ok(Ok(taken)) if self.is_too_much(taken) => Err(self.usage.full(taken)),
            _ => Ok(()),
        }
    }

    fn is_too_much(&self, taken: u64) -> bool {
        let others = taken.saturating_sub(self.bytes);
        taken > self.usage.most && others > self.usage.most.saturating_sub(self.allowed)
    }

    /// Counts the bytes of the finished write as stored bytes.
    pub(super) fn keep(&mut self, bytes: u64) {
        self.set(0);
        self.usage.add(&self.share(), bytes);
    }

    fn set(&mut self, bytes: u64) {
        let mut known = self.usage.known();
        let account = known.shares.entry(self.share()).or_default();
        account.under_way = account.under_way.saturating_sub(self.bytes).saturating_add(bytes);
        self.bytes = bytes;
    }

    fn share(&self) -> String {
        SnapshotId::share_of(&self.owner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Inner {
    /// Returns the usage entry of a new snapshot, and the maximum size of the snapshot in bytes.
    pub(super) async fn allowance(&self, owner: &Owner) -> Result<(Share, u64)> {
        let taken = self.taken(owner, BELIEVED).await?;
        let left = self.usage.most.saturating_sub(taken);
        if left == 0 {
            return Err(self.usage.full(taken));
        }
        let allowed = self.options.limits.snapshot_bytes.min(left);
        let (usage, owner) = (self.usage.clone(), owner.clone());
        Ok((Share { usage, owner, bytes: 0, allowed }, allowed))
    }

    /// Checks whether the storage limit allows a view to be built. A new view needs at most the size of its snapshot.
    /// A view that exists or is being built needs no additional bytes.
    pub(super) async fn let_make(&self, resource: &Resource, view: &View) -> Result<()> {
        let Some(name) = name(&key(resource), view) else { return Ok(()) };
        let is_known = |made: &Made| made.bytes.is_none() || made.since.elapsed() < MAKING;
        if self.usage.known().views.get(&name).is_some_and(is_known) {
            return Ok(());
        }
        // Asks the store for the current usage, because other processes can build views of the same tenant.
        let taken = self.taken(&resource.owner, Duration::ZERO).await?;
        let bytes = resource.bytes.unwrap_or(0);
        if taken.saturating_add(bytes) > self.usage.most {
            return Err(self.usage.full(taken));
        }
        let mut known = self.usage.known();
        if known.views.len() >= MAX_KNOWN_VIEWS {
            known.views.retain(|_, made| made.bytes.is_some() && made.since.elapsed() < MAKING);
        }
        known.views.insert(name, Made { since: Instant::now(), bytes: Some(bytes) });
        Ok(())
    }

    async fn taken(&self, owner: &Owner, believed: Duration) -> Result<u64> {
        let limit = self.options.limits.source_timeout;
        let taken = self.usage.taken(&**self.snapshots()?, owner, believed);
        tokio::time::timeout(limit, taken).await.unwrap_or(Err(DualResponseError::Timeout { limit }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(usage: &Usage, allowed: u64) -> Share {
        Share { usage: usage.clone(), owner: Owner::nobody(), bytes: 0, allowed }
    }

    #[test]
    fn writes_at_once_do_not_take_more_together_than_one_may() {
        let usage = Usage::new(100);
        let (mut one, mut other) = (share(&usage, 100), share(&usage, 100));
        one.set(60);
        assert!(!one.is_too_much(usage.believed("all")));
        other.set(50);
        assert!(other.is_too_much(usage.believed("all")), "110 of 100");
        drop(other);
        one.set(110);
        assert!(!one.is_too_much(usage.believed("all")), "alone, it is cut off where it was allowed to come");
        one.keep(90);
        assert_eq!(usage.believed("all"), 0, "the store was not asked yet");
    }

    #[test]
    fn what_was_saved_is_known_before_the_store_is_asked_again() {
        let usage = Usage::new(100);
        usage.known().shares.entry("all".into()).or_default().used = Some((Instant::now(), 10));
        let mut one = share(&usage, 90);
        one.set(30);
        assert_eq!(usage.believed("all"), 40);
        one.keep(35);
        assert_eq!(usage.believed("all"), 45);
        drop(one);
        assert_eq!(usage.believed("all"), 45, "once");
    }
}
