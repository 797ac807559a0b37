//! Reading again and writing again, until the write is made.

use std::time::Duration;

use antiphon_store::Error;

use super::storage;
use crate::{
    error::{DualResponseError, Result},
    hex::hex,
};

/// How often another may be faster.
const CONFLICTS: u32 = 200;
/// How often it may be unknown what became of a write.
const FAILURES: u32 = 4;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// How often a write has been tried in vain.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    conflicts: u32,
    failures: u32,
}

impl Attempts {
    /// Waits a little after a write that was not made, or of which nobody knows: whoever calls this reads
    /// again and finds out. Gives up when it has been called too often.
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
        // Those who met once must not meet again.
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

/// A name that nobody else has.
pub(super) fn random_name() -> String {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    hex(&bytes)
}
