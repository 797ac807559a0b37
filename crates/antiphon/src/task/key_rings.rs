//! Whether this replica and the others can read what each of them writes.
//!
//! Each replica registers the fingerprints of its encryption keys: `rings/<audience>/<replica>`, for as long as it lives.
//! A replica is established when its key ring fits those of all established replicas. Until then it leases no jobs and
//! creates no tasks. So a wrong key ring stops the replica that was started with it, and not the ones that work, also when
//! those restart. Where no replica is established, the one that started first is.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, Weak},
    time::{Duration, Instant},
};

use antiphon_store::{Error as StoreError, Revision};
use serde::{Deserialize, Serialize};

use super::{Tasks, store::Unreadable};
use crate::base::now_millis;
use antiphon_transport::jitter;

/// How often a replica shows its key ring, and how long one counts that was shown.
const INTERVAL: Duration = Duration::from_secs(5);
const LIVES: Duration = Duration::from_secs(20);

/// How often an established replica looks at the key rings of the others. Listing is expensive on some backends, and a
/// replica that starts compares its own ring first.
const ESTABLISHED_INTERVAL: Duration = Duration::from_secs(60);

/// How long the creation of a task waits for the first comparison.
const FIRST: Duration = Duration::from_secs(2);

/// How many runs in a row can have another key before this replica pauses.
const IN_A_ROW: usize = 3;

/// The longest pause between two looks whether runs can be read again.
const LONGEST: Duration = Duration::from_secs(60);

/// What keeps a replica from working on tasks.
#[derive(Debug, Default)]
pub(super) struct WorkBlockers {
    /// Whether the key rings were compared.
    compared: bool,
    /// How the key ring differs from another replica's.
    ring: Option<String>,
    /// The last runs in a row whose key this replica does not have, how often they were tried, the reason, and until when
    /// no jobs are leased.
    unreadable: BTreeSet<String>,
    tries: u32,
    reason: Option<Unreadable>,
    until: Option<Instant>,
}

/// The key ring of a replica, without the keys.
#[derive(Debug, Serialize, Deserialize)]
struct Ring {
    since: u64,
    replica: String,
    /// The active key first.
    keys: Vec<String>,
    /// Since when the replica works on tasks, if it does.
    #[serde(default)]
    established: Option<u64>,
}

impl Ring {
    /// Why this ring does not fit one that was there before; `None` if it does.
    fn misfit(&self, earlier: &Self) -> Option<String> {
        let (ours, theirs) = (self.keys.first()?, earlier.keys.first()?);
        if !self.keys.contains(theirs) {
            return Some(format!(
                "the key ring lacks the key that replica `{}` encrypts with; add it as a spare",
                earlier.replica
            ));
        }
        if !earlier.keys.contains(ours) {
            return Some(format!(
                "replica `{}` lacks the key that this replica encrypts with; give it to every replica as a spare first",
                earlier.replica
            ));
        }
        None
    }

    /// Why this ring does not fit those of the other replicas, by their keys; `None` if it does.
    fn misfits(&self, key: &str, others: &[(String, Self)]) -> Option<String> {
        let any_established = is_any_established(others);
        let counts = |(other_key, other): &&(String, Self)| match (other.established, self.established) {
            (Some(_), None) => true,
            (Some(theirs), Some(ours)) => (theirs, other_key.as_str()) < (ours, key),
            // A replica that is not established does not count where others are.
            (None, None) => !any_established && (other.since, other_key.as_str()) < (self.since, key),
            (None, Some(_)) => false,
        };
        others.iter().filter(counts).find_map(|(_, other)| self.misfit(other))
    }
}

fn is_any_established(key_rings: &[(String, Ring)]) -> bool {
    key_rings.iter().any(|(_, ring)| ring.established.is_some())
}

/// What a replica remembers between two comparisons.
#[derive(Debug, Default)]
struct Comparison {
    /// The revision of the ring that it shows.
    held: Option<Revision>,
    established: Option<u64>,
    looked: Option<Instant>,
    /// Why its ring did not fit when it was last compared with that of an established replica.
    misfit: Option<String>,
    /// Since when no replica is established.
    alone: Option<Instant>,
}

impl Tasks {
    fn blockers(&self) -> std::sync::MutexGuard<'_, WorkBlockers> {
        self.blockers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this replica leases no jobs.
    pub(super) fn is_blocked(&self) -> bool {
        let blockers = self.blockers();
        (self.is_shared && !blockers.compared)
            || blockers.ring.is_some()
            || blockers.until.is_some_and(|until| until > Instant::now())
    }

    /// Whether this replica creates no tasks, because others could not read them.
    pub(super) fn is_unfit(&self) -> bool {
        let blockers = self.blockers();
        (self.is_shared && !blockers.compared) || blockers.ring.is_some()
    }

    /// Waits until the key rings were compared for the first time, for a moment at most.
    pub(super) async fn wait_for_comparison(&self) {
        let compared = self.compared.notified();
        if self.is_shared && !self.blockers().compared {
            let _ = tokio::time::timeout(FIRST, compared).await;
        }
    }

    /// Why this replica does not work on tasks, for whoever asks about its health.
    #[cfg(feature = "http")]
    pub(crate) fn problem(&self) -> Option<String> {
        let blockers = self.blockers();
        if self.is_shared && !blockers.compared {
            return Some("the key ring has not been compared with the other replicas' yet".into());
        }
        blockers.ring.clone()
    }

    /// Why this replica pauses. The other replicas may not be able to read the runs either, so requests still come here.
    #[cfg(feature = "http")]
    pub(crate) fn pause(&self) -> Option<String> {
        let blockers = self.blockers();
        let reason = blockers.reason.filter(|_| blockers.unreadable.len() >= IN_A_ROW)?;
        Some(format!("task records cannot be read ({}): {}", reason.name(), reason.advice()))
    }

    /// A run was read.
    pub(super) fn readable(&self) {
        let mut blockers = self.blockers();
        blockers.unreadable.clear();
        (blockers.tries, blockers.reason, blockers.until) = (0, None, None);
    }

    /// A run could not be read. If the keys of several runs in a row are missing, this replica leases no jobs for a while:
    /// other replicas may have the keys. One run that nobody can read, or a newer format, stops nothing.
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

    /// Waits until this replica may work on tasks. `false` when the server ends first.
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
                () = stopped.cancelled() => return false,
                () = compared.notified() => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// Shows this replica's key ring and compares it with the others', for as long as there is a server.
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
                // What was known stays so; the queue is not to be had either.
                Err(error) => tracing::warn!(%error, "the key rings of the replicas could not be compared"),
            }
            drop(this);
            tokio::select! {
                () = stopped.cancelled() => break,
                () = tokio::time::sleep(jitter::around(INTERVAL)) => {}
            }
        }
        // The replica that takes its place may have the next key ring, which need not fit this one.
        if let (Some(this), Some(revision)) = (tasks.upgrade(), comparison.held)
            && let Err(error) = this.backend.store.delete(&this.ring_key(), revision).await
        {
            tracing::debug!(%error, "the key ring of this replica stays until it expires");
        }
    }

    /// Where this replica shows its key ring.
    fn ring_key(&self) -> String {
        format!("rings/{}/{}", self.audience, self.instance)
    }

    /// Shows the key ring, and returns how it differs from those of the other replicas if it is time to look.
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
            // The key rings of all others may only have expired in an outage: they get the time to show them again.
            let alone = seen.alone.get_or_insert_with(Instant::now).elapsed();
            misfit = misfit.or_else(|| seen.misfit.clone().filter(|_| alone < LIVES + INTERVAL));
        }
        // Two replicas that begin at the same moment may not have seen each other: both look once more, soon.
        seen.looked = (ring.established.is_some() && misfit.is_none()).then(Instant::now);
        if ring.established.is_some() != misfit.is_none() {
            ring.established = misfit.is_none().then(now_millis);
            // Before this replica begins to work, or as soon as it stops.
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
            // It has expired, or a write whose answer was lost came first.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[&str]) -> Ring {
        let keys = keys.iter().map(ToString::to_string).collect();
        Ring { since: 0, replica: "a".into(), keys, established: None }
    }

    /// A ring that was shown as `key` at a time, by a replica that works on tasks or not.
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
        // Of two that work, the one that began to work first, whenever it was started.
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
            // The three steps of a rotation, in order.
            (&["1", "2"], &["1"], true),
            (&["2", "1"], &["1", "2"], true),
            (&["2"], &["2", "1"], true),
            // Another ring, an older one, and one that is ahead.
            (&["9"], &["1"], false),
            (&["1"], &["2", "1"], false),
            (&["2", "1"], &["1"], false),
        ] {
            assert_eq!(ring(later).misfit(&ring(earlier)).is_none(), fits, "{later:?} after {earlier:?}");
        }
    }
}
