//! The laws, kept by the memory of one process.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use antiphon_store::{Bus, Memory, Queue, QueueConfig, Store};

/// Opening memory twice means to find the same again.
static SPACES: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);

fn open(space: String) -> Memory {
    SPACES.lock().expect("no test panics while it holds the lock").entry(space).or_default().clone()
}

async fn store(space: String) -> Option<Arc<dyn Store>> {
    Some(Arc::new(open(space).store()))
}

async fn queue(space: String, config: QueueConfig) -> Option<Arc<dyn Queue>> {
    Some(Arc::new(open(space).queue(config)))
}

async fn bus(space: String) -> Option<Arc<dyn Bus>> {
    Some(Arc::new(open(space).bus()))
}

antiphon_store::store_laws!(store);
antiphon_store::queue_laws!(queue);
antiphon_store::bus_laws!(bus);

mod flaky {
    antiphon_store::store_laws!(flaky super::store);
    antiphon_store::queue_laws!(flaky super::queue);
    antiphon_store::bus_laws!(flaky super::bus);
}
