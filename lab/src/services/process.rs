//! A process that outlives us, and how to tell it from another that has its number.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::proc;

/// How long a server may take to put its things away.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running process. Numbers are given out again; a number and a start time are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    started: String,
}

impl Process {
    /// The process of that number, if there is one.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let started = match proc::stat(pid) {
            Some(stat) => start_time(&stat)?,
            None if Path::new("/proc/self").exists() => return None,
            None => ask_ps(pid)?,
        };
        Some(Self { pid, started })
    }

    pub(super) fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Ends it politely, with `signal`, and at once if it does not hear.
    pub(super) fn stop(&self, signal: &str) -> Result<()> {
        for signal in [signal, "KILL"] {
            let start = Instant::now();
            if self.is_alive() {
                self.signal(signal)?;
            }
            while start.elapsed() < PATIENCE {
                if !self.is_alive() {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        anyhow::bail!("process {} cannot be stopped", self.pid)
    }

    fn signal(&self, name: &str) -> Result<()> {
        ensure!(signal(self.pid, name)? || !self.is_alive(), "may not stop process {}", self.pid);
        Ok(())
    }
}

/// Sends a signal by its name, and says whether it could be sent.
///
/// The shell has `kill` built in; as a program it is not everywhere.
pub(crate) fn signal(pid: u32, name: &str) -> Result<bool> {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$0\" \"$1\"", name, &pid.to_string()]).stderr(Stdio::null());
    Ok(command.status().context("could not start `sh`")?.success())
}

/// Sends a signal to a process and to its children. PostgreSQL has one for each connection.
pub(super) fn signal_all(pid: u32, name: &str) -> Result<()> {
    // First the parent, so that it starts no other children.
    ensure!(signal(pid, name)?, "may not signal process {pid}");
    for child in children(pid)? {
        // A child can end at any time.
        signal(child, name)?;
    }
    Ok(())
}

/// Kills a process and its children, also if they are stopped.
pub(super) fn kill_all(pid: u32) -> Result<()> {
    // A stopped process starts no other children, and a killed one has none.
    signal(pid, "STOP")?;
    for process in children(pid)?.into_iter().chain([pid]) {
        signal(process, "KILL")?;
    }
    Ok(())
}

/// Returns the processes that a process has started.
pub(crate) fn children(pid: u32) -> Result<Vec<u32>> {
    let processes = fs::read_dir("/proc").context("this needs Linux's /proc")?;
    Ok(processes
        .filter_map(|entry| {
            let child: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = proc::stat(child)?;
            (proc::field(&stat, 4)?.parse() == Ok(pid)).then_some(child)
        })
        .collect())
}

/// Ends a server of ours as an operator would.
pub(super) fn stop(child: &mut Child, signal: &str) -> Result<()> {
    if let Some(process) = Process::of(child.id()) {
        process.stop(signal)?;
    }
    child.wait().context("could not collect a server")?;
    Ok(())
}

/// When it was started. A process that only waits to be collected by its parent has ended.
fn start_time(stat: &str) -> Option<String> {
    let state = proc::field(stat, 3)?;
    (!matches!(state, "Z" | "X")).then(|| proc::field(stat, 22).map(String::from))?
}

/// For systems without `/proc`.
fn ask_ps(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output().ok()?;
    let started = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!started.is_empty()).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_of_the_same_number_is_not_ours() {
        let us = Process::of(std::process::id()).unwrap();
        assert!(us.is_alive());
        assert!(!Process { started: "1".into(), ..us }.is_alive());
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive_though_it_has_a_number() {
        let mut child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_alive());
        process.stop("INT").unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_waits_to_be_collected_has_no_start_time() {
        let stat = "7 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 4711 1 1";
        assert_eq!(start_time(stat).as_deref(), Some("4711"));
        assert_eq!(start_time(&stat.replace(" S ", " Z ")), None);
    }
}
