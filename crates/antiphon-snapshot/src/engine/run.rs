//! Runs query plans on separate threads, and sends the resulting batches of rows to the server's threads.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use antiphon_results::DualResponseError;
use arrow::record_batch::RecordBatch;
use futures_util::{TryStreamExt as _, stream::BoxStream};
use tokio::{
    runtime::{Handle, Runtime},
    sync::mpsc,
};
use tokio_util::task::AbortOnDropHandle;

use super::{Engine, Turn, refusal};
use crate::error::{Error, Result};

/// The time that a caller still waits for the current step of a plan after the time limit of the query.
const OVERTIME: Duration = Duration::from_secs(2);

/// The batches of rows that a running plan returns.
pub(crate) type PlanStream = BoxStream<'static, Result<RecordBatch, DualResponseError>>;

/// The threads that run queries. A step of a query cannot be interrupted, so each step blocks one of these threads and
/// not a thread of the server.
#[derive(Debug)]
pub(crate) struct Threads {
    count: usize,
    /// The Tokio runtime of the query threads. The value is `None` until the first query starts the threads.
    runtime: Mutex<Option<Runtime>>,
}

impl Threads {
    /// Prepares `count` threads for queries. The number of threads must be large enough for all concurrent queries.
    /// With enough threads, a query that blocks its threads does not block other queries.
    pub(crate) fn new(count: usize) -> Self {
        Self { count, runtime: Mutex::default() }
    }

    pub(crate) fn handle(&self) -> Result<Handle> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let started = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.count)
            .thread_name("antiphon-query")
            .enable_all()
            .build()
            .map_err(|error| Error::Broken(error.into()))?;
        Ok(runtime.insert(started).handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = runtime.take() {
            // The last handle can be dropped on any thread, even on a thread that must not block.
            runtime.shutdown_background();
        }
    }
}

/// A plan that is running. If you drop a `Running`, its plan stops at the end of the current step.
#[derive(Debug)]
pub(crate) struct Running {
    batches: mpsc::Receiver<RecordBatch>,
    /// The task that runs the plan. If the plan panics, this task returns an error.
    task: AbortOnDropHandle<Result<(), DualResponseError>>,
    begun: Instant,
    limit: Duration,
}

impl Running {
    /// Runs the plan that `open` returns. The turn of the query is held until the plan has stopped, even if no caller
    /// waits for the plan.
    pub(crate) fn start(
        engine: &Engine,
        turn: Arc<Turn>,
        begun: Instant,
        open: impl Future<Output = Result<PlanStream, DualResponseError>> + Send + 'static,
    ) -> Result<Self> {
        let limit = engine.time;
        let (sent, batches) = mpsc::channel(2);
        let work = async move {
            let _turn = turn;
            let forward = async {
                let mut made = open.await?;
                while let Some(batch) = made.try_next().await? {
                    if sent.send(batch).await.is_err() {
                        break;
                    }
                }
                Ok(())
            };
            let left = limit.saturating_sub(begun.elapsed());
            tokio::time::timeout(left, forward).await.unwrap_or_else(|_| Err(refusal::timeout(limit)))
        };
        let task = AbortOnDropHandle::new(engine.threads.handle()?.spawn(work));
        Ok(Self { batches, task, begun, limit })
    }

    /// Returns the next batch of rows from the plan. The plan checks the time limit between its steps. `next` also
    /// checks the time limit, because a single step of the plan can take too long.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, DualResponseError> {
        let left = (self.limit + OVERTIME).saturating_sub(self.begun.elapsed());
        let batch = tokio::time::timeout(left, self.batches.recv()).await;
        if let Some(batch) = batch.map_err(|_| refusal::timeout(self.limit))? {
            return Ok(Some(batch));
        }
        match (&mut self.task).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(Error::Broken(error.into()).into()),
        }
    }
}
