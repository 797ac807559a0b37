//! Values of any size in a store whose values are bounded, as several records that expire by themselves.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Result, Store};

/// How many bytes one piece has at most: well below the limit of every store.
pub const PIECE: usize = 256 * 1024;

/// A value that is stored as several records, `pieces/<name>/<number>`. It can be stored in another record itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pieces {
    name: String,
    count: usize,
}

impl Pieces {
    /// Names the pieces of a value of `bytes` bytes. No other value can have the same name.
    pub fn named(name: String, bytes: usize) -> Self {
        Self { name, count: bytes.div_ceil(PIECE) }
    }

    fn key(&self, number: usize) -> String {
        format!("pieces/{}/{number}", self.name)
    }

    /// Stores a value under a random name. Its records expire after `ttl`.
    pub async fn put(store: &dyn Store, bytes: &Bytes, ttl: Duration) -> Result<Self> {
        let pieces = Self::named(random_id(), bytes.len());
        pieces.write(store, bytes, ttl).await?;
        Ok(pieces)
    }

    /// Stores the value. Give the name to readers afterwards.
    pub async fn write(&self, store: &dyn Store, bytes: &Bytes, ttl: Duration) -> Result<()> {
        for number in 0..self.count {
            let piece = bytes.slice(number * PIECE..bytes.len().min((number + 1) * PIECE));
            store.create(&self.key(number), piece, Some(ttl)).await?;
        }
        Ok(())
    }

    /// Reads the value. Returns `None` if a piece has expired.
    pub async fn get(&self, store: &dyn Store) -> Result<Option<Bytes>> {
        let mut bytes = Vec::new();
        for number in 0..self.count {
            let Some(record) = store.get(&self.key(number)).await? else { return Ok(None) };
            bytes.extend_from_slice(&record.value);
        }
        Ok(Some(bytes.into()))
    }

    /// Deletes the pieces.
    pub async fn delete(&self, store: &dyn Store) -> Result<()> {
        for number in 0..self.count {
            if let Some(record) = store.get(&self.key(number)).await? {
                store.delete(&record.key, record.revision).await?;
            }
        }
        Ok(())
    }
}

/// 128 random bits in hexadecimal.
fn random_id() -> String {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system has random numbers");
    format!("{:032x}", u128::from_le_bytes(bits))
}
