//! Bytes of any size in a store whose values are bounded: in records that expire by themselves.

use std::time::Duration;

use antiphon_store::{Result, Store};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::base::random_id;

/// Well below the most that any wrapper of a store takes.
pub(crate) const PIECE: usize = 256 * 1024;

/// Where the pieces of something large are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pieces {
    name: String,
    count: usize,
}

impl Pieces {
    /// Those of `bytes` bytes under a name that nobody has used.
    pub(crate) fn named(name: String, bytes: usize) -> Self {
        Self { name, count: bytes.div_ceil(PIECE) }
    }

    fn key(&self, number: usize) -> String {
        format!("pieces/{}/{number}", self.name)
    }

    pub(crate) async fn put(store: &dyn Store, bytes: &Bytes, ttl: Duration) -> Result<Self> {
        let pieces = Self::named(random_id(), bytes.len());
        pieces.write(store, bytes, ttl).await?;
        Ok(pieces)
    }

    /// Nobody reads them before this has returned, because nobody else knows the name.
    pub(crate) async fn write(&self, store: &dyn Store, bytes: &Bytes, ttl: Duration) -> Result<()> {
        for number in 0..self.count {
            let piece = bytes.slice(number * PIECE..bytes.len().min((number + 1) * PIECE));
            store.create(&self.key(number), piece, Some(ttl)).await?;
        }
        Ok(())
    }

    /// The bytes, if all of them are still there.
    pub(crate) async fn get(&self, store: &dyn Store) -> Result<Option<Bytes>> {
        let mut bytes = Vec::new();
        for number in 0..self.count {
            let Some(record) = store.get(&self.key(number)).await? else { return Ok(None) };
            bytes.extend_from_slice(&record.value);
        }
        Ok(Some(bytes.into()))
    }

    pub(crate) async fn delete(&self, store: &dyn Store) -> Result<()> {
        for number in 0..self.count {
            if let Some(record) = store.get(&self.key(number)).await? {
                store.delete(&record.key, record.revision).await?;
            }
        }
        Ok(())
    }
}
