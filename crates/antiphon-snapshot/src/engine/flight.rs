//! Runs an operation only once if several callers request it at the same time.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use antiphon_results::DualResponseError;
use tokio::sync::watch;

use crate::error::Error;

/// The time for which an operation continues without a waiting caller.
const GRACE: Duration = Duration::from_mins(1);

type Outcome = Option<Result<u64, Arc<DualResponseError>>>;

/// The operations that are currently running. The map key is the name of the operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights {
    flights: Arc<Mutex<HashMap<String, Flight>>>,
}

#[derive(Clone, Debug)]
struct Flight {
    outcome: watch::Receiver<Outcome>,
    waiting: watch::Sender<usize>,
}

impl Flights {
    /// Waits for the operation with this name, and starts the operation if it is not running.
    ///
    /// If the caller drops the future of `join`, the operation continues. An operation without a waiting caller is
    /// cancelled after the duration [`GRACE`].
    pub(crate) async fn join<W>(
        &self,
        name: String,
        work: impl FnOnce() -> W,
    ) -> Result<u64, DualResponseError>
    where
        W: Future<Output = Result<u64, DualResponseError>> + Send + 'static,
    {
        let (mut outcome, _waiter) = {
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            let flight = if let Some(flight) = flights.get(&name) {
                flight.clone()
            } else {
                let flight = self.begin(name.clone(), work());
                flights.insert(name, flight.clone());
                flight
            };
            (flight.outcome, Waiter::new(flight.waiting))
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(rows))) => Ok(*rows),
            Ok(Some(Err(error))) => Err(again(error)),
            // The task ended without a result.
            Ok(None) | Err(_) => Err(Error::Broken(
                "the snapshot operation panicked or was cancelled; the server's log has the reason".into(),
            )
            .into()),
        }
    }

    fn begin<W>(&self, name: String, work: W) -> Flight
    where
        W: Future<Output = Result<u64, DualResponseError>> + Send + 'static,
    {
        let (waiting, mut waiters) = watch::channel(0);
        let (done, outcome) = watch::channel(None);
        // The entry is removed when the operation ends, even if the operation panics.
        let listed = Listed { flights: self.clone(), name };
        tokio::spawn(async move {
            let listed = listed;
            let result = tokio::select! {
                result = work => Some(result),
                () = abandoned(&mut waiters) => None,
            };
            drop(listed);
            if let Some(result) = result {
                done.send_replace(Some(result.map_err(Arc::new)));
            }
        });
        Flight { outcome, waiting }
    }
}

/// Completes when the operation has had no waiting caller for the duration [`GRACE`].
async fn abandoned(waiters: &mut watch::Receiver<usize>) {
    loop {
        // The map keeps the sender while the operation runs, so the channel is not closed during the two waits.
        let _ = waiters.wait_for(|waiting| *waiting == 0).await;
        let again = waiters.wait_for(|waiting| *waiting > 0);
        if tokio::time::timeout(GRACE, again).await.is_err() {
            return;
        }
    }
}

/// A caller that waits for a running operation.
struct Waiter(watch::Sender<usize>);

impl Waiter {
    fn new(waiting: watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

struct Listed {
    flights: Flights,
    name: String,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.flights.flights.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// Copies an error, so that each waiting caller gets a copy. The copy keeps the variants that callers can handle. All
/// other errors become `DualResponseError::Snapshot`.
fn again(error: &Arc<DualResponseError>) -> DualResponseError {
    match &**error {
        DualResponseError::NotFound => DualResponseError::NotFound,
        DualResponseError::Invalid(text) => DualResponseError::Invalid(text.clone()),
        DualResponseError::TooLarge(text) => DualResponseError::TooLarge(text.clone()),
        DualResponseError::Timeout { limit } => DualResponseError::Timeout { limit: *limit },
        DualResponseError::Busy { retry_after } => DualResponseError::Busy { retry_after: *retry_after },
        _ => DualResponseError::Snapshot(Arc::clone(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn many_who_ask_share_one_piece_of_work() {
        let flights = Flights::default();
        let begun = AtomicUsize::new(0);
        let asked = (0..8).map(|_| {
            flights.join("view".into(), || {
                begun.fetch_add(1, Ordering::Relaxed);
                async {
                    tokio::task::yield_now().await;
                    Ok(7)
                }
            })
        });
        let answers = futures_util::future::join_all(asked).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap() == 7));
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        assert!(flights.flights.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn whoever_asks_again_after_a_failure_begins_anew() {
        let flights = Flights::default();
        let failed = flights.join("view".into(), || async { Err(DualResponseError::NotFound) }).await;
        assert!(matches!(failed, Err(DualResponseError::NotFound)), "{failed:?}");
        assert_eq!(flights.join("view".into(), || async { Ok(1) }).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_for_those_who_wait_and_forgotten() {
        let flights = Flights::default();
        let failed = flights.join("view".into(), || async { panic!("on purpose") }).await;
        assert!(matches!(failed, Err(DualResponseError::Snapshot(_))), "{failed:?}");
        assert!(flights.flights.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_for_a_while_without_anybody_and_then_stops() {
        let flights = Flights::default();
        let (held, dropped) = oneshot::channel::<()>();
        let work = || async move {
            let _held = held;
            std::future::pending().await
        };
        let first = flights.join("view".into(), work);
        assert!(tokio::time::timeout(Duration::from_secs(5), first).await.is_err());
        // A second caller within the grace period joins the same operation, and the period starts again.
        tokio::time::advance(GRACE.saturating_sub(Duration::from_secs(10))).await;
        let second = flights.join("view".into(), || async { unreachable!("it is under way") });
        assert!(tokio::time::timeout(Duration::from_secs(20), second).await.is_err());
        let asked = tokio::time::Instant::now();
        let _ = dropped.await;
        assert!(asked.elapsed() >= GRACE.saturating_sub(Duration::from_secs(1)), "{:?}", asked.elapsed());
        assert!(flights.flights.lock().unwrap().is_empty());
    }
}
