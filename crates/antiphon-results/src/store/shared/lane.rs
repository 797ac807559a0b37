//! Writes updates in batches: if several updates of a result set arrive during a write, the next write contains all of
//! them.

use std::{
    collections::HashMap,
    error::Error as StdError,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon_store::Revision;
use tokio::sync::oneshot;

use super::{
    Shared,
    again::{Attempts, random_name},
    record::{Id, Kept, Mark, Set, backstop, check_size},
    storage,
};
use crate::{
    error::{DualResponseError, Result},
    store::{Resource, ResourceUpdate},
};

/// The updates that wait to be written. The map key is the ID of the result set. A result set has a lane (an entry)
/// while a task writes the updates of the set.
#[derive(Debug)]
pub(super) struct Lanes {
    waiting: Mutex<HashMap<String, Vec<Waiting>>>,
    /// Name of this writer, which is part of the marks of the writer.
    writer: String,
    /// Number of batches of updates that this process has written so far.
    batches: AtomicU64,
}

#[derive(Debug)]
struct Waiting {
    update: ResourceUpdate,
    answer: oneshot::Sender<Outcome>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { waiting: Mutex::default(), writer: random_name(), batches: AtomicU64::new(0) }
    }
}

impl Lanes {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an update. Returns `true` if no task writes the updates of this result set yet. If the method returns
    /// `true`, the caller must start a task that writes the updates.
    fn join(&self, id: &str, waiting: Waiting) -> bool {
        let mut lanes = self.waiting();
        match lanes.get_mut(id) {
            Some(lane) => {
                lane.push(waiting);
                false
            }
            None => lanes.insert(id.to_owned(), vec![waiting]).is_none(),
        }
    }

    /// Removes the waiting updates from the lane and returns them. If no updates are waiting, removes the lane.
    fn take(&self, id: &str) -> Option<Vec<Waiting>> {
        let mut lanes = self.waiting();
        let batch = lanes.get_mut(id).map(std::mem::take).filter(|batch| !batch.is_empty());
        if batch.is_none() {
            lanes.remove(id);
        }
        batch
    }

    fn next(&self) -> Mark {
        Mark { writer: self.writer.clone(), number: self.batches.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Shared {
    /// Applies an update together with concurrent updates, and returns after the update is written.
    ///
    /// A separate task writes the updates, so that a cancelled caller does not cancel the updates of other callers.
    pub(super) async fn change(
        self: &Arc<Self>,
        id: Id<'_>,
        update: ResourceUpdate,
    ) -> Result<Option<Resource>> {
        let (answer, answered) = oneshot::channel();
        if self.lanes.join(id.0, Waiting { update, answer }) {
            let lane = Lane { shared: Arc::clone(self), id: id.0.to_owned(), ended: false };
            tokio::spawn(lane.run());
        }
        match answered.await {
            Ok(outcome) => outcome.answer(),
            Err(_) => Err(storage("the background task that writes updates has stopped")),
        }
    }
}

/// The task that writes the updates of one result set until no update is waiting.
struct Lane {
    shared: Arc<Shared>,
    id: String,
    ended: bool,
}

impl Lane {
    async fn run(mut self) {
        let mut known = None;
        while let Some(batch) = self.shared.lanes.take(&self.id) {
            let (updates, answers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|waiting| (waiting.update, waiting.answer)).unzip();
            let outcomes = match self.write(&updates, &mut known).await {
                Ok(outcomes) => outcomes,
                Err(error) => failed(error, updates.len()),
            };
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // This send fails if the caller was cancelled, which is harmless.
                let _ = answer.send(outcome);
            }
        }
        self.ended = true;
    }

    /// Applies all updates of a batch in one write. `known` is the result set as this lane last wrote it.
    async fn write(
        &self,
        updates: &[ResourceUpdate],
        known: &mut Option<(Box<Set>, Revision)>,
    ) -> Result<Vec<Outcome>> {
        let id = Id(&self.id);
        let mark = self.shared.lanes.next();
        let mut outcomes = Vec::new();
        let mut attempts = Attempts::default();
        loop {
            let found = match known.take() {
                Some((set, revision)) => Some((Kept::Set(set), revision)),
                None => self.shared.read(id).await?,
            };
            let Some((Kept::Set(mut set), revision)) = found else {
                return Ok(updates.iter().map(|_| Outcome::Refused).collect());
            };
            if set.has(&mark) {
                // The write succeeded, but its response was lost. The last attempt succeeded. If an earlier attempt had
                // succeeded, the last attempt would have found the mark.
                *known = Some((set, revision));
                return Ok(outcomes);
            }
            outcomes = apply(updates, &mut set.resource);
            if !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Made(_))) {
                return Ok(outcomes);
            }
            set.leave(mark.clone());
            let ttl = backstop(&set.resource, self.shared.now());
            let kept = Kept::Set(set);
            match self.shared.store.update(&id.set(), kept.write()?, ttl, revision).await {
                Ok(revision) => {
                    *known = kept.into_set().map(|set| (set, revision));
                    return Ok(outcomes);
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// If a lane ends early, the waiting updates of the lane are dropped. The callers of dropped updates get an error and
/// do not wait forever.
impl Drop for Lane {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.lanes.waiting().remove(&self.id);
        }
    }
}

/// The response to the caller of one update.
#[derive(Clone, Debug)]
enum Outcome {
    /// The update was written. The `Resource` is the new state of the resource.
    Made(Arc<Resource>),
    /// The resource does not exist, or has expired.
    Refused,
    /// The resource would be too large after the update.
    TooLarge(String),
    Busy(Duration),
    Failed(Arc<dyn StdError + Send + Sync>),
}

impl Outcome {
    fn answer(self) -> Result<Option<Resource>> {
        match self {
            Self::Made(resource) => Ok(Some(Arc::unwrap_or_clone(resource))),
            Self::Refused => Ok(None),
            Self::TooLarge(why) => Err(DualResponseError::TooLarge(why)),
            Self::Busy(retry_after) => Err(DualResponseError::Busy { retry_after }),
            Self::Failed(source) => Err(storage(source)),
        }
    }
}

/// Returns the same error for all updates of a batch.
fn failed(error: DualResponseError, updates: usize) -> Vec<Outcome> {
    let outcome = match error {
        DualResponseError::Busy { retry_after } => Outcome::Busy(retry_after),
        DualResponseError::Storage(source) => Outcome::Failed(source.into()),
        other => Outcome::Failed(Arc::new(other)),
    };
    vec![outcome; updates]
}

/// Applies all updates in order, and returns the response for the caller of each update.
fn apply(updates: &[ResourceUpdate], resource: &mut Resource) -> Vec<Outcome> {
    let mut counted = Vec::new();
    let mut outcomes: Vec<_> = updates
        .iter()
        .enumerate()
        .map(|(at, update)| {
            if !is_only_accesses(update) {
                return apply_alone(update, resource);
            }
            if update.apply(resource) {
                counted.push(at);
            }
            Outcome::Refused
        })
        .collect();
    if !counted.is_empty() {
        // All readers share one copy, so that many readers of a large preview do not need many copies.
        let counted_in = Arc::new(resource.clone());
        for at in counted {
            outcomes[at] = Outcome::Made(Arc::clone(&counted_in));
        }
    }
    outcomes
}

/// Applies an update that can make the resource larger. If the resource becomes too large, only this update fails, and
/// the other updates of the batch must not fail.
fn apply_alone(update: &ResourceUpdate, resource: &mut Resource) -> Outcome {
    let mut changed = resource.clone();
    if !update.apply(&mut changed) {
        return Outcome::Refused;
    }
    match check_size(&changed) {
        Ok(()) => {
            *resource = changed.clone();
            Outcome::Made(Arc::new(changed))
        }
        Err(DualResponseError::TooLarge(why)) => Outcome::TooLarge(why),
        Err(error) => Outcome::Failed(Arc::new(error)),
    }
}

fn is_only_accesses(update: &ResourceUpdate) -> bool {
    let ResourceUpdate {
        at: _,
        accesses: _,
        lives_until: _,
        expires_at,
        name,
        metadata,
        revoke_links,
        snapshot,
    } = update;
    expires_at.is_none() && name.is_none() && metadata.is_none() && !revoke_links && snapshot.is_none()
}
