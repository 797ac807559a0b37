//! Checks that each replica has the encryption keys to read the records that the other replicas write.
//!
//! A running replica registers the fingerprints of its encryption keys in the record `rings/<audience>/<replica>`. A
//! replica becomes *established* when its key ring is compatible with the key rings of all established replicas. A
//! replica that is not established does not lease jobs and does not create tasks.
//!
//! So if you start a replica with a wrong key ring, only this replica does not execute tasks. The other replicas
//! continue to execute tasks, even after a restart. If no replica is established, the replica that started first
//! becomes established.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use tokio::time::Instant;

use antiphon_store::{Error as StoreError, Revision};
use serde::{Deserialize, Serialize};

use super::{Tasks, store::Unreadable};
use crate::base::{jitter, now_millis};

/// The interval at which a replica registers its key ring.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a registered key ring stays valid.
const LIVES: Duration = Duration::from_secs(20);

/// The interval at which an established replica compares its key ring with the key rings of the other replicas. This
/// interval is long, because some backends need much time to list records. A long interval is safe, because each new
/// replica compares its own key ring when the new replica starts.
const ESTABLISHED_INTERVAL: Duration = Duration::from_secs(60);

/// How long the creation of a task waits until this replica has compared its key ring for the first time.
const FIRST: Duration = Duration::from_secs(2);

/// If this replica cannot read this number of runs in a row, the replica stops leasing jobs for some time.
const IN_A_ROW: usize = 3;

/// The maximum time for which the replica leases no jobs after it could not read several runs.
const LONGEST: Duration = Duration::from_secs(60);

/// The reasons why a replica does not execute tasks.
#[derive(Debug, Default)]
pub(super) struct WorkBlockers {
    /// Whether the key rings have been compared at least once.
    compared: bool,
    /// The reason why this replica's key ring is not compatible with the key ring of another replica.
    ring: Option<String>,
    /// The record names of the most recent runs that this replica could not read because the encryption key is missing.
    /// A run that this replica can read empties this set.
    unreadable: BTreeSet<String>,
    /// The number of pauses since this replica could last read a run.
    tries: u32,
    reason: Option<Unreadable>,
    /// The end of the current pause. During a pause, the replica leases no jobs.
    until: Option<Instant>,
}

/// A registered key ring, which contains the fingerprints of the keys instead of the keys.
#[derive(Debug, Serialize, Deserialize)]
struct Ring {
    since: u64,
    replica: String,
    /// The fingerprints of the keys. The fingerprint of the active key is first.
    keys: Vec<String>,
    /// The time at which the replica became established. The value is `None` if the replica is not established.
    #[serde(default)]
    established: Option<u64>,
}

impl Ring {
    /// Returns the reason why this key ring is not compatible with the key ring `earlier`. Returns `None` if both key
    /// rings are compatible.
    fn misfit(&self, earlier: &Self) -> Option<String> {
        let (ours, theirs) = (self.keys.first()?, earlier.keys.first()?);
        if !self.keys.contains(theirs) {
            return Some(format!(
                "the key ring lacks the key that replica `{}` encrypts with; add it with `KeyRing::with_decryption_key`",
                earlier.replica
            ));
        }
        if !earlier.keys.contains(ours) {
            return Some(format!(
                "replica `{}` lacks the key that this replica encrypts with; first add it to every replica with `KeyRing::with_decryption_key`",
                earlier.replica
            ));
        }
        None
    }

    /// Returns the reason why this key ring is not compatible with the key rings of the other replicas. Returns `None`
    /// if all key rings are compatible. `key` and the strings in `others` are the names of the records that contain the
    /// key rings.
    fn misfits(&self, key: &str, others: &[(String, Self)]) -> Option<String> {
        let any_established = is_any_established(others);
        let counts = |(other_key, other): &&(String, Self)| match (other.established, self.established) {
            (Some(_), None) => true,
            (Some(theirs), Some(ours)) => (theirs, other_key.as_str()) < (ours, key),
            // If at least one replica is established, this code ignores replicas that are not established.
            (None, None) => !any_established && (other.since, other_key.as_str()) < (self.since, key),
            (None, Some(_)) => false,
        };
        others.iter().filter(counts).find_map(|(_, other)| self.misfit(other))
    }
}

fn is_any_established(key_rings: &[(String, Ring)]) -> bool {
    key_rings.iter().any(|(_, ring)| ring.established.is_some())
}

/// The data that a replica keeps between two comparisons of the key rings.
#[derive(Debug, Default)]
struct Comparison {
    /// The revision of the store record that contains this replica's key ring.
    held: Option<Revision>,
    established: Option<u64>,
    looked: Option<Instant>,
    /// The reason why the key ring was not compatible in the last comparison with an established replica. The value is
    /// `None` if the key ring was compatible.
    misfit: Option<String>,
    /// The time at which this replica first found no other established replica.
    alone: Option<Instant>,
}

impl Tasks {
    fn blockers(&self) -> std::sync::MutexGuard<'_, WorkBlockers> {
        self.blockers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if this replica must not lease jobs.
    pub(super) fn is_blocked(&self) -> bool {
        let blockers = self.blockers();
        (self.is_shared && !blockers.compared)
            || blockers.ring.is_some()
            || blockers.until.is_some_and(|until| until > Instant::now())
    }

    /// Returns `true` if this replica must not create tasks, because the other replicas could not read these tasks.
    pub(super) fn is_unfit(&self) -> bool {
        let blockers = self.blockers();
        (self.is_shared && !blockers.compared) || blockers.ring.is_some()
    }

    /// Waits until this replica has compared its key ring for the first time, but at most for the duration [`FIRST`].
    pub(super) async fn wait_for_comparison(&self) {
        let compared = self.compared.notified();
        if self.is_shared && !self.blockers().compared {
            let _ = tokio::time::timeout(FIRST, compared).await;
        }
    }

    /// Records that this replica could read a run.
    pub(super) fn readable(&self) {
        let mut blockers = self.blockers();
        blockers.unreadable.clear();
        (blockers.tries, blockers.reason, blockers.until) = (0, None, None);
    }

    /// Records that this replica could not read a run.
    ///
    /// If this replica cannot decrypt several runs in a row, the replica leases no jobs for some time, because other
    /// replicas may have the keys. A single run that this replica cannot decrypt does not cause a pause. A record in a
    /// newer format does not cause a pause either.
    pub(super) fn unreadable(&self, key: &str, reason: Unreadable) {
        if !matches!(reason, Unreadable::UnknownKey | Unreadable::WrongKey) {
            return;
        }
        let mut blockers = self.blockers();
        blockers.reason = Some(reason);
        if blockers.unreadable.len() < IN_A_ROW {
            blockers.unreadable.insert(key.to_owned());
        }
        if blockers.unreadable.len() >= IN_A_ROW {
            let pause = (INTERVAL * 2_u32.saturating_pow(blockers.tries.min(8))).min(LONGEST);
            blockers.tries = blockers.tries.saturating_add(1);
            blockers.until = Some(Instant::now() + pause);
        }
    }

    /// Waits until this replica is allowed to execute tasks. Returns `false` if the server stops first.
    pub(super) async fn unblocked(tasks: &Weak<Self>) -> bool {
        loop {
            let Some(this) = tasks.upgrade() else { return false };
            let stopped = this.stopped.clone();
            if !this.is_blocked() {
                return !stopped.is_cancelled();
            }
            let compared = Arc::clone(&this.compared);
            drop(this);
            tokio::select! {
                biased;
                () = stopped.cancelled() => return false,
                () = compared.notified() => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// Registers this replica's key ring, and compares the key rings of all replicas periodically, until the server
    /// stops.
    pub(super) async fn compare_rings(tasks: Weak<Self>) {
        let since = now_millis();
        let mut comparison = Comparison::default();
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let stopped = this.stopped.clone();
            let keys = this.runtime.seal.keys.fingerprints();
            let established = comparison.established;
            let ring = Ring { since, replica: this.runtime.replica.clone(), keys, established };
            match this.compare(ring, &mut comparison).await {
                Ok(None) => {}
                Ok(Some(misfit)) => {
                    let mut blockers = this.blockers();
                    if let Some(why) = misfit.as_ref().filter(|_| blockers.ring != misfit) {
                        tracing::error!("this replica does not work on tasks: {why}");
                    }
                    (blockers.ring, blockers.compared) = (misfit, true);
                    drop(blockers);
                    this.compared.notify_waiters();
                }
                // The replica keeps the result of the earlier comparison. If the store is unavailable, the queue is
                // usually unavailable too.
                Err(error) => tracing::warn!(%error, "the key rings of the replicas could not be compared"),
            }
            drop(this);
            tokio::select! {
                biased;
                () = stopped.cancelled() => break,
                () = tokio::time::sleep(jitter(INTERVAL)) => {}
            }
        }
        // This code removes the registered key ring, because the next process can have a newer key ring that is not
        // compatible with this key ring.
        if let (Some(this), Some(revision)) = (tasks.upgrade(), comparison.held)
            && let Err(error) = this.backend.store.delete(&this.ring_key(), revision).await
        {
            tracing::debug!(%error, "the key ring record of this replica could not be deleted; it stays until it expires");
        }
    }

    /// Returns the name of the record in which this replica registers its key ring.
    fn ring_key(&self) -> String {
        format!("rings/{}/{}", self.audience, self.instance)
    }

    /// Registers the key ring. If a comparison is due, also compares the key rings and returns `Some`. The inner value
    /// is the reason why the key ring is not compatible, or `None` if the key ring is compatible.
    async fn compare(
        &self,
        mut ring: Ring,
        seen: &mut Comparison,
    ) -> antiphon_store::Result<Option<Option<String>>> {
        self.show(&ring, &mut seen.held).await?;
        if seen.looked.is_some_and(|at| at.elapsed() < ESTABLISHED_INTERVAL) {
            return Ok(None);
        }
        let others = self.other_rings().await?;
        let mut misfit = ring.misfits(&self.ring_key(), &others);
        if is_any_established(&others) {
            (seen.misfit, seen.alone) = (misfit.clone(), None);
        } else {
            // During an outage, the registered key rings of all other replicas can expire. So this replica first waits
            // until the other replicas can register their key rings again.
            let alone = seen.alone.get_or_insert_with(Instant::now).elapsed();
            misfit = misfit.or_else(|| seen.misfit.clone().filter(|_| alone < LIVES + INTERVAL));
        }
        // If two replicas start at the same time, each replica may have missed the key ring of the other replica. So
        // both replicas compare the key rings again soon.
        seen.looked = (ring.established.is_some() && misfit.is_none()).then(Instant::now);
        if ring.established.is_some() != misfit.is_none() {
            ring.established = misfit.is_none().then(now_millis);
            // Before this replica executes tasks, it registers that it is established. A replica that is no longer
            // established registers this change immediately.
            self.show(&ring, &mut seen.held).await?;
        }
        seen.established = ring.established;
        Ok(Some(misfit))
    }

    async fn show(&self, ring: &Ring, held: &mut Option<Revision>) -> antiphon_store::Result<()> {
        let (store, key) = (&self.backend.store, self.ring_key());
        let value: bytes::Bytes = serde_json::to_vec(ring).unwrap_or_default().into();
        let shown = match *held {
            Some(revision) => store.update(&key, value.clone(), Some(LIVES), revision).await,
            None => store.create(&key, value.clone(), Some(LIVES)).await,
        };
        *held = match shown {
            Ok(revision) => Some(revision),
            // The record has expired, or an earlier write succeeded but the response of the store was lost.
            Err(StoreError::Conflict { .. }) => Some(match store.get(&key).await? {
                Some(found) => store.update(&key, value, Some(LIVES), found.revision).await?,
                None => store.create(&key, value, Some(LIVES)).await?,
            }),
            Err(error) => return Err(error),
        };
        Ok(())
    }

    async fn other_rings(&self) -> antiphon_store::Result<Vec<(String, Ring)>> {
        let (prefix, own) = (format!("rings/{}/", self.audience), self.ring_key());
        let (mut key_rings, mut after) = (Vec::new(), None);
        loop {
            let page = self.backend.store.list(&prefix, after.as_ref(), 100).await?;
            for other in page.items.into_iter().filter(|other| other.key != own) {
                if let Ok(ring) = serde_json::from_slice(&other.value) {
                    key_rings.push((other.key, ring));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(key_rings),
            }
        }
    }
}

/// Methods for the readiness check.
#[cfg(feature = "http")]
impl Tasks {
    /// Returns the reason why this replica does not execute tasks.
    pub(crate) fn problem(&self) -> Option<String> {
        let blockers = self.blockers();
        if self.is_shared && !blockers.compared {
            return Some(
                "the key ring has not been compared with the key rings of the other replicas yet".into(),
            );
        }
        blockers.ring.clone()
    }

    /// Returns the reason why this replica currently leases no jobs. The replica still counts as ready, because the
    /// other replicas may not be able to read the runs either.
    pub(crate) fn pause(&self) -> Option<String> {
        let blockers = self.blockers();
        let reason = blockers.reason.filter(|_| blockers.unreadable.len() >= IN_A_ROW)?;
        Some(format!("task records cannot be read ({}): {}", reason.name(), reason.advice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[&str]) -> Ring {
        let keys = keys.iter().map(ToString::to_string).collect();
        Ring { since: 0, replica: "a".into(), keys, established: None }
    }

    /// Creates a registered key ring, with the name `key` and the start time `since`.
    fn shown(key: &str, since: u64, established: Option<u64>, keys: &[&str]) -> (String, Ring) {
        (key.to_owned(), Ring { since, established, ..ring(keys) })
    }

    #[test]
    fn replica_that_restarts_is_not_stopped_by_one_that_does_not_work() {
        let (key, restarted) = shown("c", 200, None, &["1"]);
        let good = shown("a", 50, Some(50), &["1"]);
        let wrong = shown("b", 100, None, &["9"]);
        assert_eq!(restarted.misfits(&key, &[good, wrong]), None);
    }

    #[test]
    fn replica_with_another_ring_is_stopped_though_its_clock_is_behind() {
        let (key, wrong) = shown("b", 10, None, &["9"]);
        assert!(wrong.misfits(&key, &[shown("a", 50, Some(50), &["1"])]).is_some());
    }

    #[test]
    fn of_two_rings_the_earlier_one_is_established() {
        // If two replicas are established, the replica that was established first has priority. The start times of the
        // replicas have no effect.
        for (since, established) in [([50, 100], [None, None]), ([100, 50], [Some(60), Some(70)])] {
            let a = shown("a", since[0], established[0], &["1"]);
            let b = shown("b", since[1], established[1], &["9"]);
            assert_eq!(a.1.misfits("a", std::slice::from_ref(&b)), None);
            assert!(b.1.misfits("b", std::slice::from_ref(&a)).is_some());
        }
    }

    #[test]
    fn rings_fit_when_each_replica_reads_what_the_other_writes() {
        for (later, earlier, fits) in [
            (&["1"][..], &["1"][..], true),
            // The following cases are the steps of a key rotation, in order.
            (&["1", "2"], &["1"], true),
            (&["2", "1"], &["1", "2"], true),
            (&["2"], &["2", "1"], true),
            // The following cases are a different key ring, an older key ring, and a newer key ring.
            (&["9"], &["1"], false),
            (&["1"], &["2", "1"], false),
            (&["2", "1"], &["1"], false),
        ] {
            assert_eq!(ring(later).misfit(&ring(earlier)).is_none(), fits, "{later:?} after {earlier:?}");
        }
    }
}
