use std::{collections::HashMap, sync::Mutex};

/// How many exports of a snapshot are remembered.
const MOST: usize = 32;

/// What exports have taught about their lengths: so what was broken off is gone on with where it was, and not from the
/// beginning.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<String, Lengths>>);

/// How long the parts of an export are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// Where each chunk begins, as far as that is known: the first begins behind the head.
    pub(crate) starts: Vec<u64>,
    /// How long the whole is.
    pub(crate) total: Option<u64>,
}

impl Known {
    pub(crate) fn of(&self, tag: &str) -> Lengths {
        self.0.lock().map(|known| known.get(tag).cloned().unwrap_or_default()).unwrap_or_default()
    }

    /// Chunk `number`, of those in the export, begins here.
    pub(crate) fn start(&self, tag: &str, number: usize, at: u64) {
        self.change(tag, |lengths| {
            if lengths.starts.len() == number {
                lengths.starts.push(at);
            }
        });
    }

    pub(crate) fn total(&self, tag: &str, total: u64) {
        self.change(tag, |lengths| lengths.total = Some(total));
    }

    fn change(&self, tag: &str, change: impl FnOnce(&mut Lengths)) {
        let Ok(mut known) = self.0.lock() else { return };
        if let Some(lengths) = known.get_mut(tag) {
            change(lengths);
            return;
        }
        if known.len() >= MOST
            && let Some(some) = known.keys().next().cloned()
        {
            known.remove(&some);
        }
        let mut lengths = Lengths::default();
        change(&mut lengths);
        known.insert(tag.to_owned(), lengths);
    }
}

impl Lengths {
    /// The last chunk that is known to begin at or before a byte, by its number and where it begins.
    pub(crate) fn before(&self, byte: u64) -> Option<(usize, u64)> {
        let number = self.starts.partition_point(|&start| start <= byte).checked_sub(1)?;
        Some((number, self.starts[number]))
    }
}
