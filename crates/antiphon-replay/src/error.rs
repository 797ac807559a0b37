use std::fmt;

use crate::Key;

/// A mismatch between a tool's code and its journal on replay (a non-determinism error). After a drift, the run cannot
/// continue.
///
/// On replay, the code of the tool did not repeat the calls that the code made before the run was suspended. One
/// possible cause of drift is a new version of the code. Another possible cause of drift is that the code depends on a
/// value that is not in the journal. Examples of such values are a time, a random number, the order of a map, or the
/// result of a call outside of a step. [`Drift::hint`] returns advice for each kind of drift.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Drift {
    /// The code makes a call whose result is in the journal, but the request, the label or the kind of the call is
    /// different.
    #[error("journal entry {at} ({key:?}) was recorded as {recorded} and is now {now}")]
    Changed {
        /// The index of the entry in the journal.
        at: usize,
        /// The key of the journal entry.
        key: Key,
        /// The kind and the label of the entry in the journal.
        recorded: String,
        /// The kind and the label of the call that the code makes on replay.
        now: String,
    },
    /// The code does not wait for the next result that the journal contains.
    #[error("journal entry {at} is {key:?} ({recorded}), but on replay the code waits for {}", List(waiting))]
    Unexpected {
        /// The index of the entry in the journal.
        at: usize,
        /// The key of the journal entry.
        key: Key,
        /// The kind and the label of the entry in the journal.
        recorded: String,
        /// The keys of the questions and steps that the code waits for, instead of the key `key`.
        waiting: Vec<Key>,
    },
    /// The tool's function ended before it received all results in the journal.
    #[error(
        "the tool returned before {left} recorded {} replayed, beginning with {key:?} ({recorded})",
        if *left == 1 { "entry was" } else { "entries were" }
    )]
    Short {
        /// The number of results that the code did not receive.
        left: usize,
        /// The key of the first result that the code did not receive.
        key: Key,
        /// The kind and the label of the first result that the code did not receive.
        recorded: String,
    },
    /// The client received a question in the last round, but the code does not ask this question again.
    #[error(
        "the question {key:?} was sent in the last round, but the code no longer asks this question and waits for {}",
        List(waiting)
    )]
    Vanished {
        /// The key of the question.
        key: Key,
        /// The keys of the questions and steps that the code waits for, instead of the key `key`.
        waiting: Vec<Key>,
    },
    /// The text of a pending question changed in more than two rounds.
    #[error("the text of the question {key:?} has changed {times} times")]
    Volatile {
        /// The key of the question.
        key: Key,
        /// The number of times that the text of the question changed.
        times: u8,
    },
}

impl Drift {
    /// Returns the journal entry or the question key at which the drift happened, and the kind of drift.
    ///
    /// Use this text in logs. Other texts of a drift error, such as the `Display` output, can contain the text of a
    /// question. Only the user who received a question is allowed to read the text of the question.
    pub fn place(&self) -> String {
        match self {
            Self::Changed { at, key, .. } => format!("journal entry {at}, `{key}`: changed"),
            Self::Unexpected { at, key, .. } => {
                format!("journal entry {at}, `{key}`: the code does not wait for it")
            }
            Self::Short { left, key, .. } => {
                format!("`{key}` and {} more: not replayed before the tool returned", left.saturating_sub(1))
            }
            Self::Vanished { key, .. } => format!("`{key}`: no longer asked"),
            Self::Volatile { key, .. } => format!("`{key}`: its text changes in every round"),
        }
    }

    /// Returns a text that advises developers how to fix the cause of this drift.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Changed { .. } => {
                "if a new version was deployed, call the tool again; if not, move values that vary (time, random numbers, lookups) into `ctx.step`, which records them"
            }
            Self::Unexpected { .. } | Self::Vanished { .. } | Self::Short { .. } => {
                "if a new version was deployed, call the tool again; if not, the code takes another path than before: move the value that the path depends on into `ctx.step`, which records it"
            }
            Self::Volatile { .. } => {
                "the text depends on a value that changes between rounds, often a clock or a random number: read the value in `ctx.step`"
            }
        }
    }
}

struct List<'a>(&'a [Key]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (i, key) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{key:?}")?;
        }
        Ok(())
    }
}

/// The reason why a journal could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The journal has a format version that this version of the crate cannot read.
    #[error(
        "the journal has format {found}, which is not supported; this version reads formats up to {}",
        crate::FORMAT
    )]
    Unknown {
        /// The format version that the journal states.
        found: u32,
    },
    /// The bytes cannot be parsed as a journal.
    #[error("the bytes are not a valid journal")]
    Malformed(#[from] serde_json::Error),
}
