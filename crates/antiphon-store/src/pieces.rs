//! Storage for values that are too large for one record. Each value is split into several records, which expire.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Result, Store};

/// The maximum size of one piece in bytes. A piece is much smaller than the limit of every store.
pub const PIECE: usize = 256 * 1024;

/// A value that is stored as several records, under the keys `pieces/<name>/<number>`.
///
/// A `Pieces` can be serialized and stored in another record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pieces {
    name: String,
    count: usize,
}

impl Pieces {
    /// Creates the description of a value from its name and its size in bytes. `named` does not store the value. Each
    /// value must have its own name.
    pub fn named(name: String, bytes: usize) -> Self {
        Self { name, count: bytes.div_ceil(PIECE) }
    }

    fn key(&self, number: usize) -> String {
        format!("pieces/{}/{number}", self.name)
    }

    /// Stores a value under a random name. The records of the value expire after `ttl`.
    pub async fn put(store: &dyn Store, bytes: &Bytes, ttl: Duration) -> Result<Self> {
        let pieces = Self::named(random_id(), bytes.len());
        pieces.write(store, bytes, ttl).await?;
        Ok(pieces)
    }

    /// Stores the value. Pass the `Pieces` to readers only after `write` has succeeded.
    pub async fn write(&self, store: &dyn Store, bytes: &Bytes, ttl: Duration) -> Result<()> {
        for number in 0..self.count {
            let piece = bytes.slice(number * PIECE..bytes.len().min((number + 1) * PIECE));
            store.create(&self.key(number), piece, Some(ttl)).await?;
        }
        Ok(())
    }

    /// Reads the value. Returns `None` if a piece of the value has expired.
    pub async fn get(&self, store: &dyn Store) -> Result<Option<Bytes>> {
        let mut bytes = Vec::new();
        for number in 0..self.count {
            let Some(record) = store.get(&self.key(number)).await? else { return Ok(None) };
            bytes.extend_from_slice(&record.value);
        }
        Ok(Some(bytes.into()))
    }

    /// Deletes all records of the value.
    pub async fn delete(&self, store: &dyn Store) -> Result<()> {
        for number in 0..self.count {
            if let Some(record) = store.get(&self.key(number)).await? {
                store.delete(&record.key, record.revision).await?;
            }
        }
        Ok(())
    }
}

/// Returns 128 random bits in hexadecimal.
fn random_id() -> String {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system has random numbers");
    format!("{:032x}", u128::from_le_bytes(bits))
}
