use std::{
    future::pending,
    time::{Duration, Instant},
};

use async_nats::{
    header::NATS_SCHEDULER,
    jetstream::{
        Message,
        consumer::{Consumer, pull},
    },
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::time::{sleep, timeout};

use super::{
    clock::until,
    fence::{Fence, State, fence, set_fence},
    link::{Kind, NAME, failed},
    queue::{DUE, JobRef, NatsQueue},
    store::{GONE, TRIES},
};
use crate::{
    error::{Error, Result},
    queue::{Job, Lease},
};

/// The maximum number of jobs that are requested and claimed at once.
const ABREAST: usize = 256;

/// The time limit of a fetch that should return at once. The fetch needs a limit, because the server can count removed
/// jobs, and then wait for these jobs.
const FETCH_TIMEOUT: Duration = Duration::from_millis(200);

/// The pause after `JetStream` has offered a job that the worker could not lease.
const PAUSE: Duration = Duration::from_millis(10);

/// A time in which a server cannot restart. If less than this time has passed since the request for a job, no
/// restarted server can have given the job to another worker.
const RESTART: Duration = Duration::from_millis(20);

/// The contents of a lease token.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) place: JobRef,
    pub(super) holder: u64,
    pub(super) attempt: u32,
    /// The sequence number of the fence that was written when the job was leased.
    fence: u64,
    /// The subject to which the reply to `JetStream` is sent.
    pub(super) offer: String,
}

impl Held {
    fn token(&self) -> String {
        format!("{} {:x} {} {} {}", self.place.number, self.holder, self.attempt, self.fence, self.offer)
    }

    pub(super) fn read(lease: &Lease) -> Result<Self> {
        crate::name::check_segment(&lease.queue)?;
        crate::name::check_segment(&lease.id)?;
        Self::parse(lease).ok_or_else(|| lease.lost())
    }

    fn parse(lease: &Lease) -> Option<Self> {
        let mut parts = lease.token.split(' ');
        let number = parts.next()?.parse().ok()?;
        Some(Self {
            place: JobRef { queue: lease.queue.clone(), id: lease.id.clone(), number },
            holder: u64::from_str_radix(parts.next()?, 16).ok()?,
            attempt: parts.next()?.parse().ok()?,
            fence: parts.next()?.parse().ok()?,
            offer: parts.next().filter(|offer| offer.starts_with("$JS.ACK."))?.to_owned(),
        })
    }

    pub(super) fn fence(&self, state: State) -> Fence {
        Fence { state, attempt: self.attempt, holder: self.holder, until: 0 }
    }
}

/// A job that `JetStream` has delivered, but that is not leased yet.
struct Offer {
    place: JobRef,
    payload: Bytes,
    due: u64,
    gone: bool,
    /// Whether the job was delivered before.
    again: bool,
    /// Whether the offer is a reminder of a delayed job. A reminder has no payload.
    reminds: bool,
    /// The time at which the worker requested the job.
    asked: Instant,
    reply: String,
}

impl Offer {
    fn read(queue: &str, message: &Message, asked: Instant) -> Option<Self> {
        let info = message.info().ok()?;
        let (mut id, mut number) = (message.subject.rsplit('.').next()?, info.stream_sequence);
        let reminds = message.headers.as_ref().is_some_and(|headers| headers.get(NATS_SCHEDULER).is_some());
        if reminds {
            let mut parts = message.subject.rsplit('.');
            (number, id) = (parts.next()?.parse().ok()?, parts.next()?);
        }
        let header = |name: &str| message.headers.as_ref().and_then(|headers| headers.get(name));
        Some(Self {
            place: JobRef { queue: queue.to_owned(), id: id.to_owned(), number },
            payload: message.payload.clone(),
            due: header(DUE).and_then(|due| due.as_str().parse().ok()).unwrap_or_default(),
            gone: header(GONE).is_some(),
            again: reminds || info.delivered > 1,
            reminds,
            asked,
            reply: message.reply.as_ref()?.to_string(),
        })
    }
}

impl NatsQueue {
    /// Leases jobs, and waits for the first job.
    pub(super) async fn take(&self, queue: &str, limit: usize, wait: Duration) -> Result<Vec<Job>> {
        let began = Instant::now();
        loop {
            let consumer = self.link.run(self.dispatcher(queue)).await?;
            let left = wait.saturating_sub(began.elapsed());
            let offers = match self.offers(queue, &consumer, limit.min(ABREAST), left).await {
                // The leader of the consumer is being elected, or is not yet known on this server.
                Err(Error::Busy { .. }) if began.elapsed() < wait => {
                    sleep(PAUSE).await;
                    continue;
                }
                offers => offers?,
            };
            let nothing = offers.is_empty();
            let claims = offers.into_iter().map(|offer| self.link.run(self.claim(offer)));
            let claims: Vec<_> = stream::iter(claims).buffered(ABREAST).collect().await;
            let (mut jobs, mut problem) = (Vec::new(), None);
            for claim in claims {
                match claim {
                    Ok(job) => jobs.extend(job),
                    Err(error) => problem = Some(error),
                }
            }
            match problem {
                // If the claim of a job failed, `JetStream` delivers the job again later.
                Some(error) if jobs.is_empty() => return Err(error),
                _ if !jobs.is_empty() || began.elapsed() >= wait => return Ok(jobs),
                _ if nothing => sleep(PAUSE.min(wait.saturating_sub(began.elapsed()))).await,
                _ => {}
            }
        }
    }

    /// Requests jobs from `JetStream`. Returns immediately if jobs are available. If no jobs are available, waits for
    /// one job, or until `wait` is over.
    async fn offers(
        &self,
        queue: &str,
        consumer: &Consumer<pull::Config>,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Offer>> {
        let mut interrupted = self.link.interrupted.clone();
        interrupted.mark_unchanged();
        let mut request = consumer.fetch().max_messages(limit);
        let mut patience = FETCH_TIMEOUT;
        if wait >= Duration::from_millis(1) {
            request = request.expires(wait);
            patience = wait + self.link.timeout();
        }
        let asked = Instant::now();
        let mut messages = request.messages().await.map_err(failed)?;
        let mut offers = Vec::new();
        let interruption = async {
            if interrupted.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        let collect = async {
            while let Some(message) = messages.next().await {
                let offer = message.map_err(|error| {
                    // The consumer was possibly deleted.
                    self.forget_dispatcher(queue);
                    if is_unanswered(&*error) { Error::busy(NAME, error) } else { failed(error) }
                })?;
                offers.extend(Offer::read(queue, &offer, asked));
            }
            Ok(())
        };
        let ended = tokio::select! {
            // The connection has changed, so this request gets no further response.
            () = interruption => Ok(()),
            ended = timeout(patience, collect) => ended.unwrap_or(Ok(())),
        };
        match ended {
            Err(error) if offers.is_empty() => Err(error),
            _ => Ok(offers),
        }
    }

    /// Leases an offered job if the fence of the job allows the lease.
    async fn claim(&self, mut offer: Offer) -> Result<Option<Job>> {
        while offer.reminds {
            if let Some(job) = self.link.message(Kind::Jobs, offer.place.number).await? {
                offer.due = job.number(DUE).unwrap_or_default();
                (offer.payload, offer.reminds) = (job.payload, false);
            } else if !self.is_there(&offer.place).await? {
                self.accept(&offer.place, &offer.reply).await;
                return Ok(None);
            }
        }
        let place = &offer.place;
        if offer.gone {
            self.answer(&offer.reply, Bytes::from_static(b"+ACK")).await;
            self.link.forget(Kind::Jobs, place.number).await;
            return Ok(None);
        }
        // A job that is delivered for the first time usually has no fence.
        let mut found = if offer.again { fence(&self.link, place).await? } else { None };
        let mut doubtful = offer.again;
        for _ in 0..TRIES {
            let now = self.link.clock.now();
            let (at, attempt) = match found {
                None if offer.due > now => {
                    self.postpone(place, offer.due, &offer.reply).await?;
                    return Ok(None);
                }
                None => (0, 1),
                Some((number, Fence { state: State::Done, .. })) => {
                    self.clean(place, number, Some(&offer.reply)).await?;
                    return Ok(None);
                }
                Some((_, Fence { state: State::Dead, .. })) => {
                    self.accept(place, &offer.reply).await;
                    return Ok(None);
                }
                Some((_, Fence { state: State::Waiting, until, .. })) if until > now => {
                    self.postpone(place, until, &offer.reply).await?;
                    return Ok(None);
                }
                Some((_, fence)) if fence.until > now => {
                    self.decline(&offer.reply, until(fence.until, now)).await;
                    return Ok(None);
                }
                Some((number, fence)) if fence.attempt >= self.max_attempts() => {
                    self.lay_out(place, fence, number, &offer.reply).await?;
                    return Ok(None);
                }
                Some((number, fence)) => (number, fence.attempt + 1),
            };
            let holder = random();
            let lease = Fence { state: State::Leased, attempt, holder, until: now + self.lease_millis() };
            let Some(number) = set_fence(&self.link, place, lease, at).await? else {
                found = fence(&self.link, place).await?;
                doubtful = true;
                continue;
            };
            // If a job was delivered before and has no fence, another worker may have finished and removed the job
            // while this offer was in flight. The same is possible if the server was killed after the request. The
            // server may then have lost its record of this offer, and delivered the job to another worker.
            let doubtful = doubtful || offer.asked.elapsed() > RESTART;
            if at == 0 && doubtful && !self.is_there(place).await? {
                self.link.forget(Kind::Fences, number).await;
                self.accept(place, &offer.reply).await;
                return Ok(None);
            }
            let held = Held { place: offer.place, holder, attempt, fence: number, offer: offer.reply };
            let lease = Lease::new(&held.place.queue, &held.place.id, held.token());
            return Ok(Some(Job::new(offer.payload, attempt, lease)));
        }
        self.decline(&offer.reply, PAUSE).await;
        Ok(None)
    }

    /// Returns whether the message of an offered job exists. If the leader of the stream has not yet applied the
    /// message, waits for the leader. Without the wait, this crate could acknowledge the offer of an existing job, and
    /// the job would never be delivered again.
    async fn is_there(&self, place: &JobRef) -> Result<bool> {
        loop {
            if let Some(kept) = self.link.is_kept(Kind::Jobs, place.number).await? {
                return Ok(kept);
            }
            sleep(PAUSE).await;
        }
    }

    /// Writes a new fence of the job if the lease is valid.
    pub(super) async fn settle(&self, lease: &Lease, held: &Held, fence: Fence) -> Result<u64> {
        let mut at = match self.shared.fences.recall(held.holder) {
            None => held.fence,
            Some(Some(number)) => number,
            // The holder has already given up the job.
            Some(None) => self.held_at(lease, held).await?,
        };
        for _ in 0..TRIES {
            if let Some(number) = set_fence(&self.link, &held.place, fence, at).await? {
                self.shared.fences.note(held.holder, (fence.state == State::Leased).then_some(number));
                return Ok(number);
            }
            at = self.held_at(lease, held).await?;
        }
        Err(lease.lost())
    }

    /// Returns the sequence number of the fence, if the lease is valid.
    pub(super) async fn held_at(&self, lease: &Lease, held: &Held) -> Result<u64> {
        match fence(&self.link, &held.place).await? {
            Some((number, fence)) if fence.holder == held.holder && fence.state == State::Leased => {
                Ok(number)
            }
            _ => Err(lease.lost()),
        }
    }

    /// Removes an acknowledged job.
    pub(super) async fn clean_up(&self, held: &Held, fence: u64) {
        let cleaned = self.link.run(self.clean(&held.place, fence, Some(&held.offer))).await;
        if let Err(error) = cleaned {
            tracing::debug!(%error, "an acknowledged job could not be removed; it is removed at its next delivery");
        }
    }
}

/// Returns whether no server responded to a request for jobs. The client library reports a request without a response
/// only in the text of the error.
fn is_unanswered(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.to_string().contains(": 503,")
}

/// Returns a random ID for a holder.
fn random() -> u64 {
    getrandom::u64().expect("the operating system has random numbers")
}
