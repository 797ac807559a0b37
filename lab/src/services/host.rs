//! A server of one command's own, which can be restarted.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::engine::{Engine, Site};
use super::process;
use super::topology::{self, Topology};
use crate::server;

const READY_LIMIT: Duration = Duration::from_mins(1);

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stop {
    /// With `kill -9`.
    #[value(name = "kill")]
    Killed,
    /// As an operator would.
    #[value(name = "ask")]
    Asked,
    /// With SIGSTOP: its connections stay open, and nobody answers.
    #[value(name = "stall")]
    Stalled,
    /// The network loses every packet between the clients and the server, which runs on.
    #[value(name = "partition")]
    Cut,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "with kill -9",
            Self::Asked => "politely",
            Self::Stalled => "with SIGSTOP",
            Self::Cut => "by a network partition",
        })
    }
}

/// A server of our own, or a topology of servers, which ends with this.
#[derive(Debug)]
pub(crate) struct Host {
    servers: Servers,
    /// How the server is stopped, one after the other.
    faults: Vec<Stop>,
    pub(crate) restarts: u64,
}

#[derive(Debug)]
enum Servers {
    Single(Single),
    Topology(Box<dyn topology::Servers>),
}

impl Host {
    pub(crate) fn start(engine: Engine, folder: &Path, settings: &'static [&'static str]) -> Result<Self> {
        let servers = Servers::Single(Single::start(engine, folder, settings)?);
        Ok(Self { servers, faults: vec![Stop::Killed, Stop::Asked], restarts: 0 })
    }

    pub(crate) fn start_topology(topology: Topology, folder: &Path) -> Result<Self> {
        let servers = Servers::Topology(topology.start(&folder.join("servers"))?);
        Ok(Self { servers, faults: topology.faults().to_vec(), restarts: 0 })
    }

    /// Stops the server in this way only, whatever its topology survives.
    pub(crate) fn with_fault(mut self, fault: Stop) -> Self {
        self.faults = vec![fault];
        self
    }

    /// Returns how the server is stopped the next time.
    pub(crate) fn next_fault(&self) -> Stop {
        self.faults[usize::try_from(self.restarts).unwrap_or(0) % self.faults.len()]
    }

    pub(crate) fn url(&self) -> String {
        match &self.servers {
            Servers::Single(single) => single.site.url(),
            Servers::Topology(servers) => servers.url(),
        }
    }

    /// Stops it, and starts it again after `pause`, without its data if it `forgets`. In a topology, this stops the
    /// server that accepts writes, and another server takes over.
    pub(crate) fn restart(&mut self, stop: Stop, pause: Duration, forgets: bool) -> Result<()> {
        match &mut self.servers {
            Servers::Single(single) => single.restart(stop, pause, forgets)?,
            Servers::Topology(servers) => {
                servers.fail(stop)?;
                thread::sleep(pause);
                servers.heal()?;
            }
        }
        self.restarts += 1;
        Ok(())
    }

    /// Stops it and removes its data.
    pub(crate) fn end(self) -> Result<()> {
        match self.servers {
            Servers::Single(mut single) => {
                single.kill();
                single.site.remove()
            }
            Servers::Topology(_) => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Single {
    site: Site,
    settings: &'static [&'static str],
    log: PathBuf,
    child: Child,
}

impl Single {
    fn start(engine: Engine, folder: &Path, settings: &'static [&'static str]) -> Result<Self> {
        let site = Site::prepare(engine, &folder.join("server"))?;
        let log = folder.join("server.log");
        let child = spawn(&site, settings, &log)?;
        let mut single = Self { site, settings, log, child };
        single.wait_until_ready()?;
        Ok(single)
    }

    fn restart(&mut self, stop: Stop, pause: Duration, forgets: bool) -> Result<()> {
        match stop {
            Stop::Killed => self.kill(),
            Stop::Asked => process::stop(&mut self.child, self.site.engine.stop_signal())?,
            Stop::Stalled => {
                process::signal_all(self.child.id(), "STOP")?;
                thread::sleep(pause);
                return process::signal_all(self.child.id(), "CONT");
            }
            Stop::Cut => bail!("only a topology can lose its network"),
        }
        thread::sleep(pause);
        if forgets {
            self.site.reset()?;
        }
        self.child = spawn(&self.site, self.settings, &self.log)?;
        self.wait_until_ready().context("the server did not come back")
    }

    fn kill(&mut self) {
        // Both fail only when the process has ended by itself, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while let Err(error) = self.site.check() {
            if let Some(status) = self.child.try_wait()? {
                if start.elapsed() > READY_LIMIT {
                    bail!("the server ended ({status}); it wrote:\n{}", server::tail(&self.log));
                }
                // PostgreSQL refuses to start while children of the one that was killed are still there.
                self.child = spawn(&self.site, self.settings, &self.log)?;
            }
            if start.elapsed() > READY_LIMIT {
                return Err(error).with_context(|| format!("not ready after {} s", READY_LIMIT.as_secs()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(site: &Site, settings: &[&str], log: &Path) -> Result<Child> {
    let output = server::log_file(log)?;
    let mut command = site.command()?;
    command.args(settings).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    command.spawn().with_context(|| format!("could not start {}", command.get_program().display()))
}
