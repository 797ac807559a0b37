//! What the world has seen, in a file kept outside of everything that is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::story::{Effect, Effects};

/// How the ledger and the runs agree.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Effects that happened.
    pub(crate) effects: u64,
    /// Effects a run has said nobody knows of, and how many of those happened.
    pub(crate) unknown: u64,
    pub(crate) unknown_happened: u64,
    /// What must not be, in words.
    pub(crate) problems: Vec<String>,
}

impl Audit {
    /// Compares the ledger in `path` with what the runs said.
    pub(crate) fn of(path: &Path, runs: &[Effects]) -> Result<Self> {
        let ledger =
            fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
        Ok(Self::compare(&ledger, runs))
    }

    fn compare(ledger: &str, runs: &[Effects]) -> Self {
        let mut audit = Self::default();
        let mut keys: BTreeMap<&str, u64> = BTreeMap::new();
        let mut done: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for line in ledger.lines() {
            audit.effects += 1;
            let words: Vec<_> = line.split(' ').collect();
            let (Some(key), Some(what), Some(address)) = (words.first(), words.get(1), words.last()) else {
                continue;
            };
            *keys.entry(key).or_default() += 1;
            *done.entry((what, address)).or_default() += 1;
        }
        let twice = keys.into_iter().filter(|(_, times)| *times > 1);
        audit.problems.extend(twice.map(|(key, times)| format!("`{key}` happened {times} times")));
        for run in runs {
            for (what, expected) in [("charge", run.charge), ("ship", run.ship)] {
                let times = done.get(&(what, run.address.as_str())).copied().unwrap_or_default();
                audit.compare_one(what, &run.address, expected, times);
            }
        }
        audit
    }

    fn compare_one(&mut self, what: &str, address: &str, expected: Effect, times: u64) {
        let right = match expected {
            Effect::Never => times == 0,
            Effect::Once => times == 1,
            Effect::Perhaps => {
                self.unknown += 1;
                self.unknown_happened += times;
                times <= 1
            }
        };
        if !right {
            self.problems.push(format!("{what} for {address} happened {times} times, not {expected:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, charge: Effect, ship: Effect) -> Effects {
        Effects { address: format!("address-{number}"), charge, ship }
    }

    const LEDGER: &str = "a:charge charge 1 item-1 address-1\na:ship ship item-1 address-1\nb:charge charge 2 item-2 address-2\n";

    #[test]
    fn what_was_said_and_what_was_done_agree() {
        let runs = [
            run(1, Effect::Once, Effect::Once),
            run(2, Effect::Perhaps, Effect::Never),
            run(3, Effect::Perhaps, Effect::Never),
        ];
        let audit = Audit::compare(LEDGER, &runs);
        assert!(audit.problems.is_empty(), "{audit:?}");
        assert_eq!((audit.effects, audit.unknown, audit.unknown_happened), (3, 2, 1));
    }

    #[test]
    fn what_happened_twice_or_never_is_seen() {
        let twice = format!("{LEDGER}a:charge charge 1 item-1 address-1\n");
        let runs = [run(1, Effect::Once, Effect::Once)];
        assert_eq!(Audit::compare(&twice, &runs).problems.len(), 2);
        assert_eq!(Audit::compare("", &runs).problems.len(), 2);
        assert_eq!(Audit::compare(LEDGER, &[run(1, Effect::Once, Effect::Never)]).problems.len(), 1);
    }
}
