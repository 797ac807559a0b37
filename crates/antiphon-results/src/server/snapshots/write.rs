//! Writes rows into a snapshot, in a separate Tokio task.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

use super::usage::Share;

use crate::{
    error::{DualResponseError, Result},
    server::options::Clock,
    snapshot::{Phase, Progress, SnapshotId, SnapshotState, SnapshotStore, Written},
    store::{Removal, Resource, ResourceStore, ResourceUpdate, SnapshotUpdate},
};

/// Maximum number of retries if the store of result sets cannot record that a write is complete or has failed.
const TRIES: u32 = 6;

/// The reason for stopping a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The result set was removed.
    Gone,
    /// The server is shutting down.
    Shutdown,
    /// The caller was cancelled before it received the response.
    Unanswered,
}

/// The snapshot writes that this process runs. The map key is the ID of the result set.
#[derive(Clone, Default)]
pub(crate) struct Writes(Arc<Mutex<HashMap<String, Ongoing>>>);

struct Ongoing {
    stop: oneshot::Sender<Stop>,
    task: JoinHandle<()>,
}

impl Writes {
    fn ongoing(&self) -> MutexGuard<'_, HashMap<String, Ongoing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a write. The returned receiver gets the result set or an error when the write ends. Dropping the receiver
    /// does not stop the write. Dropping `Unanswered` stops the write.
    pub(super) fn begin(
        &self,
        write: Write,
        rest: Rest,
    ) -> (oneshot::Receiver<Result<Resource>>, Unanswered) {
        let (told, ended) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (writes, set) = (self.clone(), write.id.set.clone());
        // Invariant: the lock is held until the task is registered, so that the task cannot remove its entry before
        // the entry exists.
        let unanswered = Unanswered { writes: self.clone(), set: Some(set.clone()) };
        let mut ongoing = self.ongoing();
        let task = tokio::spawn(async move {
            let set = write.id.set.clone();
            let outcome = write.run(rest, stopped).await;
            writes.ongoing().remove(&set);
            // The receiver may have been dropped.
            let _ = told.send(outcome);
        });
        ongoing.insert(set, Ongoing { stop, task });
        (ended, unanswered)
    }

    /// Stops the write of a result set if this process runs the write. Returns when the write has ended.
    pub(super) async fn stop(&self, set: &str, why: Stop) {
        let ongoing = self.ongoing().remove(set);
        if let Some(Ongoing { stop, task }) = ongoing {
            let _ = stop.send(why);
            let _ = task.await;
        }
    }

    /// Stops all snapshot writes of this process.
    pub(super) async fn stop_all(&self, why: Stop) {
        let sets: Vec<String> = self.ongoing().keys().cloned().collect();
        for set in sets {
            self.stop(&set, why).await;
        }
    }
}

/// A write whose caller has no response yet. If the `Unanswered` value is dropped, the write stops.
pub(super) struct Unanswered {
    writes: Writes,
    set: Option<String>,
}

impl Unanswered {
    /// Records that the caller gets a response. After this call, dropping the `Unanswered` value does not stop the
    /// write.
    pub(super) fn answered(mut self) {
        self.set = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(set) = &self.set
            && let Some(Ongoing { stop, .. }) = self.writes.ongoing().remove(set)
        {
            let _ = stop.send(Stop::Unanswered);
        }
    }
}

/// A future that writes the remaining rows.
type Rest = BoxFuture<'static, Result<Written>>;

/// A snapshot write in progress.
pub(super) struct Write {
    pub(super) id: SnapshotId,
    pub(super) store: Arc<dyn ResourceStore>,
    pub(super) snapshots: Arc<dyn SnapshotStore>,
    pub(super) clock: Clock,
    pub(super) beat: Duration,
    pub(super) state: SnapshotState,
    pub(super) progress: watch::Receiver<Progress>,
    /// Bytes of this write, which count toward the usage of the owner's share.
    pub(super) share: Share,
    /// Slot for snapshot writes, which is held while rows are written.
    pub(super) place: OwnedSemaphorePermit,
}

impl Write {
    /// Writes the remaining rows, and stores the progress. At the end, stores whether the write succeeded.
    async fn run(mut self, rest: Rest, mut stopped: oneshot::Receiver<Stop>) -> Result<Resource> {
        // A source is external code and can panic.
        let mut rest = AssertUnwindSafe(rest).catch_unwind();
        let mut beat = Instant::now() + self.beat;
        let outcome = loop {
            tokio::select! {
                outcome = &mut rest => break match outcome {
                    Ok(outcome) => outcome,
                    Err(_) => Err(DualResponseError::Query("the source panicked".into())),
                },
                Ok(why) = &mut stopped => {
                    drop(rest);
                    return self.stopped(why).await;
                }
                Ok(()) = self.progress.changed() => {
                    let bytes = self.progress.borrow_and_update().bytes;
                    if let Err(error) = self.share.grow(&*self.snapshots, bytes).await {
                        break Err(error);
                    }
                }
                () = tokio::time::sleep_until(beat) => {
                    if !self.say().await {
                        drop(rest);
                        return self.stopped(Stop::Gone).await;
                    }
                    beat = Instant::now() + self.beat;
                }
            }
        };
        drop(rest);
        let resource = match outcome {
            Ok(written) => self.written(written).await,
            Err(error) => self.failed(error).await,
        };
        drop(self.place);
        resource
    }

    fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    fn update(&mut self, phase: Phase, rows: u64, bytes: u64) -> SnapshotUpdate {
        self.state.phase = phase;
        self.state.heard_at = (self.clock)();
        SnapshotUpdate::new(self.state.clone(), rows, bytes)
    }

    /// Stores the progress as a heartbeat. Returns `false` if the result set was removed, or if another process has
    /// marked this write as failed.
    async fn say(&mut self) -> bool {
        let Progress { rows, bytes } = self.progress();
        let update = self.update(Phase::Writing, rows, bytes);
        match self.store.update(&self.id.set, ResourceUpdate::at((self.clock)()).with_snapshot(update)).await
        {
            Ok(Some(resource)) => resource.snapshot.is_some_and(|state| state.phase == Phase::Writing),
            Ok(None) => false,
            // The write continues, because the readers of the result set decide when the last heartbeat is too old.
            Err(error) => {
                tracing::warn!(id = self.id.set, %error, "the progress of a snapshot could not be stored");
                true
            }
        }
    }

    /// Stores that all rows of the snapshot are written.
    async fn written(&mut self, written: Written) -> Result<Resource> {
        self.state.digest = Some(written.digest);
        self.state.truncated = written.truncated;
        let update = self.update(Phase::Ready, written.rows, written.bytes).with_columns(written.columns);
        let said = self.end(update).await;
        let ready =
            |resource: &Resource| resource.snapshot.as_ref().is_some_and(|state| state.phase == Phase::Ready);
        match said {
            Ok(Some(resource)) if ready(&resource) => {
                self.share.keep(written.bytes);
                return Ok(resource);
            }
            // The set was removed, or another process has marked this write as failed. So no reader can use the rows.
            Ok(_) => self.remove().await,
            // The store possibly recorded that the snapshot is complete, so readers possibly use the rows. If the store
            // did not record this, the result set fails later, and a sweep removes the rows.
            Err(error) => return Err(error),
        }
        Err(DualResponseError::NotFound)
    }

    /// Stores that the write of the snapshot failed.
    async fn failed(&mut self, error: DualResponseError) -> Result<Resource> {
        let Progress { rows, bytes } = self.progress();
        tracing::warn!(id = self.id.set, rows, error = chain(&error), "a snapshot could not be saved");
        let update = self.update(Phase::Failed { reason: reason(&error, rows) }, rows, bytes);
        if let Err(error) = self.end(update).await {
            tracing::warn!(id = self.id.set, %error, "the failure of a snapshot could not be stored");
        }
        self.remove().await;
        Err(error)
    }

    async fn stopped(&mut self, why: Stop) -> Result<Resource> {
        if why == Stop::Unanswered
            && let Err(error) = self.store.delete(&self.id.set, Removal::Deleted).await
        {
            tracing::warn!(id = self.id.set, %error, "an unused result set could not be deleted; it will be marked as failed");
        }
        if why == Stop::Shutdown {
            let Progress { rows, bytes } = self.progress();
            let reason = "the server was shut down before all rows were saved; run the query again".into();
            let update = self.update(Phase::Failed { reason }, rows, bytes);
            if let Err(error) = self.end(update).await {
                tracing::warn!(id = self.id.set, %error, "the cancellation of a snapshot at shutdown could not be stored");
            }
        }
        self.remove().await;
        Err(DualResponseError::NotFound)
    }

    /// Stores that a write is complete or has failed, and retries if the store of result sets fails.
    async fn end(&self, update: SnapshotUpdate) -> Result<Option<Resource>> {
        let mut tried = 0;
        loop {
            let update = ResourceUpdate::at((self.clock)()).with_snapshot(update.clone());
            match self.store.update(&self.id.set, update).await {
                Err(error) if tried < TRIES => {
                    tracing::warn!(id = self.id.set, %error, "the outcome of a snapshot could not be stored; retrying");
                    tokio::time::sleep(Duration::from_millis(100) * 2_u32.pow(tried)).await;
                    tried += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn remove(&self) {
        if let Err(error) = self.snapshots.delete(&self.id).await {
            tracing::warn!(id = self.id.set, %error, "a snapshot could not be removed; the next sweep removes it");
        }
    }
}

/// Returns the reason for a failed write as text for users, without internal details.
fn reason(error: &DualResponseError, rows: u64) -> String {
    match error {
        DualResponseError::Query(_) | DualResponseError::Count(_) => {
            format!("the source of the rows failed after {rows} rows; run the query again")
        }
        DualResponseError::Timeout { .. } => {
            "the source did not return all rows in time; request fewer rows".into()
        }
        DualResponseError::Invalid(text)
        | DualResponseError::TooLarge(text)
        | DualResponseError::Failed(text)
        | DualResponseError::Unsupported(text) => text.clone(),
        DualResponseError::Refused { reason, .. } => reason.clone(),
        _ => "the rows could not all be saved; try again".into(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
