//! The laws of a store of result sets, and who keeps them.

mod broken;
mod counted;
mod shared;

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_results::store::{ResourceStore, SharedStore};
use antiphon_store::{
    Backend, Memory, QueueConfig,
    conformance::service,
    flaky::{Flaky, FlakyConfig},
};

/// Opens a space of the server that a variable names.
async fn connect(variable: &str, space: &str) -> Option<Backend> {
    let url = service(variable)?;
    Some(
        Backend::connect(&url, space, QueueConfig::default())
            .await
            .expect("the test server takes connections"),
    )
}

/// Opening memory twice means to find the same again.
fn memory(space: &str) -> Memory {
    static SPACES: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);
    lock(&SPACES).entry(space.to_owned()).or_default().clone()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a law on a clock that runs ahead when all wait: what is lost for a minute is back at once.
fn run_paused(law: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(async {
        let ended = tokio::time::timeout(Duration::from_secs(600), law).await;
        assert!(ended.is_ok(), "the law has not ended within ten minutes");
    });
}

/// In one process, without an engine.
mod memory_store {
    use antiphon_results::store::MemoryStore;

    use super::{Arc, HashMap, LazyLock, Mutex, ResourceStore, lock};

    async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
        static SPACES: LazyLock<Mutex<HashMap<String, Arc<MemoryStore>>>> = LazyLock::new(Mutex::default);
        let store = Arc::clone(lock(&SPACES).entry(space).or_default());
        Some(store)
    }

    antiphon_results::resource_store_laws!(open);
}

mod on_memory {
    use super::{Arc, QueueConfig, ResourceStore, SharedStore, memory};

    async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
        Some(Arc::new(SharedStore::new(memory(&space).backend(QueueConfig::default()))))
    }

    antiphon_results::resource_store_laws!(open);
}

/// Over a connection that fails, delays and lies.
mod on_flaky_memory {
    use super::{
        Arc, Backend, Flaky, FlakyConfig, QueueConfig, ResourceStore, SharedStore, memory, run_paused,
    };

    async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
        // Each opening has faults of its own.
        static OPENINGS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let seed = OPENINGS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let memory = memory(&space);
        let store = Flaky::new(Arc::new(memory.store()), FlakyConfig::seeded(seed));
        let backend = Backend::new(store, memory.queue(QueueConfig::default()), memory.bus());
        Some(Arc::new(SharedStore::new(backend)))
    }

    antiphon_results::resource_store_laws!(open, run_paused);
}

mod on_postgres {
    use super::{Arc, ResourceStore, SharedStore, connect};

    async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
        Some(Arc::new(SharedStore::new(connect("ANTIPHON_TEST_POSTGRES_URL", &space).await?)))
    }

    antiphon_results::resource_store_laws!(open);
}

mod on_redis {
    use super::{Arc, ResourceStore, SharedStore, connect};

    async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
        Some(Arc::new(SharedStore::new(connect("ANTIPHON_TEST_REDIS_URL", &space).await?)))
    }

    antiphon_results::resource_store_laws!(open);
}

mod on_nats {
    use super::{Arc, ResourceStore, SharedStore, connect};

    async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
        Some(Arc::new(SharedStore::new(connect("ANTIPHON_TEST_NATS_URL", &space).await?)))
    }

    antiphon_results::resource_store_laws!(open);
}
