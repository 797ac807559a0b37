use std::collections::BTreeMap;

use async_nats::jetstream::message::PublishMessage;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    link::{Kept, Kind, failed},
    scan::PAGE,
    store::{NatsStore, Version},
    timer::{Timer, TimerKind, bucket},
};
use crate::{error::Result, store::Record};

/// The maximum time between setting a timer and writing its record, in milliseconds.
const GRACE: u64 = 60_000;

/// The number of records that are checked concurrently.
const ABREAST: usize = 32;

impl NatsStore {
    /// Claims expired records. After the check of a record, its timer is either set again or removed.
    pub(super) async fn claim(&self, prefix: &str, lease: u64, limit: usize) -> Result<Vec<Record>> {
        let mut claimed = Vec::new();
        for (_, subject) in self.due_subjects(prefix).await? {
            let mut from = 1;
            loop {
                if claimed.len() >= limit {
                    return Ok(claimed);
                }
                let scan = self.link.scan(Kind::Timers, subject.clone(), from, PAGE).await?;
                let now = self.link.clock.now();
                let mut due: Vec<_> = scan
                    .messages
                    .iter()
                    .filter_map(|kept| Some((kept.sequence, Timer::read(kept)?)))
                    .filter(|(_, timer)| timer.due <= now && timer.key.starts_with(prefix))
                    .collect();
                while !due.is_empty() && claimed.len() < limit {
                    // Each of these timers can result in a claim, so this code checks only as many timers as records
                    // can still be claimed.
                    let some = due.len().min(limit - claimed.len()).min(ABREAST);
                    let looks = due.drain(..some).map(|(number, timer)| self.look_at(number, timer, lease));
                    let found: Vec<_> = stream::iter(looks).buffer_unordered(ABREAST).try_collect().await?;
                    claimed.extend(found.into_iter().flatten());
                }
                if !scan.more {
                    break;
                }
                from = scan.next(from);
            }
        }
        Ok(claimed)
    }

    /// Returns the subjects with due timers, oldest first.
    async fn due_subjects(&self, prefix: &str) -> Result<BTreeMap<(u64, String), String>> {
        let group = match prefix.split('/').next() {
            None | Some("") => "*",
            Some(group) => group,
        };
        let filter = self.link.subject(Kind::Timers, &format!("{group}/*"));
        let now = bucket(self.link.clock.now());
        let subjects = self.link.stream(Kind::Timers).info_with_subjects(filter).await.map_err(failed)?;
        let subjects: Vec<_> = subjects.try_collect().await.map_err(failed)?;
        let due = subjects.into_iter().filter_map(|(subject, _)| {
            let bucket = subject.rsplit('.').next()?.parse().ok()?;
            (bucket <= now).then(|| ((bucket, subject.clone()), subject))
        });
        Ok(due.collect())
    }

    /// Checks the record of a due timer, and claims the record if it has expired.
    async fn look_at(&self, number: u64, timer: Timer, lease: u64) -> Result<Option<Record>> {
        let version = self.look(&timer.key).await?.filter(|version| !version.gone);
        let now = self.link.clock.now();
        let deadline = version.as_ref().and_then(|version| version.deadline);
        let next = match (version, timer.kind) {
            (Some(version), _) if !version.is_live(now) => {
                return self.take(number, &timer, version, lease).await;
            }
            // The write for which this timer was set is possibly still in flight.
            (_, TimerKind::Written) => {
                let later = now + GRACE;
                Some(timer.at(deadline.map_or(later, |deadline| deadline.min(later)), TimerKind::Seen))
            }
            // The record was created again, with its own timer.
            (Some(version), kind) if is_replaced(kind, &version) => None,
            (version, kind) => {
                if let (None, TimerKind::Claimed { claim, .. }) = (&version, kind) {
                    self.link.forget(Kind::Claims, claim).await;
                }
                deadline.map(|deadline| timer.at(deadline, TimerKind::Seen))
            }
        };
        self.reset(number, next).await?;
        Ok(None)
    }

    /// Claims an expired record, unless another process has claimed it.
    async fn take(&self, number: u64, timer: &Timer, version: Version, lease: u64) -> Result<Option<Record>> {
        let subject = self.link.subject(Kind::Claims, &timer.key);
        let until = self.link.clock.now() + lease;
        let claimed = |claim| TimerKind::Claimed { claim, version: version.sequence };
        let message = || PublishMessage::build().payload(format!("{} {until}", version.sequence).into());
        let mut at = 0;
        let claim = loop {
            if let Some(claim) = self.link.put_at(&subject, message(), at).await? {
                break claim;
            }
            let kept = self.link.last(Kind::Claims, &subject).await?;
            let Some(kept) = kept.filter(|kept| kept.sequence != at) else {
                // A competing claim is not visible yet, or is already removed. The timer is checked again later.
                return Ok(None);
            };
            let held = held_until(&kept, version.sequence);
            if held > self.link.clock.now() {
                // Another process has the claim. If it does not delete the record, the record is due again when the
                // claim ends.
                let next = timer.at(held, claimed(kept.sequence));
                self.reset(number, (!is_replaced(timer.kind, &version)).then_some(next)).await?;
                return Ok(None);
            }
            at = kept.sequence;
        };
        self.reset(number, Some(timer.at(until, claimed(claim)))).await?;
        // The record was possibly deleted or overwritten during this claim.
        if self.look(&timer.key).await?.is_none_or(|found| found.sequence != version.sequence) {
            self.link.forget(Kind::Claims, claim).await;
            return Ok(None);
        }
        self.memory.claims.note(version.sequence, claim);
        Ok(Some(version.into_record(&timer.key)))
    }

    /// Replaces the timer `number` with `next`. Removes the timer if `next` is `None`. The new timer is stored before
    /// the old timer is removed.
    async fn reset(&self, number: u64, next: Option<Timer>) -> Result<()> {
        if let Some(next) = next {
            self.link.put(&next.subject(&self.link), next.message()).await?;
        }
        self.link.forget(Kind::Timers, number).await;
        Ok(())
    }
}

/// Returns whether a timer is out of date. An outdated timer belongs to a claim on an earlier version of the record,
/// and the current version has its own timer.
fn is_replaced(kind: TimerKind, now: &Version) -> bool {
    matches!(kind, TimerKind::Claimed { version, .. } if version != 0 && version < now.sequence) && now.timed
}

/// Returns the time at which a claim ends. `sequence` is the sequence number of the record. Returns 0 if the claim is
/// for another version of the record.
fn held_until(claim: &Kept, sequence: u64) -> u64 {
    let text = std::str::from_utf8(&claim.payload).unwrap_or_default();
    match text.split_once(' ') {
        Some((of, until)) if of.parse() == Ok(sequence) => until.parse().unwrap_or_default(),
        _ => 0,
    }
}
