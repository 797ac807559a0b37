//! Admission of requests.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    Limits, Quota,
    refused::{Refused, Whose},
    shares::{Held, Shares},
};

/// Counts the requests in progress, by server, caller and tool.
#[derive(Debug)]
pub(crate) struct Limiter {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    queue: Semaphore,
    principals: Shares,
    tools: Shares,
}

/// A request for admission.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) principal: Option<&'a str>,
    /// The name of the called tool, and the quota of the tool if it has one.
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

    /// Admits a request that is answered immediately. Only the caller's rate limit applies.
    pub(crate) fn pass(&self, limits: &Limits, principal: Option<&str>) -> Result<(), Refused> {
        let passed = self.principals.tick(principal.unwrap_or_default(), &limits.principal);
        passed.map_err(|over| Refused::over(over, Whose::Principal))
    }

    /// Admits a call. If the server is at its limit, the call waits in the queue.
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

    /// Waits for a free slot, unless the queue is full.
    async fn wait(&self, limits: &Limits) -> Result<OwnedSemaphorePermit, Refused> {
        let full = || Refused::full(limits.in_flight);
        let _waits = self.queue.try_acquire().map_err(|_| full())?;
        let permit = tokio::time::timeout(limits.queue_wait, Arc::clone(&self.working).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(full)
    }

    /// Returns a slot for requests that only wait for users.
    pub(crate) fn await_people(&self, limits: &Limits) -> Result<OwnedSemaphorePermit, Refused> {
        Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| Refused::waiting(limits.max_waiting))
    }
}

/// An admitted call. Dropping it releases its slot.
pub(crate) struct Admission {
    working: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    slot: Mutex<Option<Slot>>,
    /// The shares of the caller and of the tool.
    shares: Mutex<[Option<Held>; 2]>,
}

/// The slot of a call: among the waiting calls, or among the calls in progress.
struct Slot {
    waits: bool,
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    fn slot(&self) -> MutexGuard<'_, Option<Slot>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the call as waiting for users, which frees its slot for another call. If too many calls wait, the call
    /// keeps its slot.
    pub(crate) fn rest(&self) {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|slot| !slot.waits)
            && let Ok(permit) = Arc::clone(&self.waiting).try_acquire_owned()
        {
            *slot = Some(Slot { waits: true, _permit: permit });
        }
    }

    /// Marks the call as in progress. It was already admitted, so it waits for a slot and is not rejected.
    pub(crate) async fn resume(&self) {
        let waits = self.slot().as_ref().is_some_and(|slot| slot.waits);
        if waits && let Ok(permit) = Arc::clone(&self.working).acquire_owned().await {
            *self.slot() = Some(Slot { waits: false, _permit: permit });
        }
    }

    /// Counts the bytes of the answer.
    pub(crate) fn spend(&self, bytes: usize) {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.iter().flatten().for_each(|share| share.spend(bytes as u64));
    }

    /// Releases the slot and the shares of a call that continues as a task.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
        let began = tokio::time::Instant::now();
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
}
