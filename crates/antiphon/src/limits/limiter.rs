//! Admission of requests. For each caller and each tool, this module counts the calls in progress and measures the rate
//! of requests and bytes.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    Limits, Quota, Rate,
    refused::{Over, Refused, Whose},
};

/// Counts the requests that the server, each caller and each tool currently process.
#[derive(Debug)]
pub(crate) struct Limiter {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    queue: Semaphore,
    principals: Shares,
    tools: Shares,
}

/// A call that needs to be admitted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) principal: Option<&'a str>,
    /// The name of the tool that the request calls. If the tool has its own quota, the second value is this quota.
    pub(crate) tool: Option<(&'a str, Option<Quota>)>,
    /// The size of the request, in bytes.
    pub(crate) bytes: usize,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let places = |count: usize| Semaphore::new(count.min(Semaphore::MAX_PERMITS));
        Self {
            working: Arc::new(places(limits.in_flight)),
            waiting: Arc::new(places(limits.max_waiting)),
            queue: places(limits.queue),
            principals: Shares::default(),
            tools: Shares::default(),
        }
    }

    /// Admits a request that the server answers immediately. Only the rate limit of the caller applies to such a
    /// request.
    pub(crate) fn pass(&self, limits: &Limits, principal: Option<&str>) -> Result<(), Refused> {
        let passed = self.principals.tick(principal.unwrap_or_default(), &limits.principal);
        passed.map_err(|over| Refused::over(over, Whose::Principal))
    }

    /// Removes a request that [`pass`](Self::pass) has admitted from the count.
    pub(crate) fn refund(&self, limits: &Limits, principal: Option<&str>) {
        if let Some(rate) = limits.principal.rate {
            let mut taken = self.principals.taken();
            taken.share(principal.unwrap_or_default(), Instant::now()).rate.refund(rate);
        }
    }

    /// Admits a call. If the server already processes the maximum number of calls, the new call waits in the queue.
    pub(crate) async fn enter(
        &self,
        limits: &Limits,
        request: AdmissionRequest<'_>,
    ) -> Result<Admission, Refused> {
        let AdmissionRequest { principal, tool, bytes } = request;
        let bytes = bytes as u64;
        let caller = self
            .principals
            .enter(principal.unwrap_or_default(), &limits.principal, bytes)
            .map_err(|over| Refused::over(over, Whose::Principal))?;
        let tool = match tool {
            Some((name, quota)) => self
                .tools
                .enter(name, &quota.unwrap_or(limits.tool), bytes)
                .map_err(|over| Refused::over(over, Whose::Tool(name)))?,
            None => None,
        };
        let permit = match Arc::clone(&self.working).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait(limits).await?,
        };
        Ok(Admission {
            working: Arc::clone(&self.working),
            waiting: Arc::clone(&self.waiting),
            slot: Mutex::new(Some(Slot { waits: false, _permit: permit })),
            shares: Mutex::new([caller, tool]),
        })
    }

    /// Waits in the queue until another call releases a slot. Returns an error if the queue is full.
    async fn wait(&self, limits: &Limits) -> Result<OwnedSemaphorePermit, Refused> {
        let full = || Refused::full(limits.in_flight);
        let _waits = self.queue.try_acquire().map_err(|_| full())?;
        let permit = tokio::time::timeout(limits.queue_wait, Arc::clone(&self.working).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(full)
    }

    /// Returns a slot for requests that only wait for a user's answer.
    pub(crate) fn await_people(&self, limits: &Limits) -> Result<OwnedSemaphorePermit, Refused> {
        Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| Refused::waiting(limits.max_waiting))
    }
}

/// An admitted call. If you drop this value, the call releases its slot.
pub(crate) struct Admission {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    slot: Mutex<Option<Slot>>,
    /// The parts of the caller's quota and of the tool's quota that this call uses.
    shares: Mutex<[Option<Held>; 2]>,
}

/// The slot that an admitted call occupies. Calls that wait for users and calls in progress have different slots.
struct Slot {
    waits: bool,
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    fn slot(&self) -> MutexGuard<'_, Option<Slot>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the call as waiting for users, so that another call can use the slot of this call. If too many calls
    /// already wait for users, the call keeps its slot.
    pub(crate) fn rest(&self) {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|slot| !slot.waits)
            && let Ok(permit) = Arc::clone(&self.waiting).try_acquire_owned()
        {
            *slot = Some(Slot { waits: true, _permit: permit });
        }
    }

    /// Marks the call as in progress again. The server has already admitted the call, so the server does not reject the
    /// call now. The call waits until a slot is free.
    pub(crate) async fn resume(&self) {
        let waits = self.slot().as_ref().is_some_and(|slot| slot.waits);
        if waits && let Ok(permit) = Arc::clone(&self.working).acquire_owned().await {
            *self.slot() = Some(Slot { waits: false, _permit: permit });
        }
    }

    /// Counts the bytes of the response to this call.
    pub(crate) fn spend(&self, bytes: usize) {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.iter().flatten().for_each(|share| share.spend(bytes as u64));
    }

    /// Releases the slot of a call that becomes a task. The call then no longer counts in the quotas of the caller and
    /// the tool.
    pub(crate) fn leave(&self) {
        *self.slot() = None;
        *self.shares.lock().unwrap_or_else(PoisonError::into_inner) = [None, None];
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

/// When this number of callers or tools has an entry, unused entries are removed.
const SWEEP_THRESHOLD: usize = 1024;

/// For each caller or for each tool, counts how much of a [`Quota`] is in use.
#[derive(Clone, Debug, Default)]
struct Shares(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    of: HashMap<String, Share>,
    /// When this number of callers or tools has an entry, unused entries are removed again.
    sweep: usize,
}

#[derive(Debug, Default)]
struct Share {
    open: usize,
    rate: Meter,
    bytes: Meter,
}

impl Shares {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one request of the caller or tool `name`. The server answers this request immediately.
    fn tick(&self, name: &str, quota: &Quota) -> Result<(), Over> {
        let Some(rate) = quota.rate else { return Ok(()) };
        let now = Instant::now();
        self.taken().share(name, now).rate.take(rate, now).map_err(Over::Rate)
    }

    /// Counts one call of the caller or tool `name`. If you drop the returned value, the call no longer counts as in
    /// progress.
    fn enter(&self, name: &str, quota: &Quota, bytes: u64) -> Result<Option<Held>, Over> {
        if quota.is_unlimited() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut taken = self.taken();
        let share = taken.share(name, now);
        if let Some(most) = quota.concurrent.filter(|most| share.open >= *most) {
            return Err(Over::Concurrent(most));
        }
        if let Some(rate) = quota.bytes {
            share.bytes.look(rate, now).map_err(Over::Bytes)?;
        }
        if let Some(rate) = quota.rate {
            share.rate.take(rate, now).map_err(Over::Rate)?;
        }
        if let Some(rate) = quota.bytes {
            share.bytes.spend(rate, bytes, now);
        }
        share.open += 1;
        Ok(Some(Held { shares: self.clone(), name: name.to_owned(), quota: *quota }))
    }
}

impl Taken {
    fn share(&mut self, name: &str, now: Instant) -> &mut Share {
        if !self.of.contains_key(name) {
            if self.of.len() >= self.sweep.max(SWEEP_THRESHOLD) {
                self.of.retain(|_, share| {
                    share.open > 0 || !share.rate.is_full(now) || !share.bytes.is_full(now)
                });
                // The next removal of unused entries happens when the number of entries has doubled. So the average
                // cost of an insertion is constant.
                self.sweep = 2 * self.of.len();
            }
            self.of.insert(name.to_owned(), Share::default());
        }
        self.of.get_mut(name).expect("whoever was not there was added")
    }
}

/// A call in progress that counts in a quota.
struct Held {
    shares: Shares,
    name: String,
    quota: Quota,
}

impl Held {
    /// Counts additional bytes that belong to this call.
    fn spend(&self, bytes: u64) {
        let Some(rate) = self.quota.bytes else { return };
        let now = Instant::now();
        self.shares.taken().share(&self.name, now).bytes.spend(rate, bytes, now);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(share) = self.shares.taken().of.get_mut(&self.name) {
            share.open = share.open.saturating_sub(1);
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("quota", &self.quota).finish_non_exhaustive()
    }
}

/// Measures how much of a [`Rate`] is used. A single point in time is sufficient for this measurement.
#[derive(Debug, Default)]
struct Meter {
    /// The time at which the complete burst is available again.
    full: Option<Instant>,
}

impl Meter {
    /// Returns how long it takes from `now` until the complete burst is available again.
    fn missing(&self, now: Instant) -> Duration {
        self.full.map_or(Duration::ZERO, |full| full.saturating_duration_since(now))
    }

    /// Uses one unit of the rate. If no unit is available, returns the time to wait until a unit is available.
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        let missing = self.missing(now) + rate.time(1);
        match missing.checked_sub(rate.burst()) {
            None | Some(Duration::ZERO) => {
                self.full = Some(now + missing);
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }

    /// Makes one used unit of the rate available again.
    fn refund(&mut self, rate: Rate) {
        self.full = self.full.and_then(|full| full.checked_sub(rate.time(1)));
    }

    /// Checks whether a unit is available. If no unit is available, returns the time to wait until a unit is available.
    fn look(&self, rate: Rate, now: Instant) -> Result<(), Duration> {
        match self.missing(now).checked_sub(rate.burst()) {
            None => Ok(()),
            Some(wait) => Err(wait + rate.time(1)),
        }
    }

    /// Uses `count` units of the rate. If fewer than `count` units are available, later requests must wait until the
    /// rate has made up for the missing units.
    fn spend(&mut self, rate: Rate, count: u64, now: Instant) {
        self.full = Some(now + (self.missing(now) + rate.time(count)));
    }

    fn is_full(&self, now: Instant) -> bool {
        self.missing(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limiter(limits: &Limits) -> Limiter {
        Limiter::new(limits)
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_people_keeps_nobody_from_working() {
        let limits = Limits::default().with_in_flight(1);
        let limiter = limiter(&limits);
        let first = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        limiter.enter(&limits, AdmissionRequest::default()).await.unwrap_err();
        first.rest();
        let second = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        let resumed = tokio::time::timeout(Duration::from_secs(1), first.resume()).await;
        assert!(resumed.is_err(), "it waits for its turn");
        drop(second);
        first.resume().await;
        limiter.enter(&limits, AdmissionRequest::default()).await.unwrap_err();
    }

    #[tokio::test]
    async fn where_too_many_wait_for_people_they_count_as_work() {
        let limits = Limits::default().with_in_flight(2).with_max_waiting(1);
        let limiter = limiter(&limits);
        let first = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        let second = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        first.rest();
        second.rest();
        let _third = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        limiter.enter(&limits, AdmissionRequest::default()).await.unwrap_err();
        limiter.await_people(&limits).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_short_and_so_is_the_wait_in_it() {
        let limits = Limits::default().with_in_flight(1).with_queue(1, Duration::from_secs(2));
        let limiter = Arc::new(limiter(&limits));
        let first = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        let began = Instant::now();
        let waits = tokio::spawn({
            let (limiter, limits) = (Arc::clone(&limiter), limits.clone());
            async move { limiter.enter(&limits, AdmissionRequest::default()).await.is_ok() }
        });
        tokio::task::yield_now().await;
        limiter.enter(&limits, AdmissionRequest::default()).await.unwrap_err();
        assert!(began.elapsed().is_zero(), "the queue is full: nobody waits");
        drop(first);
        assert!(waits.await.unwrap());
        let _first = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap();
        let refused = limiter.enter(&limits, AdmissionRequest::default()).await.unwrap_err();
        assert!(began.elapsed() >= Duration::from_secs(2));
        assert_eq!(refused.data()["retryAfter"], 1);
    }

    #[tokio::test]
    async fn a_tool_has_its_own_quota_or_the_one_of_all() {
        let limits = Limits::default().with_tool(Quota::default().with_concurrent(2));
        let limiter = limiter(&limits);
        let visit =
            |tool, quota| AdmissionRequest { tool: Some((tool, quota)), ..AdmissionRequest::default() };
        let own = Some(Quota::default().with_concurrent(1));
        let _one = limiter.enter(&limits, visit("slow", own)).await.unwrap();
        let refused = limiter.enter(&limits, visit("slow", own)).await.unwrap_err();
        assert_eq!(
            refused.message(),
            "the tool `slow` reached its limit of 1 concurrent calls; try again in 1 s"
        );
        let _two = limiter.enter(&limits, visit("fast", None)).await.unwrap();
        let _three = limiter.enter(&limits, visit("fast", None)).await.unwrap();
        limiter.enter(&limits, visit("fast", None)).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_pays_for_another() {
        let shares = Shares::default();
        let quota = Quota::default().with_concurrent(1).with_rate(Rate::per_second(2));
        let ada = shares.enter("ada", &quota, 0).unwrap();
        assert_eq!(shares.enter("ada", &quota, 0).unwrap_err(), Over::Concurrent(1));
        let _grace = shares.enter("grace", &quota, 0).unwrap();
        drop(ada);
        drop(shares.enter("ada", &quota, 0).unwrap());
        let over = shares.enter("ada", &quota, 0).unwrap_err();
        assert_eq!(over, Over::Rate(Duration::from_millis(500)));
        tokio::time::advance(Duration::from_millis(500)).await;
        shares.tick("ada", &quota).unwrap();
        shares.tick("ada", &quota).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_answer_takes_is_missing_at_the_next_request() {
        let shares = Shares::default();
        let quota = Quota::default().with_bytes(Rate::per_second(1000));
        let held = shares.enter("ada", &quota, 10).unwrap().unwrap();
        held.spend(2500);
        drop(held);
        assert!(matches!(shares.enter("ada", &quota, 10), Err(Over::Bytes(_))));
        tokio::time::advance(Duration::from_secs(2)).await;
        shares.enter("ada", &quota, 10).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_take_nothing_are_forgotten() {
        let shares = Shares::default();
        let quota = Quota::default().with_rate(Rate::per_second(1)).with_concurrent(1);
        let stays = shares.enter("stays", &quota, 0).unwrap();
        for n in 0..5 * SWEEP_THRESHOLD {
            tokio::time::advance(Duration::from_secs(1)).await;
            drop(shares.enter(&n.to_string(), &quota, 0).unwrap());
        }
        let taken = shares.taken();
        assert!(taken.of.len() <= 2 * SWEEP_THRESHOLD, "{}", taken.of.len());
        assert_eq!(taken.of["stays"].open, 1);
        drop(taken);
        drop(stays);
    }

    #[test]
    fn a_burst_is_there_at_once_and_then_comes_back_evenly() {
        let (rate, now) = (Rate::per_second(10).with_burst(5), Instant::now());
        let mut meter = Meter::default();
        for _ in 0..5 {
            meter.take(rate, now).unwrap();
        }
        assert_eq!(meter.take(rate, now), Err(SECOND / 10));
        assert_eq!(meter.take(rate, now + SECOND / 20), Err(SECOND / 20));
        meter.take(rate, now + SECOND / 10).unwrap();
        meter.take(rate, now + SECOND / 10).unwrap_err();
        for _ in 0..5 {
            meter.take(rate, now + 10 * SECOND).unwrap();
        }
        meter.take(rate, now + 10 * SECOND).unwrap_err();
    }

    #[test]
    fn unit_that_is_given_back_can_be_taken_again() {
        let (rate, now) = (Rate::per_second(1).with_burst(2), Instant::now());
        let mut meter = Meter::default();
        meter.take(rate, now).unwrap();
        meter.take(rate, now).unwrap();
        meter.refund(rate);
        meter.take(rate, now).unwrap();
        meter.take(rate, now).unwrap_err();
        // If all units of the meter are available, a refund has no effect.
        meter.take(rate, now + 10 * SECOND).unwrap();
        meter.refund(rate);
        meter.take(rate, now + 10 * SECOND).unwrap();
        meter.take(rate, now + 10 * SECOND).unwrap();
        meter.take(rate, now + 10 * SECOND).unwrap_err();
    }

    #[test]
    fn what_was_spent_beyond_the_burst_is_paid_back_first() {
        let (rate, now) = (Rate::per_second(100), Instant::now());
        let mut meter = Meter::default();
        meter.look(rate, now).unwrap();
        meter.spend(rate, 400, now);
        let wait = meter.look(rate, now).unwrap_err();
        assert!(wait > 3 * SECOND && wait < 4 * SECOND, "{wait:?}");
        meter.look(rate, now + wait).unwrap();
        assert!(!meter.is_full(now + wait) && meter.is_full(now + 4 * SECOND));
    }

    #[test]
    fn nothing_overflows() {
        let mut meter = Meter::default();
        let (rate, now) = (Rate::new(1, Duration::MAX), Instant::now());
        meter.spend(rate, u64::MAX, now);
        meter.spend(rate, u64::MAX, now);
        assert!(meter.take(rate, now).is_err());
        assert_eq!(Rate::new(0, SECOND), Rate::new(1, SECOND));
    }
}
