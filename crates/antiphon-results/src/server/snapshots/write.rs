//! Rows on their way into a snapshot, in a task of their own.

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

/// How often it is tried to say how it ended, while the store of sets fails.
const TRIES: u32 = 6;

/// Why a write is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The set is gone.
    Gone,
    /// This server goes.
    Shutdown,
    /// Whoever had it made has gone before they heard of it.
    Unanswered,
}

/// The writes of this process, by set.
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

    /// Begins a write. How it ends is told to whoever still waits; dropping that does not end it, but dropping the
    /// other does.
    pub(super) fn begin(
        &self,
        write: Write,
        rest: Rest,
    ) -> (oneshot::Receiver<Result<Resource>>, Unanswered) {
        let (told, ended) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (writes, set) = (self.clone(), write.id.set.clone());
        // Invariant: the task cannot forget itself before it is known, because the lock is held until it is.
        let unanswered = Unanswered { writes: self.clone(), set: Some(set.clone()) };
        let mut ongoing = self.ongoing();
        let task = tokio::spawn(async move {
            let set = write.id.set.clone();
            let outcome = write.run(rest, stopped).await;
            writes.ongoing().remove(&set);
            // Nobody may wait any more.
            let _ = told.send(outcome);
        });
        ongoing.insert(set, Ongoing { stop, task });
        (ended, unanswered)
    }

    /// Ends the write of a set, if it is one of ours, and returns when it has.
    pub(super) async fn stop(&self, set: &str, why: Stop) {
        let ongoing = self.ongoing().remove(set);
        if let Some(Ongoing { stop, task }) = ongoing {
            let _ = stop.send(why);
            let _ = task.await;
        }
    }

    /// Ends all of them.
    pub(super) async fn stop_all(&self, why: Stop) {
        let sets: Vec<String> = self.ongoing().keys().cloned().collect();
        for set in sets {
            self.stop(&set, why).await;
        }
    }
}

/// A write of which nobody has heard yet. If nobody ever will, it ends.
pub(super) struct Unanswered {
    writes: Writes,
    set: Option<String>,
}

impl Unanswered {
    /// Somebody hears of it.
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

/// What writes the rows that are still to come.
type Rest = BoxFuture<'static, Result<Written>>;

/// A snapshot that is being written.
pub(super) struct Write {
    pub(super) id: SnapshotId,
    pub(super) store: Arc<dyn ResourceStore>,
    pub(super) snapshots: Arc<dyn SnapshotStore>,
    pub(super) clock: Clock,
    pub(super) beat: Duration,
    pub(super) state: SnapshotState,
    pub(super) progress: watch::Receiver<Progress>,
    /// How much of what its tenant may have it takes meanwhile.
    pub(super) share: Share,
    /// Held for as long as rows are written.
    pub(super) place: OwnedSemaphorePermit,
}

impl Write {
    /// Writes the rest, says how far it is meanwhile, and how it ended.
    async fn run(mut self, rest: Rest, mut stopped: oneshot::Receiver<Stop>) -> Result<Resource> {
        // A source is code of others.
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

    /// Says how far it is. `false`: the set is gone, or somebody gave this write up.
    async fn say(&mut self) -> bool {
        let Progress { rows, bytes } = self.progress();
        let update = self.update(Phase::Writing, rows, bytes);
        match self.store.update(&self.id.set, ResourceUpdate::at((self.clock)()).with_snapshot(update)).await
        {
            Ok(Some(resource)) => resource.snapshot.is_some_and(|state| state.phase == Phase::Writing),
            Ok(None) => false,
            // Whoever reads decides when it was silent for too long.
            Err(error) => {
                tracing::warn!(id = self.id.set, %error, "how far a snapshot is could not be said");
                true
            }
        }
    }

    /// All rows are there.
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
            // Nobody will ever read it: the set is gone, or somebody gave this write up before it was through.
            Ok(_) => self.remove().await,
            // Somebody may: whether it was said is not known. If it was not, the set fails and is swept away.
            Err(error) => return Err(error),
        }
        Err(DualResponseError::NotFound)
    }

    /// It will not be.
    async fn failed(&mut self, error: DualResponseError) -> Result<Resource> {
        let Progress { rows, bytes } = self.progress();
        tracing::warn!(id = self.id.set, rows, error = chain(&error), "a snapshot failed");
        let update = self.update(Phase::Failed { reason: reason(&error, rows) }, rows, bytes);
        if let Err(error) = self.end(update).await {
            tracing::warn!(id = self.id.set, %error, "that a snapshot failed could not be said");
        }
        self.remove().await;
        Err(error)
    }

    async fn stopped(&mut self, why: Stop) -> Result<Resource> {
        if why == Stop::Unanswered
            && let Err(error) = self.store.delete(&self.id.set, Removal::Deleted).await
        {
            tracing::warn!(id = self.id.set, %error, "a set that nobody heard of could not be deleted; it will fail");
        }
        if why == Stop::Shutdown {
            let Progress { rows, bytes } = self.progress();
            let reason = "the server was shut down before all rows were saved; run the query again".into();
            let update = self.update(Phase::Failed { reason }, rows, bytes);
            if let Err(error) = self.end(update).await {
                tracing::warn!(id = self.id.set, %error, "that a snapshot was given up could not be said");
            }
        }
        self.remove().await;
        Err(DualResponseError::NotFound)
    }

    /// Says how it ended, and tries again while the store fails.
    async fn end(&self, update: SnapshotUpdate) -> Result<Option<Resource>> {
        let mut tried = 0;
        loop {
            let update = ResourceUpdate::at((self.clock)()).with_snapshot(update.clone());
            match self.store.update(&self.id.set, update).await {
                Err(error) if tried < TRIES => {
                    tracing::warn!(id = self.id.set, %error, "how a snapshot ended could not be said; trying again");
                    tokio::time::sleep(Duration::from_millis(100) * 2_u32.pow(tried)).await;
                    tried += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn remove(&self) {
        if let Err(error) = self.snapshots.delete(&self.id).await {
            tracing::warn!(id = self.id.set, %error, "a snapshot could not be removed; a sweep will");
        }
    }
}

/// Why it failed, for people: what is from inside stays inside.
fn reason(error: &DualResponseError, rows: u64) -> String {
    match error {
        DualResponseError::Query(_) | DualResponseError::Count(_) => {
            format!("the source of the rows failed after {rows} rows; run the query again")
        }
        DualResponseError::Timeout { .. } => "the rows took too long; ask for fewer".into(),
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
