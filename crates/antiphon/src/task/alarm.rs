//! Finds runs that are due but have no worker. The search runs without a request from a client.
//!
//! Every run that has not ended has an alarm. An alarm is a record `due/<audience>/<owner>/<task>`, which expires
//! shortly after the run's next job is due. The store finds expired records with an index, so it does not scan all
//! records. The replica that claims an alarm checks the run. If the run's job is lost, the replica queues the job
//! again. If the run has waited for too long, the replica ends the run. Then it sets the next alarm.
//!
//! Once a day, an audit slowly reads all records. The audit sets missing and late alarms, and encrypts records with
//! the active key.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use antiphon_store::{Error as StoreError, Record};
use antiphon_transport::jitter;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{
    Ended, RECORDS, TaskStatus, Tasks,
    record::TaskRecord,
    store::{Change, Unloaded},
};
use crate::{
    base::{millis, now_millis},
    error::Result,
    telemetry::Outcome,
};

/// The maximum time for which a replica handles an alarm, before another replica can claim it.
const LEASE: Duration = Duration::from_secs(30);

/// The number of alarms that are claimed together.
const BATCH: usize = 128;
/// The number of alarms that are handled concurrently. It is low, so that workers can use most connections of a
/// connection pool.
const BESIDE: usize = 4;

/// The maximum interval between the alarms of a run that waits for a worker, as a multiple of the repair interval.
const LONGEST_WAIT: u32 = 2;

/// The number of records that the audit reads at once. Pages are large because on NATS, one page costs as much as
/// listing all records.
const PAGE: usize = 256;
/// The pause of the audit between two pages.
const REST: Duration = Duration::from_millis(400);

/// The minimum and the maximum of the audit lease, whose duration is otherwise the audit interval. An audit without a
/// heartbeat for this duration no longer counts as in progress. If the process of an audit was killed, the next audit
/// is delayed by this duration. Reading a page of records must take less than this duration.
const AUDIT_LEASE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// The maximum interval between the checks of a run that waits for users, in milliseconds.
const DAILY: u64 = 24 * 3600 * 1000;

impl Tasks {
    fn alarm_key(&self, key: &str) -> Option<String> {
        Some(format!("due/{}/{}", self.audience, key.strip_prefix(RECORDS)?))
    }

    /// Sets the alarm of a new run. Call this method before you store the run. If storing the run fails, the alarm has
    /// no effect.
    pub(super) async fn set_alarm(&self, key: &str, due: u64) {
        let Some(alarm) = self.alarm_key(key) else { return };
        let ttl = self.alarm_ttl(due);
        match self.backend.store.create(&alarm, Bytes::new(), Some(ttl)).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            // If this fails, the audit sets the alarm later.
            Err(error) => {
                tracing::warn!(%error, key, "the alarm of a run could not be stored; the next audit stores it");
            }
        }
    }

    /// Sets the alarm of a run to the current time. Call this method when a run that waited for users is about to
    /// continue. Callers of the server can choose any `key`, so the method creates no alarm for a run that does not
    /// exist.
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

    /// Handles due alarms until the server stops.
    pub(super) async fn watch_alarms(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let (stopped, interval) = (this.stopped.clone(), this.config.repair_interval);
            drop(this);
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(jitter::around(interval)) => {}
            }
            loop {
                let Some(this) = tasks.upgrade() else { return };
                if this.is_blocked() {
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
            // This replica cannot read the run. After the lease expires, a replica that can read the run may claim the
            // alarm.
            Err(Unloaded::Unreadable(_)) => return,
            Err(Unloaded::Failed(error)) => {
                tracing::warn!(%error, key, "an overdue run could not be repaired");
                return;
            }
        };
        let told = match next {
            // The new alarm replaces the expired one.
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
        if record.status.is_final() && !record.cleaning {
            return Ok(None);
        }
        let now = now_millis();
        if self.has_waited_too_long(&record, now) {
            self.expire(key).await.map_err(Unloaded::Failed)?;
            return Ok(None);
        }
        if record.job.is_none() && record.held.is_none() && record.asks.is_empty() {
            // Without a new job, this run would never continue. This state is unexpected, so `revive` logs it.
            self.revive(key).await.map_err(Unloaded::Failed)?;
            return Ok(Some(now));
        }
        let was_lost = self.heal(key, &record).await;
        Ok(Some(match record.due() {
            // The longer a run waits for a worker, the longer the interval between its alarms. So many waiting runs do
            // not overload the store.
            Some(due) if due < now && !was_lost => {
                now + (now - due).min(millis(LONGEST_WAIT * self.config.repair_interval))
            }
            Some(due) => due.max(now),
            None => {
                let limit = self.config.max_wait.map_or(DAILY, millis);
                record.waits_since().saturating_add(limit).clamp(now, now + DAILY)
            }
        }))
    }

    /// Returns whether a run has waited for users for longer than `TaskConfig::with_max_wait`. A run with a job does
    /// not wait for users.
    fn has_waited_too_long(&self, record: &TaskRecord, now: u64) -> bool {
        let Some(limit) = self.config.max_wait else { return false };
        record.job.is_none()
            && !record.asks.is_empty()
            && record.waits_since().saturating_add(millis(limit)) < now
    }

    /// Ends a run if its questions were not answered in time.
    async fn expire(&self, key: &str) -> Result<()> {
        let message = "the task waited for longer than the server lets one wait, and was ended";
        let ended = self
            .change(key, |record| {
                if !self.has_waited_too_long(record, now_millis())
                    || (record.status.is_final() && !record.cleaning)
                {
                    return Change::Leave(false);
                }
                record.job = None;
                record.held = None;
                record.cleaning = false;
                record.asks.clear();
                record.answers.clear();
                if !record.status.is_final() {
                    record.ended =
                        Some(Ended::Error { code: -32603, message: message.to_owned(), data: None });
                    record.message = Some(message.to_owned());
                    record.set_status(TaskStatus::Failed);
                }
                record.note("expired", None);
                Change::Write(true)
            })
            .await?;
        if let Some((true, record, _)) = ended {
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
        let revived = self
            .change(key, |record| {
                let stuck = record.job.is_none() && record.held.is_none() && record.asks.is_empty();
                if !stuck || (record.status.is_final() && !record.cleaning) {
                    return Change::Leave(None);
                }
                record.note("repaired", None);
                Change::Write(Some(record.next_job(now_millis())))
            })
            .await?;
        if let Some((Some(due), record, _)) = revived {
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

    /// Periodically reads all records. Only one replica runs the audit at a time.
    pub(super) async fn audit(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let (stopped, interval) = (this.stopped.clone(), this.config.audit_interval);
            drop(this);
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(jitter::around((interval / 100).min(Duration::from_secs(60)))) => {}
            }
            let Some(this) = tasks.upgrade() else { return };
            if this.is_blocked() {
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
                // The record is deleted, so that another replica can start the audit immediately.
                let _ = store.delete(&name, held).await;
                return;
            }
        }
    }

    /// Audits one page of records. Returns the cursor of the next page.
    async fn audit_page(&self, after: Option<&str>) -> Result<Option<String>> {
        let (records, next) = self.records(RECORDS, after, PAGE).await?;
        for (key, mut record, revision) in records {
            let ours = record.audience == self.audience;
            if ours && (!record.status.is_final() || record.cleaning) {
                self.set_alarm(&key, record.due().unwrap_or_default()).await;
                // A worker may have changed the run after the page was read, so the record is read again.
                let is_overdue = record.due().is_some_and(|due| Self::is_overdue(due, now_millis()));
                if is_overdue
                    && let Ok(Some((record, _))) = self.load(&key).await
                    && self.heal(&key, &record).await
                {
                    // The old alarm was too late, so it is set to the current time.
                    self.set_alarm_to_now(&key).await;
                }
            }
            // An earlier version of Antiphon ended this run without setting a TTL.
            let is_over = record.status.is_final() && !record.cleaning;
            let lacks_life = record.audience.is_empty() && is_over && record.ttl.is_none();
            if lacks_life {
                record.retention = record.retention.or(self.config.ttl.map(millis));
            }
            if (record.stale || lacks_life) && (ours || record.audience.is_empty()) {
                // If another process writes the record first, that process encrypts it with its active key.
                if let Err(error) = self.write(&key, &mut record, revision).await {
                    tracing::warn!(%error, key, "a task record could not be rewritten");
                }
            }
        }
        Ok(next)
    }

    /// Sets the audience of a record that has no audience.
    pub(super) fn sign(&self, record: &mut TaskRecord) {
        if record.audience.is_empty() {
            record.audience.clone_from(&self.audience);
        }
    }
}
