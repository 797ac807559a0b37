//! The replicas' scenarios, over a backend in memory.

use antiphon_store::{Memory, QueueConfig};

use crate::replicas::{Opener, scenarios};

pub(crate) fn memory() -> Opener {
    let memory = Memory::default();
    Opener::new(move || {
        let memory = memory.clone();
        async move { memory.backend(QueueConfig::default()) }
    })
}

scenarios!(Some(memory()));
