//! The detection of rollbacks: the store returns an earlier version of a record than this process has seen.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// The minimum number of runs that the detector remembers.
const REMEMBERED: usize = 4096;

/// Remembers the latest write count of each run that this process has read or written.
///
/// Records are encrypted, so an attacker with write access to the store cannot read or change the contents of a record.
/// But the attacker can replace a record with an earlier version of this record. The store cannot detect this
/// replacement. A process that has seen the later version can detect the replacement.
#[derive(Debug, Default)]
pub(super) struct RollbackDetector(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The newest write counts. When this map is full, the detector moves the map to `before` and drops the old entries
    /// of `before`.
    lately: HashMap<String, u64>,
    before: HashMap<String, u64>,
}

impl RollbackDetector {
    /// Remembers that this process has read or written the run `key` with the write count `serial`.
    pub(super) fn saw(&self, key: &str, serial: u64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.lately.len() >= REMEMBERED && !seen.lately.contains_key(key) {
            seen.before = std::mem::take(&mut seen.lately);
        }
        seen.lately.insert(key.to_owned(), serial);
    }

    /// Returns the latest write count that this process has seen. Call this method before you read the record from the
    /// store. After the read, the returned count could belong to a newer write than the record.
    pub(super) fn known(&self, key: &str) -> Option<u64> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.lately.get(key).or_else(|| seen.before.get(key)).copied()
    }

    /// Returns `true` if the write count `serial` of a record is lower than `known`. In this case, the detector
    /// remembers the lower write count, so that the server reports each rollback only once.
    pub(super) fn is_put_back(&self, key: &str, serial: u64, known: Option<u64>) -> bool {
        let is_back = known.is_some_and(|known| serial < known);
        if is_back || self.known(key).is_none_or(|seen| seen < serial) {
            self.saw(key, serial);
        }
        is_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_record_is_known_for_one_by_whoever_saw_the_later() {
        let rollback = RollbackDetector::default();
        let is_put_back = |key: &str, serial| rollback.is_put_back(key, serial, rollback.known(key));
        assert!(!is_put_back("tasks/a/1", 3), "nothing is known of it");
        rollback.saw("tasks/a/1", 5);
        assert!(!is_put_back("tasks/a/1", 5) && !is_put_back("tasks/a/1", 6));
        assert!(is_put_back("tasks/a/1", 4));
        assert!(!is_put_back("tasks/a/1", 4), "it is told once");
        assert!(!is_put_back("tasks/a/2", 1));
    }

    #[test]
    fn what_is_written_while_a_run_is_read_does_not_make_it_an_earlier_one() {
        let rollback = RollbackDetector::default();
        rollback.saw("tasks/a/1", 5);
        let known = rollback.known("tasks/a/1");
        rollback.saw("tasks/a/1", 6);
        assert!(!rollback.is_put_back("tasks/a/1", 5, known));
        assert_eq!(rollback.known("tasks/a/1"), Some(6), "what was written is still the latest");
    }

    #[test]
    fn memory_of_it_is_bounded_and_keeps_what_is_recent() {
        let rollback = RollbackDetector::default();
        for n in 0..3 * REMEMBERED {
            rollback.saw(&n.to_string(), 2);
        }
        let last = (3 * REMEMBERED - 1).to_string();
        assert!(rollback.is_put_back(&last, 1, rollback.known(&last)));
        let seen = rollback.0.lock().unwrap();
        assert!(seen.lately.len() <= REMEMBERED && seen.before.len() <= REMEMBERED);
    }
}
