use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::Cmd;
use tokio::time::Instant;

use super::{
    Shared,
    fate::odd_reply,
    keys::millis,
    reply::{self, Parts},
    script::{self, Script},
    store::ROOM,
};
use crate::{
    error::Result,
    name,
    queue::{DeadJob, Depth, Job, Lease, NewJob, Pushed, Queue, QueueConfig, check_job},
    store::{Cursor, Page},
};

/// The maximum number of jobs that one call leases, or that one page of dead jobs contains.
const MOST: usize = 256;

/// A [`Queue`] in Redis.
#[derive(Clone)]
pub struct RedisQueue {
    shared: Arc<Shared>,
    config: QueueConfig,
}

impl RedisQueue {
    pub(super) fn new(shared: Arc<Shared>, config: QueueConfig) -> Self {
        Self { shared, config }
    }

    /// Leases available jobs, and returns the time until the next job can become available, if this time is known.
    async fn take(&self, queue: &str, key: &str, limit: usize) -> Result<(Vec<Job>, Option<Duration>)> {
        let reply = self.shared.link.run(&script::LEASE, key.to_owned(), |cmd| {
            cmd.arg(limit).arg(millis(self.config.lease).max(1)).arg(self.config.max_attempts);
        });
        let mut parts = Parts::of(reply.await?)?;
        let next = u64::try_from(parts.int()?).ok().map(Duration::from_millis);
        let mut jobs = Vec::with_capacity(parts.left() / 4);
        while parts.left() > 0 {
            let (id, payload) = (parts.text()?, parts.bytes()?);
            let (attempt, token) = (number(parts.count()?)?, parts.text()?);
            jobs.push(Job::new(payload, attempt, Lease::new(queue, id, token)));
        }
        Ok((jobs, next))
    }

    /// Runs a script that changes a leased job. The script fails if the worker has lost the lease.
    async fn held(
        &self,
        lease: &Lease,
        script: &Script,
        fill: impl Fn(&mut Cmd) + Send + Sync,
    ) -> Result<()> {
        name::check_segment(&lease.queue)?;
        name::check_segment(&lease.id)?;
        let reply = self.shared.link.run(script, self.shared.keys.queue(&lease.queue), |cmd| {
            cmd.arg(&lease.id).arg(&lease.token);
            fill(cmd);
        });
        if reply::yes(&reply.await?)? { Ok(()) } else { Err(lease.lost()) }
    }

    async fn settle(&self, queue: &str, id: &str, how: &str) -> Result<bool> {
        name::check_segment(queue)?;
        name::check_segment(id)?;
        let reply = self.shared.link.run(&script::SETTLE, self.shared.keys.queue(queue), |cmd| {
            cmd.arg(id).arg(how);
        });
        reply::yes(&reply.await?)
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        check_job(queue, &job)?;
        let reply = self.shared.link.run(&script::PUSH, self.shared.keys.queue(queue), |cmd| {
            cmd.arg(&job.id).arg(&job.payload[..]).arg(millis(job.delay));
        });
        Ok(if reply::yes(&reply.await?)? { Pushed::Added } else { Pushed::Duplicate })
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        name::check_segment(queue)?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let key = self.shared.keys.queue(queue);
        // If the deadline is too far in the future for an `Instant`, wait for about 34 years.
        let until =
            Instant::now().checked_add(wait).unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        let (mut jobs, mut next) = self.take(queue, &key, limit.min(MOST)).await?;
        let mut woken = !wait.is_zero();
        while woken && jobs.is_empty() {
            let mut waiting = self.shared.waits.join(&key, self.config.lease, next);
            woken = waiting.woken(until).await;
            (jobs, next) = self.take(queue, &key, limit.min(MOST)).await?;
            waiting.looked(next);
        }
        Ok(jobs)
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        self.held(lease, &script::EXTEND, |cmd| {
            cmd.arg(millis(self.config.lease).max(1));
        })
        .await
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        self.held(lease, &script::ACK, |_| ()).await
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        self.held(lease, &script::NACK, |cmd| {
            cmd.arg(millis(delay)).arg(self.config.max_attempts);
        })
        .await
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        self.held(lease, &script::BURY, |_| ()).await
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        name::check_segment(queue)?;
        if let Some(after) = after {
            name::check_segment(&after.0)?;
        }
        let reply = self.shared.link.run(&script::DEAD, self.shared.keys.queue(queue), |cmd| {
            match after {
                Some(after) => cmd.arg(format!("({}", after.0)),
                None => cmd.arg("-"),
            };
            cmd.arg(limit.clamp(1, MOST)).arg(ROOM);
        });
        let mut parts = Parts::of(reply.await?)?;
        let more = parts.int()? == 1;
        let mut items = Vec::with_capacity(parts.left() / 3);
        while parts.left() > 0 {
            let (id, payload) = (parts.text()?, parts.bytes()?);
            items.push(DeadJob::new(id, payload, number(parts.count()?)?));
        }
        let next = items.last().filter(|_| more).map(|last| Cursor(last.id.clone()));
        Ok(Page { items, next })
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        self.settle(queue, id, "revive").await
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        self.settle(queue, id, "discard").await
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        name::check_segment(queue)?;
        let reply = self.shared.link.run(&script::DEPTH, self.shared.keys.queue(queue), |_| ());
        let mut parts = Parts::of(reply.await?)?;
        let (waiting, leased, dead) = (parts.count()?, parts.count()?, parts.count()?);
        Ok(Depth { waiting, leased, dead, estimated: false })
    }
}

impl fmt::Debug for RedisQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisQueue")
            .field("redis", &self.shared.config)
            .field("config", &self.config)
            .finish()
    }
}

fn number(count: u64) -> Result<u32> {
    u32::try_from(count).map_err(|_| odd_reply())
}
