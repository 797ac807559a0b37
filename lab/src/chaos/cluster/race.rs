//! Clients that start runs while processes are killed and the store's server is restarted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};

use super::crew::{Crew, now};
use super::{Cluster, TICK};

/// When the store's server is restarted, as a share of the runs in hundredths.
const RESTARTS: [u64; 2] = [33, 66];

/// The time between two kills, in milliseconds.
const QUIET: std::ops::Range<u64> = 60..300;

/// The numbers of runs, kills and clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) runs: u64,
    pub(crate) kills: u64,
    /// The number of clients that work at the same time.
    pub(crate) clients: u64,
    /// The number of seconds after which the command gives up.
    pub(crate) limit: u64,
    /// Whether a kill waits for the end of runs, as the start of a run waits for kills. On a backend on which runs are
    /// slow, all kills would otherwise happen during the first runs.
    pub(crate) kills_wait: bool,
}

/// The state that clients and kills share.
#[derive(Debug)]
pub(crate) struct Race {
    pace: Pace,
    next: AtomicU64,
    deaths: AtomicU64,
    over: AtomicBool,
    bar: ProgressBar,
}

impl Race {
    pub(crate) fn new(pace: Pace) -> Self {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {msg}, {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self {
            pace,
            next: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
            over: AtomicBool::new(false),
            bar: ProgressBar::new(pace.runs).with_style(style),
        }
    }

    /// Returns the number of the next run as soon as the run can start. Returns `None` after the last run.
    pub(crate) fn next_run(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.pace.runs {
            return None;
        }
        // Runs start as processes die, so that both are done at about the same time.
        while !self.is_over() && !self.pace.is_run_due(number, self.deaths.load(Ordering::Relaxed)) {
            thread::sleep(TICK);
        }
        (!self.is_over()).then_some(number)
    }

    /// Counts a run that has ended.
    pub(crate) fn end_run(&self) {
        self.bar.inc(1);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Runs clients, and kills processes until all runs have ended. Returns the times at which the store's server was
    /// away.
    pub(crate) fn run(
        &self,
        cluster: &mut Cluster,
        client: impl Fn(Rng) + Sync,
        kill: impl FnMut(&mut Crew, &mut Rng) -> Result<()>,
    ) -> Result<Vec<(u64, u64)>> {
        let client = &client;
        let outcome = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.pace.clients.max(1))
                .map(|_| {
                    let rng = cluster.rng.fork();
                    scope.spawn(move || client(rng))
                })
                .collect();
            let outcome = self.kill_at_random(cluster, kill);
            self.over.store(outcome.is_err(), Ordering::Relaxed);
            for client in clients {
                ensure!(client.join().is_ok(), "a client panicked");
            }
            outcome
        });
        self.bar.finish_and_clear();
        outcome
    }

    fn kill_at_random(
        &self,
        cluster: &mut Cluster,
        mut kill: impl FnMut(&mut Crew, &mut Rng) -> Result<()>,
    ) -> Result<Vec<(u64, u64)>> {
        let Pace { runs, kills, limit, .. } = self.pace;
        let Cluster { host, crew, rng, .. } = cluster;
        let mut absences = Vec::new();
        let mut restarts = RESTARTS.iter().peekable();
        let start = Instant::now();
        let (mut said, mut next_kill) = (start, start);
        while self.bar.position() < runs {
            thread::sleep(TICK);
            crew.check()?;
            let deaths = crew.killed + crew.fallen;
            self.deaths.store(deaths, Ordering::Relaxed);
            self.bar.set_message(format!("{deaths} died"));
            if self.bar.is_hidden() && said.elapsed() > Duration::from_secs(5) {
                eprintln!("{} of {runs} runs, {deaths} died", self.bar.position());
                said = Instant::now();
            }
            let share = 100 * self.bar.position() / runs.max(1);
            if restarts.next_if(|at| **at <= share).is_some() {
                let (stop, pause) = (host.next_fault(), Duration::from_millis(rng.u64(..1000)));
                self.bar.suspend(|| eprintln!("restarting the store's server at {share} %, {stop}"));
                let gone = now();
                host.restart(stop, pause, false)?;
                absences.push((gone, now()));
            }
            let is_due = deaths < kills && self.pace.is_kill_due(deaths, self.bar.position());
            if is_due && Instant::now() >= next_kill {
                kill(crew, rng)?;
                next_kill = Instant::now() + Duration::from_millis(rng.u64(QUIET));
            }
            ensure!(
                start.elapsed().as_secs() < limit,
                "after {limit} s only {} of {runs} runs have ended",
                self.bar.position()
            );
        }
        Ok(absences)
    }
}

impl Pace {
    /// Returns whether a run can start: the runs are at most a tenth ahead of the deaths.
    fn is_run_due(&self, number: u64, deaths: u64) -> bool {
        number * self.kills <= (deaths + self.kills / 10 + 1) * self.runs
    }

    /// Returns whether the next process can be killed: the deaths are at most a tenth ahead of the ended runs.
    fn is_kill_due(&self, deaths: u64, ended: u64) -> bool {
        !self.kills_wait || deaths * self.runs <= (ended + self.runs / 10 + 1) * self.kills
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(runs: u64, kills: u64) -> Pace {
        Pace { runs, kills, clients: 1, limit: 1, kills_wait: true }
    }

    #[test]
    fn runs_and_kills_wait_for_each_other_and_all_happen() {
        for (runs, kills) in [(1000, 500), (150, 500), (7, 3), (1, 1), (60, 20), (500, 1)] {
            let pace = pace(runs, kills);
            let (mut started, mut deaths) = (0, 0);
            while started < runs || deaths < kills {
                let before = (started, deaths);
                while started < runs && pace.is_run_due(started, deaths) {
                    started += 1;
                }
                // All runs that have started end before the next kill.
                if deaths < kills && pace.is_kill_due(deaths, started) {
                    deaths += 1;
                }
                assert_ne!(before, (started, deaths), "{runs} runs and {kills} kills stop at {before:?}");
            }
        }
    }

    #[test]
    fn kills_wait_for_slow_runs_only_if_they_are_told_to() {
        assert!(pace(1000, 500).is_kill_due(50, 0));
        assert!(!pace(1000, 500).is_kill_due(60, 0));
        assert!(Pace { kills_wait: false, ..pace(1000, 500) }.is_kill_due(499, 0));
    }
}
