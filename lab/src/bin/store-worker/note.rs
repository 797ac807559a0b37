//! What a process did, as it says itself, in a file outside of the store.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::Write as _,
    path::Path,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::Plan;

/// One write that somebody wanted: writer, start, task, number. No two are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Op(pub(crate) u32, pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Op {
    /// The task that made it; a task makes one after the other.
    pub(crate) fn task(self) -> (u32, u32, u32) {
        (self.0, self.1, self.2)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.0, self.1, self.2, self.3)
    }
}

impl FromStr for Op {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>();
        match parts.with_context(|| format!("`{text}` is no write"))?[..] {
            [writer, start, task, number] => Ok(Self(writer, start, task, number)),
            _ => anyhow::bail!("`{text}` is no write"),
        }
    }
}

impl TryFrom<String> for Op {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Op> for String {
    fn from(op: Op) -> Self {
        op.to_string()
    }
}

/// What was done. Times are milliseconds of this machine's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    /// Acknowledged: `op` is number `place` in the history that the record's value is.
    Wrote { key: String, op: Op, place: usize, expected: Option<u64>, revision: u64 },
    /// The answer was lost.
    MayHaveWritten { key: String, op: Op },
    /// Acknowledged: `count` entries of `op`, the first of which is number `at`.
    Appended { log: String, op: Op, at: u64, count: u64 },
    /// The answer was lost.
    MayHaveAppended { log: String, op: Op, count: u64 },
    /// A record or a log is shorter than it was seen before.
    WentBack { name: String, had: u64, saw: u64 },
    /// The job is about to be pushed by a process that knows not whether it was pushed before.
    Resumed { id: String },
    /// Acknowledged.
    Pushed { id: String, sent: u64, delay: u64, added: bool },
    /// The answer was lost; it will be pushed again.
    MayHavePushed { id: String },
    /// Asked for at `sent`, held at `got`.
    Leased { id: String, attempt: u32, sent: u64, got: u64 },
    /// Acknowledged: held for a whole lease after `sent` at least.
    Extended { id: String, attempt: u32, sent: u64 },
    /// The work is done. Noted before the queue is told.
    Done { id: String, attempt: u32 },
    /// Acknowledged: the queue was told.
    Acked { id: String, attempt: u32 },
    /// Given back, or maybe given back.
    Nacked { id: String, attempt: u32 },
    /// The queue said that somebody else has it.
    LeaseLost { id: String, attempt: u32 },
    /// A job came with another's payload.
    Mixed { id: String, payload: String },
}

/// The notes of one process.
#[derive(Debug)]
pub(crate) struct Journal(Mutex<File>);

impl Journal {
    /// A new file for this start of the process.
    pub(crate) fn create(role: &str, plan: &Plan) -> Result<Self> {
        let path = plan.folder.join(format!("{role}-{}-{}.jsonl", plan.number, plan.start));
        let file = File::options().append(true).create_new(true).open(&path);
        Ok(Self(Mutex::new(file.with_context(|| format!("could not write {}", path.display()))?)))
    }

    /// Writes it down for good.
    pub(crate) fn note(&self, note: &Note) -> Result<()> {
        self.note_all(std::slice::from_ref(note))
    }

    /// Writes all of them down for good.
    pub(crate) fn note_all(&self, notes: &[Note]) -> Result<()> {
        let mut text = String::new();
        for note in notes {
            text.push_str(&serde_json::to_string(note)?);
            text.push('\n');
        }
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        Ok(())
    }
}

/// All notes of all processes whose files begin with `prefix`, by file.
pub(crate) fn read(folder: &Path, prefix: &str) -> Result<BTreeMap<String, Vec<Note>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            let text = std::fs::read_to_string(entry.path())?;
            files.insert(name.clone(), parse(&text).with_context(|| format!("{name} cannot be read"))?);
        }
    }
    Ok(files)
}

fn parse(text: &str) -> Result<Vec<Note>> {
    let lines = text.split_inclusive('\n');
    // Of a process that was killed while it wrote, the last line may have no end.
    let whole = lines.filter(|line| line.ends_with('\n'));
    let notes = whole.map(|line| serde_json::from_str(line).with_context(|| line.to_owned()));
    notes.collect()
}

/// Milliseconds of this machine's clock.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Refuses what a history cannot be.
pub(crate) fn parse_history(value: &[u8]) -> Result<Vec<Op>> {
    let text = std::str::from_utf8(value).context("a value is no text")?;
    ensure!(!text.is_empty(), "a value is empty");
    text.split(' ').map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_was_never_noted() {
        let done = r#"{"done":{"id":"job-1","attempt":1}}"#;
        assert_eq!(parse(&format!("{done}\n{{\"done\":")).unwrap().len(), 1);
        assert!(parse("nonsense\n").is_err());
    }

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let history = parse_history(b"1.2.3.4 5.6.7.8").unwrap();
        assert_eq!(history, [Op(1, 2, 3, 4), Op(5, 6, 7, 8)]);
        assert!(parse_history(b"1.2.3").is_err());
    }
}
