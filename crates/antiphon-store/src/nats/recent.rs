use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

const SLOTS: usize = 1 << 14;

/// A cache of recent results, to save requests to the server.
///
/// Each key can be in only one slot of the cache, so the size is fixed and the cache needs no eviction. A cached value
/// can be out of date. So the server checks each request that uses a cached value.
pub(super) struct Recent<T> {
    slots: Mutex<Vec<Option<(u64, T)>>>,
}

impl<T: Copy> Recent<T> {
    pub(super) fn new() -> Self {
        Self { slots: Mutex::new(Vec::new()) }
    }

    pub(super) fn note(&self, key: impl Hash, value: T) {
        let key = digest(key);
        let mut slots = self.slots();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        slots[place(key)] = Some((key, value));
    }

    pub(super) fn recall(&self, key: impl Hash) -> Option<T> {
        let key = digest(key);
        let slots = self.slots();
        slots.get(place(key)).copied().flatten().filter(|(at, _)| *at == key).map(|(_, value)| value)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Option<(u64, T)>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn place(key: u64) -> usize {
    usize::try_from(key % SLOTS as u64).expect("the index is less than the number of slots")
}

impl<T> fmt::Debug for Recent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").finish_non_exhaustive()
    }
}
