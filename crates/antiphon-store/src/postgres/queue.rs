use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};

use super::{
    Inner,
    decode::{bytes, column, interval, number, silent},
    pool::Statement,
};
use crate::{
    error::{Error, Result},
    name,
    queue::{DeadJob, Depth, EXACT_DEPTH, Job, Lease, NewJob, Pushed, Queue, QueueConfig, check_job},
    store::{Cursor, Page},
};

/// The maximum number of jobs that one call leases.
const MAX_JOBS: usize = 1000;

/// The maximum number of dead jobs of one page.
const MAX_DEAD: usize = 256;

/// The pause before the next attempt to lease a job if another worker has locked a due job.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// The pause before the next attempt if no connection was available.
const RETRY: Duration = Duration::from_millis(100);

/// A [`Queue`] in a PostgreSQL table.
#[derive(Clone)]
pub struct PostgresQueue {
    inner: Arc<Inner>,
    config: QueueConfig,
}

impl PostgresQueue {
    pub(super) fn new(inner: Arc<Inner>, config: QueueConfig) -> Self {
        Self { inner, config }
    }
}

impl fmt::Debug for PostgresQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresQueue")
            .field("space", &self.inner.config.space)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The SQL statements, with the name of the schema.
#[derive(Debug)]
pub(super) struct Sql {
    push: Arc<str>,
    lease: Arc<str>,
    next_due: Arc<str>,
    extend: Arc<str>,
    ack: Arc<str>,
    nack: Arc<str>,
    bury: Arc<str>,
    dead: Arc<str>,
    revive: Arc<str>,
    discard: Arc<str>,
    depth: Arc<str>,
    ping: Arc<str>,
}

impl Sql {
    pub(super) fn new(schema: &str) -> Self {
        let jobs = format!("{schema}.jobs");
        let job = "space = $1 and queue = $2 and id = $3";
        let dead = "last and due_at <= now()";
        // The lease is valid, or it has expired and no other worker has leased the job since.
        let held = format!("{job} and token = $4 and not ({dead})");
        Self {
            push: format!(
                "insert into {jobs} (space, queue, id, payload, due_at) values ($1, $2, $3, $4, now() + $5)
                on conflict do nothing"
            )
            .into(),
            lease: format!("select id, payload, attempts, token from {schema}.lease($1, $2, $3, $4, $5)")
                .into(),
            next_due: format!(
                "select extract(epoch from min(due_at) - now())::float8 from {jobs}
                where space = $1 and queue = $2 and not last"
            )
            .into(),
            extend: format!("update {jobs} set due_at = now() + $5 where {held}").into(),
            ack: format!("delete from {jobs} where {held}").into(),
            nack: format!(
                "update {jobs} set token = null, due_at = case when last then now() else now() + $5 end
                where {held}"
            )
            .into(),
            bury: format!("update {jobs} set token = null, last = true, due_at = now() where {held}").into(),
            dead: format!(
                "select id, payload, attempts from {jobs}
                where space = $1 and queue = $2 and {dead} and id > $3
                order by id limit $4"
            )
            .into(),
            revive: format!(
                "update {jobs} set token = null, last = false, attempts = 0, due_at = now()
                where {job} and {dead}"
            )
            .into(),
            discard: format!("delete from {jobs} where {job} and {dead}").into(),
            depth: format!("select waiting, leased, dead, estimated from {schema}.depth($1, $2, $3, $4)")
                .into(),
            ping: format!("select exists (select from {jobs} where space = $1 and queue = '' and id = '')")
                .into(),
        }
    }
}

#[async_trait]
impl Queue for PostgresQueue {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        check_job(queue, &job)?;
        let statement = self
            .statement(&self.inner.queue.push)
            .bind(queue)
            .bind(&*job.id)
            .bind(&*job.payload)
            .bind(interval(job.delay));
        if self.inner.pool.changed(statement).await? {
            self.inner.wakes.wake(queue);
            Ok(Pushed::Added)
        } else {
            Ok(Pushed::Duplicate)
        }
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        name::check_segment(queue)?;
        let limit = limit.min(MAX_JOBS);
        if limit == 0 {
            return Ok(Vec::new());
        }
        if wait.is_zero() {
            return self.take(queue, limit).await;
        }
        self.wait_and_take(queue, limit, wait).await
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        let statement = self.held(&self.inner.queue.extend, lease)?.bind(interval(self.config.lease));
        if self.inner.pool.changed(statement).await? { Ok(()) } else { Err(lease.lost()) }
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        let statement = self.held(&self.inner.queue.ack, lease)?;
        if self.inner.pool.changed(statement).await? { Ok(()) } else { Err(lease.lost()) }
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        let statement = self.held(&self.inner.queue.nack, lease)?.bind(interval(delay));
        if !self.inner.pool.changed(statement).await? {
            return Err(lease.lost());
        }
        self.inner.wakes.wake(&lease.queue);
        Ok(())
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        let statement = self.held(&self.inner.queue.bury, lease)?;
        if self.inner.pool.changed(statement).await? { Ok(()) } else { Err(lease.lost()) }
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        name::check_segment(queue)?;
        let after = after.map_or("", |Cursor(after)| after);
        if !after.is_empty() {
            name::check_segment(after)?;
        }
        let limit = limit.min(MAX_DEAD);
        if limit == 0 {
            return Ok(Page { items: Vec::new(), next: Some(Cursor(after.to_owned())) });
        }
        let statement = self
            .statement(&self.inner.queue.dead)
            .bind(queue)
            .bind(after)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let mut items = Vec::new();
        for row in self.inner.pool.rows(statement).await? {
            items.push(DeadJob::new(
                column::<String>(&row, 0)?,
                bytes(&row, 1)?,
                column::<i32>(&row, 2)?.unsigned_abs(),
            ));
        }
        let next = items.last().filter(|_| items.len() == limit).map(|job| Cursor(job.id.clone()));
        Ok(Page { items, next })
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        let revived = self.inner.pool.changed(self.job(&self.inner.queue.revive, queue, id)?).await?;
        if revived {
            self.inner.wakes.wake(queue);
        }
        Ok(revived)
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        self.inner.pool.changed(self.job(&self.inner.queue.discard, queue, id)?).await
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        name::check_segment(queue)?;
        let statement = self
            .statement(&self.inner.queue.depth)
            .bind(queue)
            .bind(interval(self.config.lease))
            .bind(i64::try_from(EXACT_DEPTH).unwrap_or(i64::MAX));
        let row = self.inner.pool.row(statement).await?.ok_or_else(silent)?;
        Ok(Depth {
            waiting: number(&row, 0)?,
            leased: number(&row, 1)?,
            dead: number(&row, 2)?,
            estimated: column(&row, 3)?,
        })
    }

    async fn ping(&self) -> Result<()> {
        self.inner.pool.row(self.statement(&self.inner.queue.ping)).await.map(drop)
    }
}

impl PostgresQueue {
    /// Leases jobs that are due now.
    async fn take(&self, queue: &str, limit: usize) -> Result<Vec<Job>> {
        let attempts = i32::try_from(self.config.max_attempts).unwrap_or(i32::MAX);
        let statement = self
            .statement(&self.inner.queue.lease)
            .bind(queue)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .bind(interval(self.config.lease))
            .bind(attempts);
        let rows = self.inner.pool.rows(statement).await?;
        rows.iter()
            .map(|row| {
                let token: i64 = column(row, 3)?;
                let lease = Lease::new(queue, column::<String>(row, 0)?, token.to_string());
                Ok(Job::new(bytes(row, 1)?, column::<i32>(row, 2)?.unsigned_abs(), lease))
            })
            .collect()
    }

    /// Leases jobs that are due, or that become due before the wait is over.
    ///
    /// If the server is unavailable, the wait for jobs continues, because the server can become available again.
    async fn wait_and_take(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        let deadline = Instant::now().checked_add(wait);
        let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let waiter = self.inner.wakes.waiter(queue);
        self.inner.listener.hear_wakes(&self.inner.wakes);
        loop {
            // Register this worker before the query, so that the worker misses no wake-up.
            let mut woken = std::pin::pin!(waiter.notify().notified());
            woken.as_mut().enable();

            let passing_on = waiter.passing_on();
            let pause = match self.take(queue, limit).await {
                Ok(jobs) => {
                    if jobs.len() < limit {
                        passing_on.done();
                    }
                    if !jobs.is_empty() || is_over() {
                        return Ok(jobs);
                    }
                    self.next_due(queue).await
                }
                Err(Error::Busy { .. }) if !is_over() => {
                    passing_on.done();
                    RETRY
                }
                Err(error) => return Err(error),
            };
            let next_look = Instant::now() + pause;
            tokio::select! {
                () = woken => {}
                () = sleep_until(deadline.map_or(next_look, |deadline| deadline.min(next_look))) => {}
            }
        }
    }

    /// Returns the time until the next job is due, but never more than the poll interval.
    async fn next_due(&self, queue: &str) -> Duration {
        let statement = self.statement(&self.inner.queue.next_due).bind(queue);
        let poll = self.inner.config.poll.max(RETRY_DELAY);
        match self.inner.pool.row(statement).await {
            Ok(row) => row
                .and_then(|row| column::<Option<f64>>(&row, 0).ok().flatten())
                .and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
                .map_or(poll, |due| due.clamp(RETRY_DELAY, poll)),
            // This query only determines the pause. If the error persists, the next attempt to lease returns the
            // error.
            Err(_) => RETRY,
        }
    }

    fn statement<'q>(&'q self, sql: &Arc<str>) -> Statement<'q> {
        self.inner.statement(sql)
    }

    fn job<'q>(&'q self, sql: &Arc<str>, queue: &'q str, id: &'q str) -> Result<Statement<'q>> {
        name::check_segment(queue)?;
        name::check_segment(id)?;
        Ok(self.statement(sql).bind(queue).bind(id))
    }

    fn held<'q>(&'q self, sql: &Arc<str>, lease: &'q Lease) -> Result<Statement<'q>> {
        let statement = self.job(sql, &lease.queue, &lease.id)?;
        // An invalid token belongs to no lease.
        let token: i64 = lease.token.parse().map_err(|_| lease.lost())?;
        Ok(statement.bind(token))
    }
}
