//! Breaks things, one after the other, and waits until all is well again.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;

use super::balancer::Balancer;
use super::fault::{Fault, Turns};
use super::replicas::{COUNT, ELDEST, Replicas};
use super::window::Windows;
use crate::services::{Backend, Host, Stop, postgres_program};

/// How long a fleet may take to be whole again.
const RECOVERY: Duration = Duration::from_mins(1);

/// How long before the end nothing is broken any more.
const CALM: Duration = Duration::from_secs(5);

/// Whoever breaks things.
#[derive(Debug)]
pub(super) struct Breaker<'a> {
    pub(super) replicas: &'a Replicas,
    pub(super) balancer: &'a Balancer,
    pub(super) windows: &'a Windows,
    pub(super) backend: Backend,
    pub(super) host: &'a mut Host,
    pub(super) rng: Rng,
    /// From the beginning of one fault to that of the next.
    pub(super) every: Duration,
    pub(super) until: Instant,
    /// Whether every kind has had its turn: it goes on until then.
    pub(super) had_all: &'a AtomicBool,
}

impl Breaker<'_> {
    /// Breaks one thing after the other until it is over.
    pub(super) fn rage(&mut self, over: &AtomicBool, tell: impl Fn(Fault)) -> Result<()> {
        let mut due = Instant::now() + self.every;
        for (number, fault) in Turns::new(self.rng.fork()).enumerate() {
            let had_all = number >= Fault::ALL.len();
            self.had_all.store(had_all, Ordering::Relaxed);
            while Instant::now() < due {
                if over.load(Ordering::Relaxed) || had_all && due + CALM > self.until {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(50));
            }
            tell(fault);
            self.windows.open(fault);
            self.perform(fault).with_context(|| format!("after `{fault}`"))?;
            self.wait_until_whole().with_context(|| format!("after `{fault}`"))?;
            self.windows.close();
            // One that took longer than its time does not bring the next one on sooner.
            due = (due + self.every).max(Instant::now() + self.every / 4);
        }
        Ok(())
    }

    fn perform(&mut self, fault: Fault) -> Result<()> {
        let younger = self.rng.usize(ELDEST + 1..COUNT);
        match fault {
            Fault::Kill => {
                self.replicas.kill(younger);
                let pause = self.rng.u64(1000..4000);
                self.wait(pause);
                self.replicas.begin(younger)
            }
            Fault::Roll => {
                self.balancer.set_out(younger, true);
                self.wait(500);
                self.replicas.ask_to_end(younger)?;
                self.replicas.begin(younger)?;
                self.balancer.set_out(younger, false);
                Ok(())
            }
            Fault::Stop => {
                let any = self.rng.usize(..COUNT);
                self.replicas.signal(any, "STOP")?;
                self.wait(5000);
                self.replicas.signal(any, "CONT")
            }
            Fault::Restart => {
                let stop = if self.rng.bool() { Stop::Killed } else { Stop::Asked };
                self.host.restart(stop, Duration::from_millis(self.rng.u64(..1000)), false)
            }
            Fault::Sever => self.sever(),
            Fault::Cut => {
                self.balancer.cut();
                self.wait(2000);
                self.balancer.mend();
                Ok(())
            }
            Fault::Drain => {
                self.balancer.set_out(ELDEST, true);
                self.wait(5000);
                self.balancer.set_out(ELDEST, false);
                Ok(())
            }
        }
    }

    /// In a hurry, faults are shorter.
    fn wait(&self, millis: u64) {
        thread::sleep(Duration::from_millis(millis).min(self.every / 3));
    }

    /// PostgreSQL ends the connections of others when it is asked to. The others are restarted instead.
    fn sever(&mut self) -> Result<()> {
        if !matches!(self.backend, Backend::Postgres) {
            return self.host.restart(Stop::Asked, Duration::ZERO, false);
        }
        let mut command = Command::new(postgres_program("psql")?);
        command.arg(self.host.url()).args(["--quiet", "--no-psqlrc", "--tuples-only", "--command"]);
        command.arg(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
        );
        let status = command.stdout(Stdio::null()).status().context("could not start `psql`")?;
        ensure!(status.success(), "`psql` failed ({status})");
        Ok(())
    }

    fn wait_until_whole(&self) -> Result<()> {
        let start = Instant::now();
        // Asked directly: what the balancer knows may be from before.
        while !(0..COUNT).all(|number| self.replicas.is_ready(number) && self.balancer.is_ready(number)) {
            ensure!(start.elapsed() < RECOVERY, "not all replicas are ready after {} s", RECOVERY.as_secs());
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
