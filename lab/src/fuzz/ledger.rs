//! What each target has been through so far. It is kept, so that a long run can be interrupted and gone on with.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::libfuzzer::Found;
use crate::table::{Table, thousands};

/// How often a target has run when it has run for long.
pub(super) const RUNS: u64 = 10_000_000;
/// Or for how long, in seconds of a processor.
pub(super) const SECONDS: f64 = 3600.0;

/// Every target's, by name. Without a file, nothing is kept.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    file: Option<PathBuf>,
    entries: BTreeMap<String, Found>,
}

impl Ledger {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let file = folder.join("ledger.json");
        Ok(Self { entries: read(&file)?, file: Some(file) })
    }

    pub(super) fn entry(&self, name: &str) -> Found {
        self.entries.get(name).copied().unwrap_or_default()
    }

    /// Adds a run, and keeps it beside what another command may have kept meanwhile.
    pub(super) fn add(&mut self, name: &str, found: &Found) -> Result<Found> {
        if let Some(file) = &self.file {
            self.entries = read(file)?;
        }
        let entry = self.entries.entry(name.to_owned()).or_default();
        entry.add(found);
        let entry = *entry;
        if let Some(file) = &self.file {
            let text = serde_json::to_vec_pretty(&self.entries).context("could not write figures as JSON")?;
            fs::write(file, text).with_context(|| format!("could not write {}", file.display()))?;
        }
        Ok(entry)
    }

    pub(super) fn table<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Table {
        let mut table = Table::new(["target", "runs", "minutes of a core", "runs/s", "edges", "corpus"]);
        for name in names {
            let entry = self.entry(name);
            table.row([
                name.into(),
                thousands(&entry.runs.to_string()),
                format!("{:.1}", entry.seconds / 60.0),
                format!("{:.0}", entry.rate()),
                thousands(&entry.edges.to_string()),
                thousands(&entry.corpus.to_string()),
            ]);
        }
        table
    }
}

fn read(file: &Path) -> Result<BTreeMap<String, Found>> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| {
            format!("{} is not what this command writes; remove it to begin anew", file.display())
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("could not read {}", file.display())),
    }
}

impl Found {
    fn add(&mut self, found: &Self) {
        self.runs += found.runs;
        self.seconds += found.seconds;
        self.edges = self.edges.max(found.edges);
        self.corpus = self.corpus.max(found.corpus);
    }

    pub(super) fn enough(&self) -> bool {
        self.runs >= RUNS || self.seconds >= SECONDS
    }

    /// How much of it is done, at most one.
    pub(super) fn share(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share of ten million")]
        let runs = self.runs as f64 / RUNS as f64;
        runs.max(self.seconds / SECONDS).min(1.0)
    }

    fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "people read it")]
        let runs = self.runs as f64;
        runs / self.seconds.max(0.01)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_million_runs_are_enough_and_so_is_an_hour() {
        let mut entry = Found::default();
        let found = Found { runs: RUNS / 2, seconds: 600.0, edges: 9, corpus: 3 };
        entry.add(&found);
        assert!(!entry.enough());
        assert!((entry.share() - 0.5).abs() < 1e-9);
        entry.add(&found);
        assert!(entry.enough());
        assert_eq!((entry.edges, entry.corpus), (9, 3));
        assert!(Found { seconds: SECONDS, ..Found::default() }.enough());
    }

    #[test]
    fn two_commands_at_a_time_keep_what_both_have_run() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) =
            (Ledger::open(folder.path()).unwrap(), Ledger::open(folder.path()).unwrap());
        let found = Found { runs: 7, ..Found::default() };
        one.add("seal", &found).unwrap();
        other.add("sql", &found).unwrap();
        assert_eq!(one.add("seal", &found).unwrap().runs, 14);
        let kept = Ledger::open(folder.path()).unwrap();
        assert_eq!((kept.entry("seal").runs, kept.entry("sql").runs), (14, 7));
    }
}
