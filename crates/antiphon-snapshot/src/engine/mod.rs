//! The resources that all queries of a process share: memory, disk space, threads and turns. A *turn* is the
//! permission to run one query.
//!
//! Query plans run on separate [threads](run::Threads). Only requests to the object store run on the server's threads.

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

/// The number of rows that the query engine processes in one batch.
pub(crate) const BATCH_ROWS: usize = 8192;

/// The maximum time to wait for a turn. If no turn is free within the maximum time, the call returns an error with a
/// retry time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of threads for one query. The number of threads is fixed, so that a query uses the same memory on every
/// machine.
pub(crate) const PARTITIONS: usize = 2;

/// The maximum number of threads for queries.
const MAX_THREADS: usize = 64;

/// The resources that all queries of a process share.
pub(crate) struct Engine {
    runtime: Arc<RuntimeEnv>,
    pool_bytes: usize,
    pub(crate) time: Duration,
    pub(crate) threads: Threads,
    turns: Arc<Semaphore>,
    turns_per_tenant: usize,
    /// One semaphore for each tenant with running or waiting queries. The map key is `SnapshotId::share`.
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// Views that are being created.
    pub(crate) flights: Flights,
}

/// The permission to run a query. When the `Turn` is dropped, the next query can start.
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

    /// Waits for a turn for this tenant. The maximum wait is [`PATIENCE`] or the time limit of queries, whichever is
    /// shorter.
    pub(crate) async fn turn(&self, tenant: &str) -> Result<Turn, DualResponseError> {
        let of_tenant = self.turns_of(tenant);
        let both = async {
            // A query takes the tenant's permit first, so that waiting queries of one tenant do not block other
            // tenants.
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
        // Remove semaphores of tenants without queries.
        tenants.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.turns_per_tenant));
        tenants.insert(tenant.into(), Arc::downgrade(&turns));
        turns
    }

    /// Returns a planner without any default tables or files. If a plan has only one partition, the rows keep their
    /// order.
    pub(crate) fn state(&self, partitions: usize) -> SessionState {
        let mut config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(BATCH_ROWS)
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false)
            // Reserve memory for the final merge of spilled data when the sort starts.
            .with_sort_spill_reservation_bytes(self.pool_bytes / 8);
        let options = config.options_mut();
        options.execution.parquet.schema_force_view_types = false;
        options.sql_parser.map_string_types_to_utf8view = false;
        SessionStateBuilder::new().with_config(config).with_runtime_env(Arc::clone(&self.runtime)).build()
    }

    /// Returns the maximum number of bytes that one call of an SQL function can produce for one batch.
    pub(crate) fn call_bytes(&self) -> usize {
        self.pool_bytes / 8
    }

    /// Returns the number of bytes that queries currently use in the memory pool.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.runtime.memory_pool.reserved()
    }

    /// Returns the number of free turns.
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

/// A registry without object stores, which rejects every address, even a path on the local disk.
#[derive(Debug)]
struct NoStores;

impl ObjectStoreRegistry for NoStores {
    fn register_store(&self, _url: &Url, _store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, _url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        exec_err!("a query cannot read files or URLs")
    }
}
