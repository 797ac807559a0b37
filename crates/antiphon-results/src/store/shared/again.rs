//! Retries of conditional writes: read again, then write again.

use std::time::Duration;

use antiphon_store::Error;

use super::storage;
use crate::{
    error::{DualResponseError, Result},
    hex::hex,
};

/// Maximum number of conflicts with other writers.
const CONFLICTS: u32 = 200;
/// Maximum number of writes with an unknown outcome.
const FAILURES: u32 = 4;
/// Maximum pause.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Counts of failed attempts to write.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    conflicts: u32,
    failures: u32,
}

impl Attempts {
    /// Waits before the next attempt of a write that failed or whose outcome is unknown. After the wait, the caller
    /// reads the record again to find out the outcome. Returns an error after too many attempts.
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
