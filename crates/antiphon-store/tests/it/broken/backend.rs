use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use antiphon_store::{Error, Memory, QueueConfig, Result};
use bytes::Bytes;

use super::{FAULT, bus, fault::Fault, queue, store};

/// A backend in memory that has a fault, or none.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) space: Arc<Space>,
    pub(super) config: QueueConfig,
    pub(super) fault: Option<Fault>,
    /// What a fault remembers, for this opening.
    pub(super) own: store::Notes,
}

/// What is kept, and what a fault remembers, for all openings.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) memory: Memory,
    pub(super) store: store::Notes,
    pub(super) queue: queue::Notes,
    pub(super) bus: bus::Notes,
}

/// Opening memory twice means to find the same again.
static SPACES: LazyLock<Mutex<HashMap<String, Arc<Space>>>> = LazyLock::new(Mutex::default);

impl Broken {
    pub(super) fn open(space: String, config: QueueConfig) -> Self {
        let fault = FAULT.get();
        let space = match space.strip_suffix("-other") {
            Some(one) if fault == Some(Fault::SpacesAreOne) => one.to_owned(),
            _ => space,
        };
        let (lease, attempts) = (config.lease(), config.max_attempts());
        let config = match fault {
            Some(Fault::JobsDieEarly) => config.with_max_attempts(attempts - 1),
            Some(Fault::JobsDieLate) => config.with_max_attempts(attempts + 1),
            Some(Fault::LeasesNeverRunOut) => config.with_lease(lease * 1_000_000),
            _ => config,
        };
        let space = Arc::clone(lock(&SPACES).entry(space).or_default());
        Self { space, config, fault, own: store::Notes::default() }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// What becomes of a name that is given in.
    pub(super) fn name(&self, name: &str) -> String {
        match self.fault {
            Some(Fault::NamesIgnoreCase) => name.to_lowercase(),
            Some(Fault::AnyNameIsTaken) => {
                let good = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
                format!("n{}", name.chars().take(200).map(good).collect::<String>())
            }
            _ => name.to_owned(),
        }
    }

    /// What becomes of bytes that are given in, where `limit` of them fit.
    pub(super) fn bytes(&self, bytes: Bytes, limit: usize) -> Result<Bytes> {
        let cut = |bytes: Bytes| bytes.slice(..bytes.len().min(limit));
        match self.fault {
            Some(Fault::BytesAreText) => Ok(cut(String::from_utf8_lossy(&bytes).into_owned().into())),
            Some(Fault::LargeIsCut) => Ok(cut(bytes)),
            Some(Fault::LittleFits) if bytes.len() > 1023 => {
                Err(Error::TooLarge { place: "next to nothing", bytes: bytes.len(), limit: 1023 })
            }
            _ => Ok(bytes),
        }
    }

    /// What becomes of how many are asked for.
    pub(super) fn limit(&self, limit: usize) -> usize {
        if self.has(Fault::LimitsAreIgnored) { 1_000_000 } else { limit }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
