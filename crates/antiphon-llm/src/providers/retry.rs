//! Retries with backoff and a deadline.

use std::{
    future::Future,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use tokio::time::Instant;

use super::{config::ProviderConfig, failure::Failure};
use crate::error::{Error, Result};

/// A timeout of ten years, which is longer than any useful timeout, and short enough for arithmetic.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Calls `attempt` until `attempt` succeeds, within the timeout and the number of retries in `config`.
pub(super) async fn with_retries<T, F>(config: &ProviderConfig, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T, Failure>>,
{
    let now = Instant::now();
    let deadline = now.checked_add(config.timeout).unwrap_or(now + FOREVER);
    let mut tries = 0;
    loop {
        let Ok(result) = tokio::time::timeout_at(deadline, attempt()).await else {
            return Err(Error::Timeout(config.timeout));
        };
        let Failure { error, retry_after } = match result {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        if !error.is_retryable() || tries >= config.retries {
            return Err(error);
        }
        let Some(wait) = wait(config, tries, retry_after, random()) else { return Err(error) };
        // Do not wait beyond the deadline.
        if Instant::now() + wait >= deadline {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        tries += 1;
    }
}

/// Returns the time to wait after `tries` retries. `asked` is the time that the provider asks the client to wait.
/// Returns `None` if the time `asked` is too long.
fn wait(config: &ProviderConfig, tries: u32, asked: Option<Duration>, random: f64) -> Option<Duration> {
    let longest = config.max_backoff.min(FOREVER);
    match asked {
        Some(asked) if asked > longest => None,
        // Add a random part, so that rejected clients do not retry at the same time.
        Some(asked) => Some(asked.mul_f64(1.0 + random / 10.0)),
        None => {
            let doubled = config.backoff.saturating_mul(2_u32.saturating_pow(tries)).min(longest);
            Some(doubled.mul_f64(0.5 + random / 2.0))
        }
    }
}

/// Returns a random number from 0 to 1. The random keys of a new hasher are random enough for the delay of a retry.
#[expect(clippy::cast_precision_loss, reason = "53 bits are plenty for a wait")]
fn random() -> f64 {
    (random_bits() >> 11) as f64 / (1_u64 << 53) as f64
}

pub(super) fn random_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ProviderConfig {
        ProviderConfig::local().with_backoff(Duration::from_secs(1), Duration::from_secs(5))
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits = (0..4).map(|tries| wait(&config(), tries, None, 1.0).unwrap().as_secs());
        assert_eq!(waits.collect::<Vec<_>>(), [1, 2, 4, 5]);
        assert_eq!(wait(&config(), 0, None, 0.0), Some(Duration::from_millis(500)));
    }

    #[test]
    fn a_provider_is_waited_for_as_it_asks_but_not_longer_than_allowed() {
        let asked = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(wait(&config(), 0, asked(3), 0.0), asked(3));
        assert_eq!(wait(&config(), 0, asked(6), 0.0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_is_too_long_to_count() {
        let config = config().with_timeout(Duration::MAX).with_backoff(Duration::MAX, Duration::MAX);
        assert_eq!(wait(&config, 9, Some(Duration::MAX), 1.0), None);
        assert!(wait(&config, u32::MAX, None, 1.0).is_some());
        assert_eq!(with_retries(&config, || std::future::ready(Ok(1))).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_for_good_is_not_tried_again() {
        let mut tries = 0;
        let result: Result<()> = with_retries(&config(), || {
            tries += 1;
            std::future::ready(Err(Error::Unauthorized { status: 401 }.into()))
        })
        .await;
        assert_eq!((result, tries), (Err(Error::Unauthorized { status: 401 }), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_is_for_all_tries_together() {
        let config = config().with_retries(100).with_timeout(Duration::from_secs(20));
        let started = Instant::now();
        let result: Result<()> =
            with_retries(&config, || std::future::ready(Err(Error::Unavailable("busy".into()).into()))).await;
        assert_eq!(result, Err(Error::Unavailable("busy".into())));
        assert!(started.elapsed() < Duration::from_secs(20));
        let result: Result<()> = with_retries(&config, std::future::pending).await;
        assert_eq!(result, Err(Error::Timeout(Duration::from_secs(20))));
    }
}
