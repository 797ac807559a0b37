use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::{
    header::{NATS_SCHEDULE, NATS_SCHEDULE_TARGET},
    jetstream::{
        consumer::{AckPolicy, Consumer, pull},
        message::PublishMessage,
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{sync::Semaphore, time::sleep};

use super::{
    clock::{millis, until},
    fence::{Fence, State, fence},
    lease::Held,
    link::{IN_FLIGHT, Kept, Kind, Link, failed},
    recent::Recent,
    scan::PAGE,
    store::{GONE, TRIES},
};
use crate::{
    error::{Error, Result},
    name,
    queue::{DeadJob, Depth, EXACT_DEPTH, Job, Lease, NewJob, Pushed, Queue, QueueConfig, check_job},
    store::{Cursor, Page},
};

/// The header that contains the time from which a delayed job can be leased. The time comes from the server's clock.
pub(super) const DUE: &str = "Antiphon-Due";

/// The additional time before `JetStream` delivers a job again. A lease starts a little later than the delivery of its
/// job. Without the additional time, `JetStream` could deliver a job a second time while its lease is still valid.
const SLACK: Duration = Duration::from_millis(20);

/// The last part of the subject of a schedule.
const LATER: &str = "later";

/// The shortest delay for which this crate creates a schedule on the server.
const SCHEDULED: Duration = Duration::from_secs(10);

/// The time between a reminder and the moment at which its job is due. The server writes reminders with a precision of
/// one second.
const EARLY: Duration = Duration::from_secs(2);

/// The maximum number of acknowledged jobs that are removed concurrently in the background.
const CLEANERS: usize = 256;

/// The age in milliseconds after which any process removes the remaining data of a finished job.
const LEFT_BEHIND: u64 = 30_000;

/// A [`Queue`] on `JetStream` streams.
#[derive(Clone, Debug)]
pub struct NatsQueue {
    pub(super) link: Arc<Link>,
    pub(super) shared: Arc<Shared>,
}

/// The state that all clones of a [`NatsQueue`] share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: QueueConfig,
    /// A cache that maps a holder to the sequence number of its last fence, or to `None` if the holder has given up the
    /// job.
    pub(super) fences: Recent<Option<u64>>,
    consumers: Mutex<HashMap<String, Consumer<pull::Config>>>,
    cleaners: Arc<Semaphore>,
}

/// A job, identified by its queue, its ID and the sequence number of its message.
#[derive(Clone, Debug)]
pub(super) struct JobRef {
    pub(super) queue: String,
    pub(super) id: String,
    pub(super) number: u64,
}

impl JobRef {
    pub(super) fn fence(&self, link: &Link) -> String {
        link.subject(Kind::Fences, &format!("{}/{}/{}", self.queue, self.id, self.number))
    }

    /// Returns the subject of the message that reminds workers of a delayed job. The reminder offers the job again
    /// when the delay of the job is over.
    pub(super) fn reminder(&self, link: &Link) -> String {
        link.subject(Kind::Jobs, &format!("{}/{}/{}", self.queue, self.id, self.number))
    }

    /// Parses the subject of a fence.
    fn of(fence: &str) -> Option<Self> {
        let mut parts = fence.rsplit('.');
        let number = parts.next()?.parse().ok()?;
        let id = parts.next()?.to_owned();
        Some(Self { queue: parts.next()?.to_owned(), id, number })
    }
}

impl NatsQueue {
    pub(super) fn new(link: Arc<Link>, config: QueueConfig) -> Self {
        let shared = Shared {
            config,
            fences: Recent::new(),
            consumers: Mutex::default(),
            cleaners: Arc::new(Semaphore::new(CLEANERS)),
        };
        Self { link, shared: Arc::new(shared) }
    }

    pub(super) fn lease_millis(&self) -> u64 {
        millis(self.shared.config.lease)
    }

    pub(super) fn max_attempts(&self) -> u32 {
        self.shared.config.max_attempts.max(1)
    }

    /// Returns the consumer that delivers the jobs of a queue.
    pub(super) async fn dispatcher(&self, queue: &str) -> Result<Consumer<pull::Config>> {
        let known = self.consumers().get(queue).cloned();
        if let Some(consumer) = known {
            return Ok(consumer);
        }
        let jobs = self.link.subject(Kind::Jobs, queue) + ".*";
        let mut name = consumer_name(self.link.space(), queue);
        let (mut filter_subject, mut filter_subjects) = (jobs.clone(), Vec::new());
        if self.link.schedules {
            // Processes without schedules use a consumer of their own, because their consumer has no reminders.
            name.push_str(",due");
            let reminders = jobs.clone() + ".*";
            (filter_subject, filter_subjects) = (String::new(), vec![jobs, reminders]);
        }
        let config = pull::Config {
            durable_name: Some(name),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.shared.config.lease + SLACK,
            filter_subject,
            filter_subjects,
            max_ack_pending: -1,
            max_waiting: 4096,
            ..pull::Config::default()
        };
        let consumer = self.link.stream(Kind::Jobs).create_consumer(config).await.map_err(failed)?;
        self.consumers().insert(queue.to_owned(), consumer.clone());
        Ok(consumer)
    }

    /// Removes the consumer of a queue from the cache, because the consumer was possibly deleted. The next call of
    /// `dispatcher` creates the consumer again.
    pub(super) fn forget_dispatcher(&self, queue: &str) {
        self.consumers().remove(queue);
    }

    fn consumers(&self) -> std::sync::MutexGuard<'_, HashMap<String, Consumer<pull::Config>>> {
        self.shared.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn job_subject(&self, queue: &str, id: &str) -> String {
        self.link.subject(Kind::Jobs, &format!("{queue}/{id}"))
    }

    /// Removes a job that is done: first its message, then its fence.
    ///
    /// The delivery of the job is acknowledged before the message is removed. Without the acknowledgement, NATS 2.9
    /// would stop all deliveries for a while when it reaches the removed job.
    pub(super) async fn clean(&self, place: &JobRef, fence: u64, offer: Option<&str>) -> Result<()> {
        if let Some(offer) = offer {
            self.accept(place, offer).await;
        }
        self.link.remove(Kind::Jobs, place.number).await?;
        self.link.forget(Kind::Fences, fence).await;
        Ok(())
    }

    /// Replies to a delivery of `JetStream`. If the reply is lost, `JetStream` delivers the job again. The fence of the
    /// job determines how this crate replies to a repeated delivery.
    pub(super) async fn answer(&self, offer: &str, answer: Bytes) {
        if let Err(error) = self.link.client.publish(offer.to_owned(), answer).await {
            tracing::debug!(%error, "the reply to a job delivery could not be sent; NATS delivers the job again");
        }
    }

    /// Acknowledges the delivery of a job or of its reminder, and removes the reminder.
    pub(super) async fn accept(&self, place: &JobRef, offer: &str) {
        self.answer(offer, Bytes::from_static(b"+ACK")).await;
        self.forget_reminder(place, offer).await;
    }

    /// Removes the reminder of a job, if the delivery was the reminder and not the job itself.
    async fn forget_reminder(&self, place: &JobRef, offer: &str) {
        if let Some(number) = delivered(offer).filter(|number| *number != place.number) {
            self.link.forget(Kind::Jobs, number).await;
        }
    }

    /// Postpones the delivery of a job until `due`. A long delay becomes a schedule on the server, which survives a
    /// restart and needs less memory. The schedule writes a reminder, and the reminder offers the job again.
    pub(super) async fn postpone(&self, place: &JobRef, due: u64, offer: &str) -> Result<()> {
        let delay = until(due, self.link.clock.now());
        if !self.link.schedules || delay < SCHEDULED {
            self.decline(offer, delay).await;
            return Ok(());
        }
        let reminder = place.reminder(&self.link);
        let message = PublishMessage::build()
            .header(NATS_SCHEDULE, at(due - millis(EARLY)))
            .header(NATS_SCHEDULE_TARGET, reminder.as_str());
        self.link.put(&format!("{reminder}.{LATER}"), message).await?;
        // Until the server has processed the acknowledgement, `count` would count this job twice.
        self.link.client.request(offer.to_owned(), Bytes::from_static(b"+ACK")).await.map_err(failed)?;
        self.forget_reminder(place, offer).await;
        Ok(())
    }

    /// Counts the delayed jobs of a queue for which the server has a schedule.
    async fn scheduled(&self, queue: &str) -> Result<u64> {
        if !self.link.schedules {
            return Ok(0);
        }
        let schedules = self.link.subject(Kind::Jobs, queue) + ".*.*." + LATER;
        self.link.how_many(Kind::Jobs, schedules).await
    }

    /// Rejects the delivery of a job. `JetStream` delivers the job again after `delay`.
    pub(super) async fn decline(&self, offer: &str, delay: Duration) {
        let answer = format!("-NAK {{\"delay\":{}}}", delay.as_nanos().clamp(1, i64::MAX as u128));
        self.answer(offer, answer.into()).await;
    }

    /// Checks whether a job with the ID `id` can be pushed. Returns `None` if an unfinished job has the ID `id`. If the
    /// job can be pushed, returns the sequence number of the message that the push must replace.
    async fn make_room(&self, queue: &str, id: &str) -> Result<Option<u64>> {
        let Some(found) = self.link.last(Kind::Jobs, &self.job_subject(queue, id)).await? else {
            return Ok(Some(0));
        };
        if found.headers.get(GONE).is_some() {
            return Ok(Some(found.sequence));
        }
        let place = JobRef { queue: queue.to_owned(), id: id.to_owned(), number: found.sequence };
        match fence(&self.link, &place).await? {
            Some((number, Fence { state: State::Done, .. })) => {
                self.clean(&place, number, None).await?;
                Ok(Some(0))
            }
            // Another process has possibly removed the finished job since the first read. The message of a job is
            // removed before its fence.
            _ if self.link.message(Kind::Jobs, place.number).await?.is_none() => Ok(Some(0)),
            _ => Ok(None),
        }
    }

    async fn count(&self, queue: &str) -> Result<Depth> {
        let mut consumer = self.dispatcher(queue).await?;
        let info = consumer.info().await.map_err(|error| {
            self.forget_dispatcher(queue);
            failed(error)
        })?;
        let offered = info.num_pending + info.num_ack_pending as u64 + self.scheduled(queue).await?;
        let mut depth = Depth::default();
        let filter = self.link.subject(Kind::Fences, queue) + ".>";
        let fences = self.link.how_many(Kind::Fences, filter.clone()).await?;
        if fences > EXACT_DEPTH {
            // Dead jobs have names in a separate stream. The other fences belong to leased jobs, to returned jobs,
            // and to a few jobs that are being removed.
            let names = self.link.subject(Kind::Dead, queue) + ".*";
            depth.dead = self.link.how_many(Kind::Dead, names).await?.min(fences);
            depth.leased = (fences - depth.dead).min(info.num_ack_pending as u64);
            depth.waiting = offered.saturating_sub(depth.leased);
            depth.estimated = true;
            return Ok(depth);
        }
        let (mut from, mut more) = (1, true);
        while more {
            let scan = self.link.scan(Kind::Fences, filter.clone(), from, PAGE).await?;
            let now = self.link.clock.now();
            for kept in &scan.messages {
                let Some(fence) = Fence::read(kept) else { continue };
                match fence.state {
                    State::Leased if fence.until > now => depth.leased += 1,
                    State::Dead => depth.dead += 1,
                    // The process that had to remove this job stopped before the removal.
                    State::Done if kept.time + LEFT_BEHIND < now => {
                        if let Some(place) = JobRef::of(&kept.subject) {
                            self.clean(&place, kept.sequence, None).await?;
                        }
                    }
                    _ => {}
                }
            }
            (from, more) = (scan.next(from), scan.more);
        }
        depth.waiting = offered.saturating_sub(depth.leased);
        Ok(depth)
    }
}

#[async_trait]
impl Queue for NatsQueue {
    async fn push(&self, queue: &str, job: NewJob) -> Result<Pushed> {
        check_job(queue, &job)?;
        let subject = self.job_subject(queue, &job.id);
        self.link
            .run(async {
                let (mut at, mut tries) = (0, 0);
                while tries < TRIES {
                    let mut message = PublishMessage::build().payload(job.payload.clone());
                    if !job.delay.is_zero() {
                        message =
                            message.header(DUE, (self.link.clock.now() + millis(job.delay)).to_string());
                    }
                    if self.link.put_at(&subject, message, at).await?.is_some() {
                        return Ok(Pushed::Added);
                    }
                    match self.make_room(queue, &job.id).await? {
                        // A competing push has succeeded, but is not visible until the replicas agree.
                        Some(number) if number == at => sleep(IN_FLIGHT).await,
                        Some(number) => (at, tries) = (number, tries + 1),
                        None => return Ok(Pushed::Duplicate),
                    }
                }
                let problem = format!("too many writers push job `{}` concurrently", job.id);
                Err(Error::busy(super::link::NAME, problem))
            })
            .await
    }

    async fn lease(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        name::check_segment(queue)?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        self.take(queue, limit, wait).await
    }

    async fn extend(&self, lease: &Lease) -> Result<()> {
        let held = Held::read(lease)?;
        self.link
            .run(async {
                let until = self.link.clock.now() + self.lease_millis();
                self.settle(lease, &held, Fence { until, ..held.fence(State::Leased) }).await?;
                self.answer(&held.offer, Bytes::from_static(b"+WPI")).await;
                Ok(())
            })
            .await
    }

    async fn ack(&self, lease: &Lease) -> Result<()> {
        let held = Held::read(lease)?;
        let number = self.link.run(self.settle(lease, &held, held.fence(State::Done))).await?;
        // The acknowledgement is stored. The remaining data of the job is removed in the background.
        if let Ok(permit) = Arc::clone(&self.shared.cleaners).try_acquire_owned() {
            let queue = self.clone();
            tokio::spawn(async move {
                let _permit = permit;
                queue.clean_up(&held, number).await;
            });
        } else {
            self.clean_up(&held, number).await;
        }
        Ok(())
    }

    async fn nack(&self, lease: &Lease, delay: Duration) -> Result<()> {
        let held = Held::read(lease)?;
        if held.attempt >= self.max_attempts() {
            return self.bury(lease).await;
        }
        self.link
            .run(async {
                let due = self.link.clock.now() + millis(delay);
                self.settle(lease, &held, Fence { until: due, ..held.fence(State::Waiting) }).await?;
                self.postpone(&held.place, due, &held.offer).await
            })
            .await
    }

    async fn bury(&self, lease: &Lease) -> Result<()> {
        let held = Held::read(lease)?;
        self.link.run(self.bury_held(lease, &held)).await
    }

    async fn dead(&self, queue: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<DeadJob>> {
        name::check_segment(queue)?;
        self.link.run(self.list_dead(queue, after, limit)).await
    }

    async fn revive(&self, queue: &str, id: &str) -> Result<bool> {
        name::check_segment(queue)?;
        name::check_segment(id)?;
        self.link
            .run(
                self.replace_dead(queue, id, |job: &Kept| {
                    PublishMessage::build().payload(job.payload.clone())
                }),
            )
            .await
            .map(|number| number.is_some())
    }

    async fn discard(&self, queue: &str, id: &str) -> Result<bool> {
        name::check_segment(queue)?;
        name::check_segment(id)?;
        self.link
            .run(async {
                let gone = |_: &Kept| PublishMessage::build().header(GONE, "1");
                let marker = self.replace_dead(queue, id, gone).await?;
                if let Some(marker) = marker {
                    self.link.forget(Kind::Jobs, marker).await;
                }
                Ok(marker.is_some())
            })
            .await
    }

    async fn depth(&self, queue: &str) -> Result<Depth> {
        name::check_segment(queue)?;
        self.link.run(self.count(queue)).await
    }

    async fn ping(&self) -> Result<()> {
        self.link.run(self.link.last(Kind::Jobs, &self.job_subject("ping", "ping"))).await.map(drop)
    }
}

/// Returns the sequence number of the message that a delivery contains.
fn delivered(offer: &str) -> Option<u64> {
    // Newer servers write their domain and the account before the name of the stream, and a random word at the end.
    let parts: Vec<_> = offer.split('.').collect();
    let index = if parts.len() == 9 { 5 } else { 7 };
    parts.get(index)?.parse().ok()
}

/// Returns the text of a schedule that sends a message at the time `due` of the server's clock.
fn at(due: u64) -> String {
    let due = OffsetDateTime::from_unix_timestamp_nanos(i128::from(due) * 1_000_000).ok();
    let due = due.and_then(|due| due.format(&Rfc3339).ok());
    // If `due` is too far in the future for a date, the schedule contains the last second of the year 9999.
    format!("@at {}", due.as_deref().unwrap_or("9999-12-31T23:59:59Z"))
}

/// Returns the name of the consumer of a queue. NATS accepts at most 255 bytes, so a long name is replaced by a
/// digest.
fn consumer_name(space: &str, queue: &str) -> String {
    // A segment cannot contain a comma, so two different queues never have the same name here.
    let name = format!("{space},{queue}");
    if name.len() <= 200 {
        return name;
    }
    // The hash function is FNV-1a, which is the same on every machine and in every release.
    let digest = name.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |digest: u128, byte| {
        (digest ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    });
    format!(",{digest:032x}")
}
