//! When something was broken on purpose, and by what.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::fault::Fault;

/// How long after a fault is over its echo may be heard: retries on their way, connections that are found dead.
const ECHO: Duration = Duration::from_secs(3);

/// A time in which clients may notice something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) fault: Fault,
    pub(super) from: Instant,
    /// Nothing while it goes on.
    pub(super) to: Option<Instant>,
}

/// All of them, oldest first. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Windows(Mutex<Vec<Window>>);

impl Windows {
    pub(super) fn open(&self, fault: Fault) {
        self.lock().push(Window { fault, from: Instant::now(), to: None });
    }

    pub(super) fn close(&self) {
        if let Some(last) = self.lock().last_mut() {
            last.to = Some(Instant::now());
        }
    }

    /// What was broken at some time between the two, or had just been repaired: the last of them.
    pub(super) fn cause(&self, from: Instant, to: Instant) -> Option<Fault> {
        let overlaps = |window: &&Window| window.from <= to && window.to.is_none_or(|end| end + ECHO >= from);
        self.lock().iter().rev().find(overlaps).map(|window| window.fault)
    }

    pub(super) fn all(&self) -> Vec<Window> {
        self.lock().clone()
    }

    /// How often each was done.
    pub(super) fn counts(&self) -> BTreeMap<Fault, u64> {
        let mut counts = BTreeMap::new();
        self.lock().iter().for_each(|window| *counts.entry(window.fault).or_default() += 1);
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_overlaps_a_fault_or_its_echo_is_excused() {
        let windows = Windows::default();
        let before = Instant::now();
        assert_eq!(windows.cause(before, Instant::now()), None);
        windows.open(Fault::Cut);
        assert_eq!(windows.cause(before, Instant::now()), Some(Fault::Cut));
        windows.close();
        let end = Instant::now();
        assert_eq!(windows.cause(end + ECHO / 2, end + ECHO), Some(Fault::Cut));
        assert_eq!(windows.cause(end + ECHO * 2, end + ECHO * 3), None);
    }
}
