use std::{collections::BTreeSet, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::{Instant, sleep};

use super::super::{Removal, Resource, ResourceStore};

type Opening = Pin<Box<dyn Future<Output = Option<Arc<dyn ResourceStore>>> + Send>>;

/// A test fixture that opens any number of handles to the same store.
pub struct Stores {
    space: String,
    open: Box<dyn Fn(String) -> Opening + Send + Sync>,
    begun: (DateTime<Utc>, Instant),
}

impl Stores {
    /// Creates a fixture with an empty namespace for one contract test. Returns `None` if the store is not available.
    pub async fn new<F>(law: &str, open: fn(String) -> F) -> Option<Self>
    where
        F: Future<Output = Option<Arc<dyn ResourceStore>>> + Send + 'static,
    {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        // Names have a limited length. The random suffix separates tests whose names start alike.
        let law: String = law.chars().take(32).collect();
        let space = format!("{}-{:016x}", law.replace('_', "-"), u64::from_le_bytes(bytes));
        open(space.clone()).await?;
        let open = Box::new(move |space| Box::pin(open(space)) as Opening);
        Some(Self { space, open, begun: (Utc::now(), Instant::now()) })
    }

    /// Opens a new handle to the store.
    pub async fn open(&self) -> Arc<dyn ResourceStore> {
        (self.open)(self.space.clone()).await.expect("it opened before")
    }

    /// Returns the current time. The clock pauses when the clock of Tokio is paused.
    pub fn now(&self) -> DateTime<Utc> {
        self.begun.0 + TimeDelta::from_std(self.begun.1.elapsed()).unwrap_or_default()
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("space", &self.space).finish_non_exhaustive()
    }
}

pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const MINUTE: TimeDelta = TimeDelta::minutes(1);
/// The interval between two checks of a condition.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns a result set that was created an hour ago and expires in an hour.
pub(super) fn live(stores: &Stores, id: &str) -> Resource {
    Resource::new(id, format!("Set {id}"), stores.now() - TimeDelta::hours(1), 2 * HOUR)
}

/// Returns a result set that was created two hours ago and expired an hour ago.
pub(super) fn over(stores: &Stores, id: &str) -> Resource {
    Resource::new(id, format!("Set {id}"), stores.now() - TimeDelta::hours(2), HOUR)
}

/// Cleans up as a server does, until all `ids` have been found. Checks that no other IDs are found, and that each
/// result set can be removed once.
pub(super) async fn clean_up(stores: &Stores, store: &dyn ResourceStore, ids: &[&str]) {
    let mut left: BTreeSet<&str> = ids.iter().copied().collect();
    while !left.is_empty() {
        for id in find(stores, store).await {
            assert!(left.remove(id.as_str()), "{id:?} was found, which has not expired or was found before");
            assert!(
                store.delete(&id, Removal::Expired { at: stores.now() }).await.unwrap(),
                "{id:?} was found"
            );
        }
        sleep(POLL_INTERVAL).await;
    }
}

pub(super) async fn find(stores: &Stores, store: &dyn ResourceStore) -> Vec<String> {
    store.find_expired(stores.now()).await.unwrap()
}
