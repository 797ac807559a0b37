use std::{collections::HashMap, sync::Mutex};

/// For each snapshot, the lengths of at most this number of exports are cached.
const MOST: usize = 32;

/// The lengths of exports that were already encoded. With these lengths, the server can continue an interrupted export
/// without encoding the first part again.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<String, Lengths>>);

/// The positions of the chunks in an export, and the length of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// The byte position at which each chunk starts in the export, up to the last chunk with a known position. The
    /// first chunk starts after the head of the export.
    pub(crate) starts: Vec<u64>,
    /// The length of the whole export.
    pub(crate) total: Option<u64>,
}

impl Known {
    pub(crate) fn of(&self, tag: &str) -> Lengths {
        self.0.lock().map(|known| known.get(tag).cloned().unwrap_or_default()).unwrap_or_default()
    }

    /// Records the position of a chunk's first byte in the export.
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
    /// Finds the last known chunk that starts at or before the position `byte`. Returns the index of the chunk, and
    /// the position of its first byte.
    pub(crate) fn before(&self, byte: u64) -> Option<(usize, u64)> {
        let number = self.starts.partition_point(|&start| start <= byte).checked_sub(1)?;
        Some((number, self.starts[number]))
    }
}
