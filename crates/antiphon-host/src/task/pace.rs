//! The interval between the polls of a task, and the retries after lost connections.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    info::TaskInfo,
    known::{TaskListening, Tasks},
};
use crate::{
    connection::jittered,
    error::{Error, Result},
    host::HostLimits,
};

/// The minimum interval between polls, even if the server suggests a shorter interval.
const FLOOR: Duration = Duration::from_millis(50);
/// The first interval if the server suggests no interval. The interval doubles until the task changes.
const FIRST: Duration = Duration::from_millis(200);
/// The longest interval if the server suggests no interval.
const LONGEST: Duration = Duration::from_secs(5);

/// A timer that determines when the host polls a task again. The timer ends after an interval, or after a
/// notification.
pub(super) struct Pace {
    longest: Duration,
    own: Duration,
    seen: Option<TaskInfo>,
    told: Arc<Notify>,
    _listening: TaskListening,
}

impl Pace {
    pub(super) fn new(tasks: &Tasks, id: &str, limits: &HostLimits) -> Self {
        let told = Arc::new(Notify::new());
        let tell = Arc::clone(&told);
        let listening = tasks.listen(id, Arc::new(move |_| tell.notify_one()));
        Self { longest: limits.longest_poll.max(FLOOR), own: FIRST, seen: None, told, _listening: listening }
    }

    /// Waits until the next poll. The returned future can be dropped and created again.
    pub(super) fn rest(&mut self, info: &TaskInfo) -> impl Future<Output = ()> + use<> {
        let wait = self.wait(info);
        let now = Instant::now();
        let told = Arc::clone(&self.told);
        async move {
            tokio::select! {
                () = sleep_until(now + wait) => {}
                // Even with many notifications, the interval between polls is at least `FLOOR`.
                () = told.notified() => sleep_until(now + FLOOR).await,
            }
        }
    }

    fn wait(&mut self, info: &TaskInfo) -> Duration {
        if !self.seen.as_ref().is_some_and(|seen| seen.is_same(info)) {
            self.own = FIRST;
            self.seen = Some(info.clone());
        }
        if let Some(suggested) = info.poll_interval {
            // Add up to a tenth of the interval, so that many hosts do not poll at the same time.
            let spread = suggested / 5;
            let later = jittered(spread).saturating_sub(spread / 2);
            return suggested.saturating_add(later).clamp(FLOOR, self.longest);
        }
        let wait = self.own;
        self.own = (wait * 2).min(LONGEST);
        jittered(wait).clamp(FLOOR, self.longest)
    }
}

/// The error code of a server that is overloaded, or whose store is unavailable. For the requests that [`Losses`]
/// retries, this error code never means that a task has failed.
pub(super) const INTERNAL_ERROR: i32 = -32603;

/// Returns whether a retry of the request can succeed after this error.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Lost { .. } | Error::Timeout { .. } | Error::Server { code: INTERNAL_ERROR, .. })
}

/// The retries after lost connections, for requests that only read data or are idempotent.
pub(super) struct Losses {
    limits: HostLimits,
    borne: u32,
}

impl Losses {
    pub(super) fn new(limits: &HostLimits) -> Self {
        Self { limits: limits.clone(), borne: 0 }
    }

    /// Waits until the request can be retried. Returns the error if a retry cannot succeed or the limit is reached.
    pub(super) async fn bear(&mut self, error: Error) -> Result<()> {
        if !is_passing(&error) || self.borne >= self.limits.reconnects {
            return Err(error);
        }
        let wait = self.limits.backoff * 2_u32.saturating_pow(self.borne);
        self.borne += 1;
        sleep(jittered(wait.min(self.limits.max_backoff))).await;
        Ok(())
    }

    /// Resets the number of retries after a response.
    pub(super) fn over(&mut self) {
        self.borne = 0;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(message: &str, interval: Option<u64>) -> TaskInfo {
        let mut task = json!({"taskId": "1", "status": "working", "statusMessage": message});
        if let Some(interval) = interval {
            task["pollInterval"] = json!(interval);
        }
        TaskInfo::read(&task).unwrap()
    }

    #[test]
    fn a_suggested_interval_is_kept_within_bounds() {
        let limits = HostLimits::default().with_longest_poll(Duration::from_secs(2));
        let mut pace = Pace::new(&Tasks::default(), "1", &limits);
        for _ in 0..100 {
            let wait = pace.wait(&task("", Some(1000)));
            assert!(wait >= Duration::from_secs(1) && wait <= Duration::from_millis(1100), "{wait:?}");
        }
        assert_eq!(pace.wait(&task("", Some(0))), FLOOR);
        assert_eq!(pace.wait(&task("", Some(3_600_000))), Duration::from_secs(2));
    }

    #[test]
    fn without_a_suggestion_waits_grow_until_the_task_changes() {
        let mut pace = Pace::new(&Tasks::default(), "1", &HostLimits::default());
        let waits: Vec<Duration> = (0..12).map(|_| pace.wait(&task("a", None))).collect();
        assert!(waits[0] <= FIRST && waits[11] > LONGEST / 3 && waits[11] <= LONGEST, "{waits:?}");
        assert!(pace.wait(&task("b", None)) <= FIRST);
    }

    #[tokio::test]
    async fn what_a_server_tells_ends_the_wait_but_not_before_the_floor() {
        let tasks = Tasks::default();
        let mut pace = Pace::new(&tasks, "1", &HostLimits::default());
        let begun = Instant::now();
        let rest = pace.rest(&task("", Some(30_000)));
        tasks.tell(&task("told", None));
        rest.await;
        assert!(begun.elapsed() >= FLOOR && begun.elapsed() < Duration::from_secs(20));
    }
}
