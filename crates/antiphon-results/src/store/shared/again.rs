//! Retries conditional writes. Each attempt reads the record again, and then writes the record.

use std::time::Duration;

use antiphon_store::Error;

use super::storage;
use crate::{
    error::{DualResponseError, Result},
    hex::hex,
};

/// Maximum number of conflicts with other writers before a write fails.
const CONFLICTS: u32 = 200;
/// Maximum number of attempts that end with a backend error before a write fails.
const FAILURES: u32 = 4;
/// Maximum pause before the next attempt to write.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Counts of failed attempts to write.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    conflicts: u32,
    failures: u32,
}

impl Attempts {
    /// Waits before the next attempt to write a record. After the wait, the caller reads the record again, because an
    /// attempt that returned an error possibly succeeded. Returns an error after too many attempts to write.
    pub(super) async fn again(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Conflict { .. } => self.conflicts += 1,
            Error::Backend { .. } => self.failures += 1,
            error => return Err(storage(error)),
        }
        if self.conflicts > CONFLICTS {
            return Err(DualResponseError::Busy { retry_after: Duration::from_secs(1) });
        }
        if self.failures > FAILURES {
            return Err(storage(error));
        }
        // The random pause separates writers that had a conflict.
        let longest = Duration::from_millis(1 << self.conflicts.min(7)).min(MAX_PAUSE);
        tokio::time::sleep(longest.mul_f64(f64::from(random_u32()) / f64::from(u32::MAX))).await;
        Ok(())
    }
}

fn random_u32() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u32::from_le_bytes(bytes)
}

/// Returns a unique random name.
pub(super) fn random_name() -> String {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    hex(&bytes)
}
