//! What the processes did to the world, as they noted it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// One line of the ledger. Times are milliseconds of this machine's clock.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: u64,
    pub(crate) process: String,
    pub(crate) note: Note,
}

/// What happened.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Note {
    /// A leg has begun.
    Leg { run: String, leg: String },
    /// A step that may be taken once was claimed and is being taken.
    Began { run: String, step: String, leg: String },
    /// The world has changed: the step returns `value`, and the tool had seen these before.
    Effect { run: String, step: String, value: String, saw: BTreeMap<String, String>, leg: String },
    /// The tool was given what the step returned, so that is written down.
    Saw { run: String, step: String, value: String },
    /// The tool was told that nobody knows whether the step was taken, and went on.
    Unknown { run: String, step: String },
    /// The leg is over, and its process lives.
    Over { leg: String },
    /// The process died over what it had just done.
    #[serde(rename = "fell")]
    Fell {},
    /// The process was not given the processor for so long.
    Stalled { millis: u64 },
}

/// Reads the whole ledger.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    parse(&text)
}

pub(crate) fn parse(text: &str) -> Result<Vec<Line>> {
    // A process may be writing the last line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned()));
    lines.collect()
}
