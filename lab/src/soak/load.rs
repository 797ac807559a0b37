//! Visits that begin when they are due, whatever became of those before them.
//!
//! A closed loop would wait for slow answers, and so ask less just when it matters. Here a visit that finds nobody free
//! is late, and its time counts from when it was due.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::caller::World;
use super::visit::{self, Kind};

/// How many visits are under way at most: those of twenty seconds at the usual rate.
const HANDS: usize = 256;

/// What does not need much of a stack.
const STACK: usize = 512 * 1024;

/// A visit begins late if it is so much later than it was due.
const LATE: Duration = Duration::from_millis(100);

/// How much longer it goes on at most, if not everything was broken in time.
const LONGER: Duration = Duration::from_mins(5);

/// Hands out what comes in turn to whoever is free.
type Hand<T> = Mutex<mpsc::Receiver<T>>;

/// The load.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) world: &'a World,
    /// Visits in a second.
    pub(super) rate: u64,
    pub(super) until: Instant,
    pub(super) over: &'a AtomicBool,
    /// Whether every kind of fault has had its turn.
    pub(super) had_all: &'a AtomicBool,
}

/// A visit that is due.
struct Visit {
    kind: Kind,
    due: Instant,
    rng: Rng,
}

impl Load<'_> {
    /// Begins visits until it is over, and waits for the last of them to end.
    pub(super) fn run(&self, mut rng: Rng) {
        let (sender, receiver) = mpsc::channel::<Visit>();
        let receiver: Hand<Visit> = Mutex::new(receiver);
        thread::scope(|scope| {
            for _ in 0..HANDS {
                let builder = thread::Builder::new().stack_size(STACK);
                // With fewer hands visits are late, which is counted.
                let _ = builder.spawn_scoped(scope, || self.work(&receiver));
            }
            let mut due = Instant::now();
            while self.goes_on(due) {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let visit = Visit { kind: Kind::draw(&mut rng), due, rng: rng.fork() };
                if sender.send(visit).is_err() {
                    break;
                }
                due += gap(&mut rng, self.rate);
            }
            drop(sender);
        });
    }

    fn goes_on(&self, due: Instant) -> bool {
        let until = if self.had_all.load(Ordering::Relaxed) { self.until } else { self.until + LONGER };
        due < until && !self.over.load(Ordering::Relaxed)
    }

    fn work(&self, visits: &Hand<Visit>) {
        loop {
            let next = visits.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Visit { kind, due, mut rng }) = next else { return };
            if self.over.load(Ordering::Relaxed) {
                continue;
            }
            if due.elapsed() > LATE {
                self.world.tally.count(|counts| counts.late += 1);
            }
            visit::make(self.world, kind, due, &mut rng);
        }
    }
}

/// As people come: independently of each other.
fn gap(rng: &mut Rng, rate: u64) -> Duration {
    let mean = Duration::from_secs(1).as_secs_f64() / f64::from(u32::try_from(rate).unwrap_or(u32::MAX));
    Duration::from_secs_f64(-mean * (1.0 - rng.f64()).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_differ_and_come_to_the_rate() {
        let mut rng = Rng::with_seed(3);
        let gaps: Vec<Duration> = (0..10_000).map(|_| gap(&mut rng, 50)).collect();
        let all: Duration = gaps.iter().sum();
        assert!((190.0..210.0).contains(&all.as_secs_f64()), "{all:?}");
        assert!(gaps.iter().max() > gaps.iter().min());
    }
}
