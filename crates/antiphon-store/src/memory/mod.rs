//! A backend in the memory of one process, for tests, for development, and for a server without replicas.

mod bus;
mod queue;
mod store;

pub use self::{bus::MemoryBus, queue::MemoryQueue, store::MemoryStore};
use crate::{backend::Backend, queue::QueueConfig};

/// A backend in the memory of this process. All clones of a `Memory` share the data. The data is dropped with the last
/// clone.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    store: MemoryStore,
    jobs: queue::Jobs,
    bus: MemoryBus,
}

impl Memory {
    /// Returns the store for records and logs.
    pub fn store(&self) -> MemoryStore {
        self.store.clone()
    }

    /// Returns the queue for jobs.
    pub fn queue(&self, config: QueueConfig) -> MemoryQueue {
        MemoryQueue::over(queue::Jobs::clone(&self.jobs), config)
    }

    /// Returns the bus for events.
    pub fn bus(&self) -> MemoryBus {
        self.bus.clone()
    }

    /// Returns the store, the queue and the bus as a [`Backend`].
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}
