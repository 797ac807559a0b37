//! The clock of the object store.
//!
//! The age of a file depends on the clock of the object store. If the clock of a replica is ahead, the replica could
//! treat files as abandoned while another replica writes them. So every replica computes the ages of files with the
//! clock of the object store.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use object_store::{ObjectStoreExt as _, PutPayload};

use super::Inner;
use crate::{error::Result, layout::writer_name, store::ignore_missing};

/// The time for which a measured difference between the store's clock and the local clock is used.
const BELIEVED: Duration = Duration::from_mins(10);

/// The difference between the store's clock and the clock of this process, with the time of the measurement.
#[derive(Debug, Default)]
pub(crate) struct StoreClock(Mutex<Option<(Instant, TimeDelta)>>);

impl Inner {
    /// Returns how far the store's clock is ahead of the clock of this process. If the difference of the clocks cannot
    /// be measured, returns the last measured difference, or zero.
    pub(crate) async fn skew(&self) -> TimeDelta {
        // A local folder uses the clock of this machine.
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
            tracing::warn!(%error, "the clock of the object store cannot be read; the last known difference, or zero, is used");
            last.map_or(TimeDelta::zero(), |(_, skew)| skew)
        });
        *self.clock.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), skew));
        skew
    }

    /// Returns the current time by the store's clock.
    pub(crate) async fn store_now(&self) -> DateTime<Utc> {
        Utc::now() + self.skew().await
    }

    /// Writes an empty file, and reads the time that the store assigns to the file. The file is outside the folders of
    /// snapshots, so it is not listed as a snapshot.
    async fn measure(&self) -> Result<TimeDelta> {
        let path = self.store.prefix.clone().join(format!("clock-{}", writer_name()?));
        let objects = &self.store.objects;
        objects.put(&path, PutPayload::new()).await?;
        let now = Utc::now();
        let written = objects.head(&path).await;
        objects.delete(&path).await.or_else(ignore_missing)?;
        let skew = written?.last_modified - now;
        // Object stores report times in whole seconds, so a difference below 2 seconds counts as zero.
        Ok(if skew.abs() < TimeDelta::seconds(2) { TimeDelta::zero() } else { skew })
    }
}
