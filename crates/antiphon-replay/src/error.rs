use std::fmt;

use crate::Key;

/// A mismatch between the code and its journal on replay (a non-determinism error). The run cannot continue.
///
/// The code did something different from the previous leg. Either a new version was deployed while the run was
/// waiting, or the code depends on a value that is not in the journal. Typical values are a clock, a random number,
/// the order of a map or a call that is not a step. [`Drift::hint`] returns advice for each case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Drift {
    /// The code asks for a finished entry with a different request, label or kind.
    #[error("entry {at} ({key:?}) was recorded as {recorded} and is now {now}")]
    Changed {
        /// The index of the entry in the journal.
        at: usize,
        /// The entry's key.
        key: Key,
        /// The kind and label in the journal.
        recorded: String,
        /// The kind and label of the current call.
        now: String,
    },
    /// The code does not wait for the next entry of the journal.
    #[error(
        "entry {at} ({key:?}, {recorded}) is not what the code waits for; it waits for {}",
        List(waiting)
    )]
    Unexpected {
        /// The index of the entry in the journal.
        at: usize,
        /// The entry's key.
        key: Key,
        /// The kind and label in the journal.
        recorded: String,
        /// The keys that the code waits for.
        waiting: Vec<Key>,
    },
    /// The code returned before the whole journal was delivered.
    #[error(
        "the tool returned although {left} recorded {} still to come, beginning with {key:?} ({recorded})",
        if *left == 1 { "entry was" } else { "entries were" }
    )]
    Short {
        /// The number of entries that were not delivered.
        left: usize,
        /// The key of the first of them.
        key: Key,
        /// The kind and label of that entry.
        recorded: String,
    },
    /// The client has an open question that the code did not ask in this leg.
    #[error(
        "{key:?} was asked in the last round and the code no longer asks it; it waits for {}",
        List(waiting)
    )]
    Vanished {
        /// The question's key.
        key: Key,
        /// The keys that the code waits for.
        waiting: Vec<Key>,
    },
    /// The text of a question changed in more than two rounds.
    #[error("{key:?} has been worded differently {times} times")]
    Volatile {
        /// The question's key.
        key: Key,
        /// The number of times the text changed.
        times: u8,
    },
}

impl Drift {
    /// Returns the location and the kind of drift, in the author's names.
    ///
    /// Use it in logs. The other texts of this error can contain the text of a question, which only the user who
    /// was asked is allowed to read.
    pub fn place(&self) -> String {
        match self {
            Self::Changed { at, key, .. } => format!("entry {at}, `{key}`: changed"),
            Self::Unexpected { at, key, .. } => format!("entry {at}, `{key}`: not waited for"),
            Self::Short { left, key, .. } => {
                format!("`{key}` and {} more: never seen", left.saturating_sub(1))
            }
            Self::Vanished { key, .. } => format!("`{key}`: no longer asked"),
            Self::Volatile { key, .. } => format!("`{key}`: worded anew in every round"),
        }
    }

    /// Returns advice for the reader of the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Changed { .. } => {
                "if the tool was deployed anew, call it again; if not, keep what varies (time, random numbers, lookups) in `ctx.step` so that it is recorded"
            }
            Self::Unexpected { .. } | Self::Vanished { .. } | Self::Short { .. } => {
                "if the tool was deployed anew, call it again; if not, the code takes another path than before: a branch depends on something that is not recorded, move it into `ctx.step`"
            }
            Self::Volatile { .. } => {
                "its text depends on something that changes between rounds, often a clock or a random number: read it in `ctx.step`"
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

/// An error of reading a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The journal has a format version that this version cannot read.
    #[error("journal format {found} is not known here; this version reads up to {}", crate::FORMAT)]
    Unknown {
        /// The format version in the journal.
        found: u32,
    },
    /// The bytes are not a journal.
    #[error("not a journal")]
    Malformed(#[from] serde_json::Error),
}
