use std::{collections::BTreeSet, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::{Instant, sleep};

use super::super::{Removal, Resource, ResourceStore};

type Opening = Pin<Box<dyn Future<Output = Option<Arc<dyn ResourceStore>>> + Send>>;

/// Opens the same store again and again.
pub struct Stores {
    space: String,
    open: Box<dyn Fn(String) -> Opening + Send + Sync>,
    begun: (DateTime<Utc>, Instant),
}

impl Stores {
    /// A space of its own for a law; `None` if the store is not there.
    pub async fn new<F>(law: &str, open: fn(String) -> F) -> Option<Self>
    where
        F: Future<Output = Option<Arc<dyn ResourceStore>>> + Send + 'static,
    {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        // Names are bounded, and two laws whose names begin alike must not meet.
        let law: String = law.chars().take(32).collect();
        let space = format!("{}-{:016x}", law.replace('_', "-"), u64::from_le_bytes(bytes));
        open(space.clone()).await?;
        let open = Box::new(move |space| Box::pin(open(space)) as Opening);
        Some(Self { space, open, begun: (Utc::now(), Instant::now()) })
    }

    /// Opens the store once more.
    pub async fn open(&self) -> Arc<dyn ResourceStore> {
        (self.open)(self.space.clone()).await.expect("it opened before")
    }

    /// Now, by a clock that stands still when tokio's does.
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
/// Between two looks at something that will happen.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A set that was made an hour ago and has an hour left.
pub(super) fn live(stores: &Stores, id: &str) -> Resource {
    Resource::new(id, format!("Set {id}"), stores.now() - TimeDelta::hours(1), 2 * HOUR)
}

/// A set that was made two hours ago and ended an hour ago.
pub(super) fn over(stores: &Stores, id: &str) -> Resource {
    Resource::new(id, format!("Set {id}"), stores.now() - TimeDelta::hours(2), HOUR)
}

/// Cleans up as a server does until `ids` have all been found, and checks that no others are, and that each is
/// there to be removed once.
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
