use std::fmt;

use crate::Key;

/// The code and its journal have come apart: this run cannot go on.
///
/// It means that the code did something else this time than last time. Either it was deployed anew
/// while the run was waiting, or it depends on something the journal does not hold: a clock, a
/// random number, a map's order, a call that is not a step. [`Drift::hint`] says which to look for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Drift {
    /// A finished entry is asked for differently now.
    #[error("entry {at} ({key:?}) was recorded as {recorded} and is now {now}")]
    Changed {
        /// The entry's place in the journal.
        at: usize,
        /// The entry's key.
        key: Key,
        /// What the journal holds.
        recorded: String,
        /// What the code wants now.
        now: String,
    },
    /// The journal's next entry is one the code does not wait for.
    #[error(
        "entry {at} ({key:?}, {recorded}) is not what the code waits for; it waits for {}",
        List(waiting)
    )]
    Unexpected {
        /// The entry's place in the journal.
        at: usize,
        /// The entry's key.
        key: Key,
        /// What the journal holds.
        recorded: String,
        /// What the code waits for instead.
        waiting: Vec<Key>,
    },
    /// The code came to its end before the journal did.
    #[error(
        "the tool returned although {left} recorded {} still to come, beginning with {key:?} ({recorded})",
        if *left == 1 { "entry was" } else { "entries were" }
    )]
    Short {
        /// How many entries were left.
        left: usize,
        /// The first of them.
        key: Key,
        /// What the journal holds there.
        recorded: String,
    },
    /// A question that is out with the client was not asked this time.
    #[error(
        "{key:?} was asked in the last round and the code no longer asks it; it waits for {}",
        List(waiting)
    )]
    Vanished {
        /// The question's key.
        key: Key,
        /// What the code waits for instead.
        waiting: Vec<Key>,
    },
    /// A question is worded differently in every round.
    #[error("{key:?} has been worded differently {times} times")]
    Volatile {
        /// The question's key.
        key: Key,
        /// How often its wording changed.
        times: u8,
    },
}

impl Drift {
    /// Where it is, in the author's own names: a key, and what became of it. The rest of the text may hold what was
    /// asked, and that may be for the person alone who was.
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

    /// What a person can do about it.
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

/// Why a journal could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// It was written by a newer version.
    #[error("journal format {found} is not known here; this version reads up to {}", crate::FORMAT)]
    Unknown {
        /// The format it names.
        found: u32,
    },
    /// It is not a journal.
    #[error("not a journal")]
    Malformed(#[from] serde_json::Error),
}
