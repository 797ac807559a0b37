//! In the memory of one process: for tests, for development, and for a server that has no replicas.

mod bus;
mod queue;
mod store;

pub use self::{bus::MemoryBus, queue::MemoryQueue, store::MemoryStore};
use crate::{backend::Backend, queue::QueueConfig};

/// A backend in the memory of this process. Clones share it; nothing outlives the last of them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    store: MemoryStore,
    jobs: queue::Jobs,
    bus: MemoryBus,
}

impl Memory {
    /// Where records and logs are kept.
    pub fn store(&self) -> MemoryStore {
        self.store.clone()
    }

    /// Where jobs wait for workers.
    pub fn queue(&self, config: QueueConfig) -> MemoryQueue {
        MemoryQueue::over(queue::Jobs::clone(&self.jobs), config)
    }

    /// Where replicas tell each other.
    pub fn bus(&self) -> MemoryBus {
        self.bus.clone()
    }

    /// All three.
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}
