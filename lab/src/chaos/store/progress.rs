//! How far everybody is, read from their notes as they grow.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// What was counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Done {
    /// Acknowledged writes.
    pub(super) writes: u64,
    /// Jobs that were done at least once.
    pub(super) jobs: u64,
}

/// Reads only what is new.
#[derive(Debug)]
pub(super) struct Progress {
    folder: PathBuf,
    /// How far each file was read.
    read: HashMap<PathBuf, u64>,
    writes: u64,
    jobs: HashSet<String>,
}

impl Progress {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), read: HashMap::new(), writes: 0, jobs: HashSet::new() }
    }

    pub(super) fn read(&mut self) -> Result<Done> {
        for entry in fs::read_dir(&self.folder).context("the notes are gone")? {
            let path = entry?.path();
            let offset = self.read.get(&path).copied().unwrap_or(0);
            let mut file = File::open(&path)?;
            if file.metadata()?.len() == offset {
                continue;
            }
            file.seek(SeekFrom::Start(offset))?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            // A line that has no end yet is read the next time.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            text[..whole].lines().for_each(|line| self.count(line));
            self.read.insert(path, offset + whole as u64);
        }
        Ok(Done { writes: self.writes, jobs: self.jobs.len() as u64 })
    }

    fn count(&mut self, line: &str) {
        if line.starts_with("{\"wrote\"") || line.starts_with("{\"appended\"") {
            self.writes += 1;
        } else if let Some((_, rest)) = line.split_once("{\"done\":{\"id\":\"")
            && let Some((id, _)) = rest.split_once('"')
        {
            self.jobs.insert(id.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_counts_once_and_a_write_each_time() {
        let mut progress = Progress::new(Path::new("."));
        let lines = [
            r#"{"done":{"id":"job-1","attempt":1}}"#,
            r#"{"done":{"id":"job-1","attempt":2}}"#,
            r#"{"wrote":{"key":"raw/hot/1","op":"1.1.1.1","place":0,"expected":null,"revision":1}}"#,
            r#"{"appended":{"log":"raw/log/1","op":"1.1.1.2","at":0,"count":1}}"#,
            r#"{"may_have_appended":{"log":"raw/log/1","op":"1.1.1.3","count":1}}"#,
            r#"{"acked":{"id":"job-2","attempt":1}}"#,
        ];
        for line in lines {
            progress.count(line);
        }
        assert_eq!((progress.writes, progress.jobs.len()), (2, 1));
    }
}
