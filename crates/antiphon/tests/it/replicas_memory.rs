//! The replicas' scenarios, over a backend in memory.

use antiphon_store::{Memory, QueueConfig};

use crate::replicas::{Opener, scenarios};

fn memory() -> std::future::Ready<Option<Opener>> {
    let memory = Memory::default();
    std::future::ready(Some(Opener::new(move || {
        let memory = memory.clone();
        async move { memory.backend(QueueConfig::default()) }
    })))
}

scenarios!(memory());
