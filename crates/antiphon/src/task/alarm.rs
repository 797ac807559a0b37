//! A background search for runs that are due but have no worker. The search needs no request from a client.
//!
//! Every run that has not ended has an alarm. An alarm is a store record with the name `due/<audience>/<owner>/<task>`.
//! The alarm expires shortly after the run's next job is due. The store finds expired records with an index, so a
//! search for alarms does not scan all records. The replica that claims an alarm checks the run. If the run's job is
//! lost, the replica queues the job again. If the run has waited longer than the maximum wait, the replica ends the
//! run. If the run has not ended, the replica sets the next alarm of the run.
//!
//! In addition, an audit reads all records slowly, by default once a day. The audit corrects missing and late alarms.
//! If a record is encrypted with another key than the active key, the audit encrypts the record with the active key.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use antiphon_store::{Error as StoreError, Record};
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{
    RECORDS, Tasks,
    record::TaskRecord,
    reducer::{Effect, Transition},
    store::Unloaded,
};
use crate::{
    base::{Defect, jitter, millis, now_millis},
    error::Result,
    telemetry::Outcome,
};

/// How long a replica can handle an alarm before another replica can claim this alarm.
const LEASE: Duration = Duration::from_secs(30);

/// The maximum number of alarms that a replica claims in one request to the store.
const BATCH: usize = 128;
/// The number of alarms that a replica handles concurrently. The number is low, so that most connections of the store's
/// connection pool stay available for workers.
const BESIDE: usize = 4;

/// The maximum interval between two alarms of a run that waits for a worker. The value is a multiple of the repair
/// interval.
const LONGEST_WAIT: u32 = 2;

/// The number of records that the audit reads in one page. Pages are large, because NATS lists all records for each
/// page.
const PAGE: usize = 256;
/// How long the audit waits between two pages.
const REST: Duration = Duration::from_millis(400);

/// The minimum and the maximum duration of the audit lease. Between these limits, the duration is the audit interval.
/// If the process of an audit is killed, the next audit can start only after the lease has expired. The audit must read
/// each page of records in less time than the duration of the lease.
const AUDIT_LEASE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// The maximum interval between the checks of a run that waits for users, in milliseconds.
const DAILY: u64 = 24 * 3600 * 1000;

impl Tasks {
    fn alarm_key(&self, key: &str) -> Option<String> {
        Some(format!("due/{}/{}", self.audience, key.strip_prefix(RECORDS)?))
    }

    /// Sets the alarm of a new run. Call this method before you store the run. An alarm for a run that does not exist
    /// has no effect.
    pub(super) async fn set_alarm(&self, key: &str, due: u64) {
        let Some(alarm) = self.alarm_key(key) else { return };
        let ttl = self.alarm_ttl(due);
        match self.backend.store.create(&alarm, Bytes::new(), Some(ttl)).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            // If the store cannot write the alarm now, the audit sets the alarm later.
            Err(error) => {
                tracing::warn!(%error, key, "the alarm of a run could not be stored; the next audit stores it");
            }
        }
    }

    /// Sets the alarm of a run to the current time. Call this method when a run that waited for users is about to
    /// continue. Callers of the server can choose any `key`. So if the run does not exist, this method does not create
    /// an alarm.
    pub(super) async fn set_alarm_to_now(&self, key: &str) {
        let Some(alarm) = self.alarm_key(key) else { return };
        let ttl = self.alarm_ttl(now_millis());
        let store = &self.backend.store;
        let set = async {
            match store.get(&alarm).await? {
                Some(found) => store.update(&alarm, Bytes::new(), Some(ttl), found.revision).await.map(drop),
                None if store.get(key).await?.is_none() => Ok(()),
                None => store.create(&alarm, Bytes::new(), Some(ttl)).await.map(drop),
            }
        };
        match set.await {
            // A conflict means that another process has just set the alarm.
            Ok(()) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => tracing::warn!(%error, key, "the alarm of a run could not be stored"),
        }
    }

    fn alarm_ttl(&self, due: u64) -> Duration {
        Duration::from_millis(due.saturating_sub(now_millis())) + self.config.repair_interval
    }

    /// Claims and handles due alarms until the server stops.
    pub(super) async fn watch_alarms(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let (stopped, interval) = (this.stopped.clone(), this.config.repair_interval);
            drop(this);
            tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(jitter(interval)) => {}
            }
            loop {
                let Some(this) = tasks.upgrade() else { return };
                if this.is_blocked() || Defect::NobodyRepairs.is_planted() {
                    break;
                }
                let prefix = format!("due/{}/", this.audience);
                let alarms = match this.backend.store.claim_expired(&prefix, LEASE, BATCH).await {
                    Ok(alarms) => alarms,
                    Err(error) => {
                        tracing::warn!(%error, "the search for overdue runs failed");
                        break;
                    }
                };
                let more = alarms.len() == BATCH;
                let mut repairs = JoinSet::new();
                for alarm in alarms {
                    if repairs.len() >= BESIDE {
                        repairs.join_next().await;
                    }
                    let this = Arc::clone(&this);
                    repairs.spawn(async move { this.handle_alarm(alarm).await });
                }
                repairs.join_all().await;
                if !more || stopped.is_cancelled() {
                    break;
                }
            }
        }
    }

    /// Repairs one run, and sets the next alarm of this run.
    async fn handle_alarm(&self, alarm: Record) {
        let Some(name) = alarm.key.splitn(3, '/').nth(2) else { return };
        let key = format!("{RECORDS}{name}");
        let next = match self.repair(&key).await {
            Ok(next) => next,
            // This replica cannot read the record of the run. After the lease has expired, another replica can claim
            // the alarm.
            Err(Unloaded::Unreadable(_)) => return,
            Err(Unloaded::Failed(error)) => {
                tracing::warn!(%error, key, "an overdue run could not be repaired");
                return;
            }
        };
        let told = match next {
            // The new alarm replaces the expired alarm.
            Some(due) => {
                let ttl = self.alarm_ttl(due);
                self.backend.store.create(&alarm.key, Bytes::new(), Some(ttl)).await.map(drop)
            }
            None => self.backend.store.delete(&alarm.key, alarm.revision).await,
        };
        match told {
            Ok(()) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => tracing::warn!(%error, key, "the next alarm of a run could not be stored"),
        }
    }

    /// Queues a job for a run that cannot continue without a new job. Returns the time of the next alarm, or `None` if
    /// the run has ended.
    async fn repair(&self, key: &str) -> Result<Option<u64>, Unloaded> {
        let Some((record, _)) = self.try_load(key).await? else { return Ok(None) };
        if record.is_over() {
            return Ok(None);
        }
        let now = now_millis();
        let max_wait = self.config.max_wait.map(millis);
        if record.has_waited_too_long(max_wait, now) {
            self.expire(key, max_wait).await.map_err(Unloaded::Failed)?;
            return Ok(None);
        }
        if record.is_stuck() {
            // A run without a job would never continue. Runs should always have a job, so `revive` logs an error.
            self.revive(key).await.map_err(Unloaded::Failed)?;
            return Ok(Some(now));
        }
        let was_lost = self.heal(key, &record).await;
        Ok(Some(match record.due() {
            // The interval between a run's alarms grows while the run waits for a worker. The longer interval prevents
            // many waiting runs from overloading the store.
            Some(due) if due < now && !was_lost => {
                now + (now - due).min(millis(LONGEST_WAIT * self.config.repair_interval))
            }
            Some(due) => due.max(now),
            None => record.waits_since().saturating_add(max_wait.unwrap_or(DAILY)).clamp(now, now + DAILY),
        }))
    }

    /// Ends a run that has waited for an answer longer than `max_wait`.
    async fn expire(&self, key: &str, max_wait: Option<u64>) -> Result<()> {
        let expired = self.apply(key, Transition::Expire { max_wait }).await?;
        if let Some((effect, record, _)) = expired
            && effect.changed
        {
            tracing::error!(
                task = record.id,
                tool = record.tool,
                "a run waited for longer than `TaskConfig::with_max_wait` and was ended"
            );
            self.runtime.recorder.run_expired(&record.tool);
            self.runtime.recorder.run_ended(&record.tool, Outcome::Dead);
            self.unlist_waiting(&record).await;
            self.announce(&record, false).await;
        }
        Ok(())
    }

    /// Queues a job for a run that has no job and does not wait for answers.
    async fn revive(&self, key: &str) -> Result<()> {
        let revived = self.apply(key, Transition::Revive).await?;
        if let Some((Effect { job: Some(due), .. }, record, _)) = revived {
            tracing::warn!(
                task = record.id,
                tool = record.tool,
                "a run had no job in the queue; a new job was queued"
            );
            self.runtime.recorder.task_repaired(&record.tool);
            self.push(key, &record, due, due.at).await;
        }
        Ok(())
    }

    /// Runs the audit periodically. Only one replica runs the audit at a time.
    pub(super) async fn audit(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let (stopped, interval) = (this.stopped.clone(), this.config.audit_interval);
            drop(this);
            tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(jitter((interval / 100).min(Duration::from_secs(60)))) => {}
            }
            let Some(this) = tasks.upgrade() else { return };
            if this.is_blocked() || Defect::NobodyRepairs.is_planted() {
                continue;
            }
            let name = format!("audit/{}", this.audience);
            let store = Arc::clone(&this.backend.store);
            // The replica that creates this record runs the audit. The record expires when the next audit is due, or
            // when the replica has stopped.
            let lease = interval.clamp(AUDIT_LEASE.0, AUDIT_LEASE.1);
            let Ok(mut held) = store.create(&name, Bytes::new(), Some(lease)).await else { continue };
            let audit = async {
                let mut after = None;
                loop {
                    match this.audit_page(after.as_deref()).await {
                        Ok(next) => after = next,
                        Err(error) => {
                            tracing::warn!(%error, "the audit of the task records failed; it is repeated later");
                            return;
                        }
                    }
                    let lives = if after.is_some() { lease } else { interval };
                    match store.update(&name, Bytes::new(), Some(lives), held).await {
                        Ok(revision) => held = revision,
                        Err(_) => return,
                    }
                    if after.is_none() {
                        return;
                    }
                    tokio::time::sleep(REST).await;
                }
            };
            let is_stopped = tokio::select! {
                biased;
                () = stopped.cancelled() => true,
                () = audit => false,
            };
            if is_stopped {
                // This deletion allows another replica to start the audit immediately.
                let _ = store.delete(&name, held).await;
                return;
            }
        }
    }

    /// Audits one page of records. Returns the cursor of the next page, or `None` after the last page.
    async fn audit_page(&self, after: Option<&str>) -> Result<Option<String>> {
        let (records, next) = self.records(RECORDS, after, PAGE).await?;
        for (key, mut record, revision) in records {
            let ours = record.audience == self.audience;
            if ours && !record.is_over() {
                self.set_alarm(&key, record.due().unwrap_or_default()).await;
                // A worker may have changed the run after the audit read the page. So the audit reads the record of the
                // run again.
                let is_overdue = record.due().is_some_and(|due| Self::is_overdue(due, now_millis()));
                if is_overdue
                    && let Ok(Some((record, _))) = self.load(&key).await
                    && self.heal(&key, &record).await
                {
                    // The old alarm is too late, so the audit sets the alarm to the current time.
                    self.set_alarm_to_now(&key).await;
                }
            }
            // An earlier version of Antiphon ended this run without setting a TTL.
            let lacks_life = record.audience.is_empty() && record.is_over() && record.ttl.is_none();
            if lacks_life {
                record.retention = record.retention.or(self.config.ttl.map(millis));
            }
            if (record.stale || lacks_life) && (ours || record.audience.is_empty()) {
                // If another process writes the record first, that process encrypts the record with the active key of
                // that process.
                if let Err(error) = self.write(&key, &mut record, revision).await {
                    tracing::warn!(%error, key, "a task record could not be rewritten");
                }
            }
        }
        Ok(next)
    }

    /// Writes the server's audience into a record that contains no audience. Version 0.1.0 wrote records without an
    /// audience.
    pub(super) fn sign(&self, record: &mut TaskRecord) {
        if record.audience.is_empty() {
            record.audience.clone_from(&self.audience);
        }
    }
}
