//! The clock of the object store.
//!
//! A file's age is told by the store's clock. A replica whose own clock is ahead would take files for abandoned that
//! another replica is writing, so that ages are compared with the store's time.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use object_store::{ObjectStoreExt as _, PutPayload};

use super::Inner;
use crate::{error::Result, layout::writer_name, store::ignore_missing};

/// For how long the difference is believed.
const BELIEVED: Duration = Duration::from_mins(10);

/// How far the store's clock is ahead of this process's, and when that was measured.
#[derive(Debug, Default)]
pub(crate) struct StoreClock(Mutex<Option<(Instant, TimeDelta)>>);

impl Inner {
    /// How far the store's clock is ahead of this process's. A store that does not tell is taken to agree.
    pub(crate) async fn skew(&self) -> TimeDelta {
        // A folder of this machine has the machine's clock.
        if self.store.folder.is_some() {
            return TimeDelta::zero();
        }
        let last = *self.clock.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((measured, skew)) = last
            && measured.elapsed() < BELIEVED
        {
            return skew;
        }
        let skew = self.measure().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the clock of the object store cannot be read; it is taken to agree with this one");
            last.map_or(TimeDelta::zero(), |(_, skew)| skew)
        });
        *self.clock.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), skew));
        skew
    }

    /// What time it is by the store's clock.
    pub(crate) async fn store_now(&self) -> DateTime<Utc> {
        Utc::now() + self.skew().await
    }

    /// Writes an empty file and looks when that was. It lies beside the snapshots, so that it is taken for none.
    async fn measure(&self) -> Result<TimeDelta> {
        let path = self.store.prefix.clone().join(format!("clock-{}", writer_name()?));
        let objects = &self.store.objects;
        objects.put(&path, PutPayload::new()).await?;
        let now = Utc::now();
        let written = objects.head(&path).await;
        objects.delete(&path).await.or_else(ignore_missing)?;
        let skew = written?.last_modified - now;
        // Stores tell whole seconds.
        Ok(if skew.abs() < TimeDelta::seconds(2) { TimeDelta::zero() } else { skew })
    }
}
