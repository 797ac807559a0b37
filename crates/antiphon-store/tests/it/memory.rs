//! The laws, kept by the memory of one process.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use antiphon_store::{Backend, Memory, QueueConfig};

/// Opening memory twice means to find the same again.
static SPACES: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);

async fn open(space: String, config: QueueConfig) -> Option<Backend> {
    let mut spaces = SPACES.lock().expect("no test panics while it holds the lock");
    Some(spaces.entry(space).or_default().backend(config))
}

antiphon_store::backend_laws!(open);
