//! What all queries of a process share: memory, room on disk, threads and turns.
//!
//! Plans run on [threads](run::Threads) of their own, and only the requests to the object store run on the server's.

mod flight;
pub(crate) mod refusal;
mod run;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use antiphon_results::DualResponseError;
use datafusion::{
    common::exec_err,
    error::DataFusionError,
    execution::{
        SessionState, SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::FairSpillPool,
        object_store::ObjectStoreRegistry,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionConfig,
};
use object_store::ObjectStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

pub(crate) use self::run::Running;
use self::{flight::Flights, run::Threads};
use crate::{
    config::SnapshotConfig,
    error::{Error, Result},
};

/// How many rows go through the engine at a time.
pub(crate) const BATCH_ROWS: usize = 8192;

/// How long somebody waits in line before being told to come back.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many threads work on one query. Fixed, so that what fits into the pool on one machine fits on another.
pub(crate) const PARTITIONS: usize = 2;

/// The most threads of queries, however many queries run at once.
const MAX_THREADS: usize = 64;

/// What queries of one process share: memory, room on disk, threads, turns.
pub(crate) struct Engine {
    runtime: Arc<RuntimeEnv>,
    pool_bytes: usize,
    pub(crate) time: Duration,
    pub(crate) threads: Threads,
    turns: Arc<Semaphore>,
    turns_per_tenant: usize,
    /// Those of tenants that have any at the moment, by `SnapshotId::share`.
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// Views that are being made.
    pub(crate) flights: Flights,
}

/// A turn. Whoever drops it lets the next one in.
#[derive(Debug)]
pub(crate) struct Turn {
    _process: OwnedSemaphorePermit,
    _tenant: OwnedSemaphorePermit,
}

impl Engine {
    pub(crate) fn new(config: &SnapshotConfig) -> Result<Self> {
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::OsTmpDirectory)
            .with_max_temp_directory_size(config.spill_bytes);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(config.pool_bytes)))
            .with_disk_manager_builder(disk)
            .with_object_store_registry(Arc::new(NoStores))
            .build_arc()
            .map_err(|error| Error::Broken(error.into()))?;
        Ok(Self {
            runtime,
            pool_bytes: config.pool_bytes,
            time: config.query_time,
            threads: Threads::new(config.queries.max(1).saturating_mul(PARTITIONS).min(MAX_THREADS)),
            turns: Arc::new(Semaphore::new(config.queries.max(1))),
            turns_per_tenant: config.queries_per_tenant.max(1),
            tenants: Mutex::default(),
            flights: Flights::default(),
        })
    }

    /// Waits for a turn of those who share it, a short while.
    pub(crate) async fn turn(&self, tenant: &str) -> Result<Turn, DualResponseError> {
        let of_tenant = self.turns_of(tenant);
        let both = async {
            // The tenant's first: whoever has too many stands in nobody else's way.
            let tenant = of_tenant.acquire_owned().await?;
            let process = Arc::clone(&self.turns).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>(Turn { _process: process, _tenant: tenant })
        };
        match tokio::time::timeout(PATIENCE.min(self.time), both).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) | Err(_) => Err(DualResponseError::Busy { retry_after: Duration::from_secs(2) }),
        }
    }

    fn turns_of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = tenants.get(tenant).and_then(Weak::upgrade) {
            return turns;
        }
        // Nobody's turns are kept for those who have none.
        tenants.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.turns_per_tenant));
        tenants.insert(tenant.into(), Arc::downgrade(&turns));
        turns
    }

    /// A planner that knows nothing but what it is given. With one partition rows keep their order.
    pub(crate) fn state(&self, partitions: usize) -> SessionState {
        let mut config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(BATCH_ROWS)
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false)
            // What a merge of spilled runs needs at the end must be there when it begins.
            .with_sort_spill_reservation_bytes(self.pool_bytes / 8);
        let options = config.options_mut();
        options.execution.parquet.schema_force_view_types = false;
        options.sql_parser.map_string_types_to_utf8view = false;
        SessionStateBuilder::new().with_config(config).with_runtime_env(Arc::clone(&self.runtime)).build()
    }

    /// The most that one call of a function may make of one batch.
    pub(crate) fn call_bytes(&self) -> usize {
        self.pool_bytes / 8
    }

    /// How much of the pool is taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.runtime.memory_pool.reserved()
    }

    /// How many turns are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.turns.available_permits()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("pool_bytes", &self.pool_bytes)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// No address leads anywhere, not even to the local disk.
#[derive(Debug)]
struct NoStores;

impl ObjectStoreRegistry for NoStores {
    fn register_store(&self, _url: &Url, _store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, _url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        exec_err!("queries reach no files")
    }
}
