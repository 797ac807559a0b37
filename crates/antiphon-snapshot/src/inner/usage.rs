//! The storage that a tenant or a principal uses.
//!
//! To measure the usage of a tenant, this module lists the files in the tenant's folder. All owners without a tenant
//! share one folder, so one listing measures the usage of all owners without a tenant. The longer the listing of this
//! shared folder takes, the longer the server caches its result.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use antiphon_results::{
    Owner,
    snapshot::{SnapshotId, Taken},
};
use chrono::{DateTime, Utc};
use futures_util::{Stream, TryStreamExt as _};
use object_store::{ObjectMeta, ObjectStore as _, path::Path};
use tokio::sync::watch;

use super::Inner;
use crate::{
    error::{Error, Result},
    layout::{share_of, takes},
};

/// The time in minutes for which the announced size of a view in progress counts toward the usage.
const MAKING: i64 = 5;

/// The duration up to which the result of a listing is not cached.
const CHEAP: Duration = Duration::from_millis(50);

/// The result of a listing is cached for this many times the duration of the listing. So listings run for at most a
/// twentieth of the time.
const KEPT: u32 = 20;

/// The maximum time to wait for a running listing.
const WAIT: Duration = Duration::from_secs(2);

/// The storage that owners without a tenant use.
#[derive(Debug, Default)]
pub(crate) struct SharedUsage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Arc<Listing>>,
    running: Option<watch::Receiver<Outcome>>,
}

/// The result of a listing, or `None` while the listing runs.
type Outcome = Option<Result<Arc<Listing>, String>>;

/// The number of bytes that each owner stores. The map key is `SnapshotId::share`.
#[derive(Debug)]
struct Listing {
    begun: Instant,
    took: Duration,
    bytes: HashMap<String, u64>,
}

impl Listing {
    fn is_kept(&self) -> bool {
        self.took > CHEAP && self.begun.elapsed() < self.took.saturating_mul(KEPT)
    }
}

/// Returns the storage that a tenant uses, according to a new listing. If `tenant` is `None`, returns the storage that
/// all owners without a tenant use.
pub(crate) async fn of_tenant(inner: &Inner, tenant: Option<&str>) -> Result<u64> {
    let since = lately(inner).await;
    let files = files(inner, tenant);
    files.try_fold(0_u64, async |sum, meta| Ok(sum.saturating_add(size(&meta, since)))).await
}

/// Returns the storage that an owner uses, together with all other owners that share the owner's quota.
pub(crate) async fn of(inner: &Arc<Inner>, owner: &Owner) -> Result<Taken> {
    if let Some(tenant) = &owner.tenant {
        return Ok(Taken::now(of_tenant(inner, Some(tenant)).await?));
    }
    let Some(listing) = listing(inner).await? else {
        // The first listing is still running. Until it ends, the usage counts as zero.
        return Ok(Taken::now(0).with_age(Duration::MAX));
    };
    let bytes = listing.bytes.get(&SnapshotId::share_of(owner)).copied().unwrap_or(0);
    Ok(Taken::now(bytes).with_age(listing.begun.elapsed()))
}

/// Returns the last listing, or a new listing if the last listing is too old. Returns `None` if the first listing
/// takes too long and no earlier listing exists.
async fn listing(inner: &Arc<Inner>) -> Result<Option<Arc<Listing>>> {
    let (mut running, last) = {
        let mut state = inner.usage.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = state.last.clone();
        if last.as_ref().is_some_and(|last| last.is_kept()) {
            return Ok(last);
        }
        let running = match &state.running {
            Some(running) if running.borrow().is_none() && running.has_changed().is_ok() => running.clone(),
            _ => state.running.insert(begin(inner)).clone(),
        };
        (running, last)
    };
    let Ok(ended) = tokio::time::timeout(WAIT, running.wait_for(Option::is_some)).await else {
        return Ok(last);
    };
    match (ended.as_deref(), last) {
        (Ok(Some(Ok(listing))), _) => Ok(Some(Arc::clone(listing))),
        (_, Some(last)) => Ok(Some(last)),
        (Ok(Some(Err(error))), None) => Err(Error::Broken(error.clone().into())),
        (Ok(None) | Err(_), None) => Err(Error::Broken("the listing of objects was cancelled".into())),
    }
}

/// Starts a listing in a separate task. The task of the listing continues if the caller stops waiting.
fn begin(inner: &Arc<Inner>) -> watch::Receiver<Outcome> {
    let (done, outcome) = watch::channel(None);
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let begun = Instant::now();
        let (since, depth) = (lately(&inner).await, inner.store.prefix.parts().count() + 2);
        let listed = by_share(files(&inner, None), since, depth).await;
        let listed = listed.map(|bytes| Arc::new(Listing { begun, took: begun.elapsed(), bytes }));
        if let Ok(listing) = &listed {
            let mut state = inner.usage.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.last = Some(Arc::clone(listing));
        }
        done.send_replace(Some(listed.map_err(|error| error.to_string())));
    });
    outcome
}

/// Adds up the bytes of each owner in a listing. The files of one snapshot must be consecutive in the listing. `depth`
/// is the depth of a snapshot's folder. A snapshot without an owner file belongs to callers without a principal, or was
/// written by a release that did not write owner files.
async fn by_share(
    files: impl Stream<Item = Result<ObjectMeta>>,
    since: DateTime<Utc>,
    depth: usize,
) -> Result<HashMap<String, u64>> {
    let mut bytes = HashMap::new();
    let (mut set, mut share, mut sum) = (None::<Path>, None::<String>, 0_u64);
    let mut add = |share: Option<String>, sum: u64| {
        let taken: &mut u64 = bytes.entry(share.unwrap_or_else(|| SnapshotId::place(None))).or_default();
        *taken = taken.saturating_add(sum);
    };
    let mut files = std::pin::pin!(files);
    while let Some(meta) = files.try_next().await? {
        let same = set.as_ref().is_some_and(|set| meta.location.prefix_matches(set));
        if !same {
            add(share.take(), std::mem::take(&mut sum));
            set = Some(meta.location.parts().take(depth).collect());
        }
        sum = sum.saturating_add(size(&meta, since));
        share = share.or_else(|| share_of(&meta.location).map(ToOwned::to_owned));
    }
    add(share, sum);
    Ok(bytes)
}

fn files(inner: &Inner, tenant: Option<&str>) -> impl Stream<Item = Result<ObjectMeta>> + use<> {
    let folder = inner.store.prefix.clone().join(SnapshotId::place(tenant));
    inner.store.objects.list(Some(&folder)).map_err(Error::from)
}

/// Returns the earliest creation time of view announcements that count toward the usage. The process that wrote an
/// older announcement has stopped.
async fn lately(inner: &Inner) -> DateTime<Utc> {
    inner.store_now().await - chrono::TimeDelta::minutes(MAKING)
}

fn size(meta: &ObjectMeta, since: DateTime<Utc>) -> u64 {
    let takes = takes(&meta.location).filter(|_| meta.last_modified > since);
    meta.size.saturating_add(takes.unwrap_or(0))
}
