//! Stores the newest result set of each caller.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{
    Shared,
    again::Attempts,
    record::{Id, ROOT},
    storage,
};
use crate::{error::Result, hex::hex};

/// Time for which a result set counts as the newest of its caller.
const LIFE: Duration = Duration::from_secs(10 * 60);

impl Shared {
    /// Stores the newest result set of a caller.
    pub(super) async fn set_newest(&self, caller: &str, id: Id<'_>) -> Result<()> {
        let key = key(caller);
        let value = Bytes::copy_from_slice(id.0.as_bytes());
        let mut attempts = Attempts::default();
        loop {
            let written = match self.store.get(&key).await.map_err(storage)? {
                Some(record) => self.store.update(&key, value.clone(), Some(LIFE), record.revision).await,
                None => self.store.create(&key, value.clone(), Some(LIFE)).await,
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// Returns the newest result set of a caller.
    pub(super) async fn newest(&self, caller: &str) -> Result<Option<String>> {
        let record = self.store.get(&key(caller)).await.map_err(storage)?;
        Ok(record.and_then(|record| String::from_utf8(record.value.to_vec()).ok()))
    }
}

/// Returns the key of the record that contains the newest result set of a caller. The name of a caller can contain
/// characters that are not valid in a key.
fn key(caller: &str) -> String {
    format!("{ROOT}newest/{}", hex(&Sha256::digest(caller.as_bytes())[..16]))
}
